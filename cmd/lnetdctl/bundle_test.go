package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/controltest"
)

// An archive is for the user alone, its list is printed, and no file is overwritten without --force.
func TestBundle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	line := []string{"bundle", file, "--control-socket", serve(t, &controltest.Daemon{})}
	got := runProgram(program{}, line...)
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	for _, want := range []string{"\nnets.json ", "\nhost/system.txt ", " missing: ", "\nwrote " + file + "; read CONTENTS.txt in it before you publish it\n"} {
		if got.status != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in %+v", want, got)
		}
	}
	if got := runProgram(program{}, line...); got.status != exitFailure || !strings.Contains(got.stderr, "exists; --force overwrites it") {
		t.Errorf("again: %+v", got)
	}
	got = runProgram(program{}, append(line, "--force", "--json")...)
	var list bundled
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || got.status != 0 || list.Archive != file || len(list.Files) < 20 {
		t.Errorf("with --force --json: %v, %+v", err, got)
	}
}

// Without lnetd there is an archive too, in the current directory.
func TestBundleWithoutDaemon(t *testing.T) {
	inAnEmptyDirectory(t)
	got := runProgram(program{}, "bundle", "--control-socket", "none")
	names, err := filepath.Glob("lnetd-bundle-*.tar.gz")
	if err != nil || len(names) != 1 || got.status != 0 || !strings.Contains(got.stdout, "nets.json                  missing: cannot reach lnetd") {
		t.Errorf("%v, %v, %+v", names, err, got)
	}
	if got := runProgram(program{}, "bundle", "a", "b"); got.status != exitInvalid {
		t.Errorf("two files: %+v", got)
	}
	if got := runProgram(program{}, "bundle", "--config", "none", "c"); got.status != exitInvalid {
		t.Errorf("no configuration file: %+v", got)
	}
	if got := runProgram(program{}, "bundle", "no/such/directory.tar.gz"); got.status != exitFailure {
		t.Errorf("no directory: %+v", got)
	}
}
