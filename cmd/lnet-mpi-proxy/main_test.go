package main

import (
	"log/slog"
	"strings"
	"testing"
)

// The log has warnings and errors unless the user wants others, as the help says.
func TestDefaultLevel(t *testing.T) {
	o := newOptions()
	c := o.command(func() error { return nil })
	if f := c.Flags().Lookup("log-level"); slog.Level(o.level) != slog.LevelWarn || f.DefValue != "WARN" || !strings.HasSuffix(f.Usage, "(default warn)") {
		t.Errorf("the level is %v, the default %q of %q", slog.Level(o.level), f.DefValue, f.Usage)
	}
}

// Options that cannot be used, and a program that no mpirun has started, end with a text that says what is wrong.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		args, want string
		status     int
	}{
		{"--on-error ignore", "'--on-error': 'ignore' is not return or abort", exitUsage},
		{"--net tcp", "'--net'", exitUsage},
		{"--net mpi70000", "'--net'", exitUsage},
		{"--nid 10.0.0.1@mpi3", "10.0.0.1@mpi3 is not on the net mpi", exitUsage},
		{"--nid x", "'--nid'", exitUsage},
		{"--rank-bits 7", "'--rank-bits': 7 is not from 8 to 20", exitUsage},
		{"--rank-bits many", "'--rank-bits': 'many' is not a whole number", exitUsage},
		{"--timeout 0s", "a time must be positive", exitUsage},
		{"--max-ahead -1", "'--max-ahead': -1 is not from 0 to 1048576", exitUsage},
		{"--listen /x --spawned", "exclude each other", exitUsage},
		{"--set short_max", "'short_max' is not NAME=VALUE", exitUsage},
		{"--set short_max=x", "is not a whole number", exitUsage},
		{"--set short_max=-1", "'--set'", exitUsage},
		{"--set nothing=1", "'--set'", exitUsage},
		{"--log-level loud", "'loud' is not debug, info, warn or error", exitUsage},
		{"--no-such-option", "unrecognized option '--no-such-option'", exitUsage},
		{"--socket a --socket b", "given twice", exitUsage},
		{"more", "", exitUsage},
		{"--set short_max=100 --set timeout=9 --log-level debug", "MPI", exitFailure},
	} {
		var out, errs strings.Builder
		if got := run(strings.Fields(c.args), &out, &errs); got != c.status || !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
			t.Errorf("%q: status %d, prints %q, want %q", c.args, got, errs.String(), c.want)
		}
	}
}
