package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Given a program in a directory bin, when the package lnetd-o2ib has a program of the same name,
// then that program runs, with the same arguments, environment and process ID. Otherwise, or if
// that program cannot be executed, the first program continues.
func TestExecO2IB(t *testing.T) {
	if os.Getenv("LNETD_TEST_O2IB") != "" { // the program in bin
		ExecO2IB()
		fmt.Println("continued")
		os.Exit(0)
	}
	for name, c := range map[string]struct {
		script, want string // %d is the process ID
		mode         os.FileMode
	}{
		"installed":      {"#!/bin/sh\necho \"$# $LNETD_TEST_O2IB $$\"\n", "2 yes %d\n", 0o755},
		"absent":         {"", "continued\n", 0},
		"not executable": {"#!/bin/sh\necho no\n", "continued\n", 0o644},
		"no interpreter": {"#!/nonexistent\n", "continued\n", 0o755},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			program, other := filepath.Join(dir, "bin", "lnetd"), filepath.Join(dir, "libexec", "lnetd", "lnetd")
			for _, name := range []string{program, other} {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Link(self, program); err != nil {
				if out, err := exec.Command("cp", self, program).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			if c.mode != 0 {
				if out, err := exec.Command("sh", "-c", `printf %s "$1" >"$0" && chmod "$2" "$0"`, other, c.script, strconv.FormatUint(uint64(c.mode), 8)).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			cmd := exec.Command(program, "-test.run=^TestExecO2IB$", "-test.count=1")
			cmd.Env = append(os.Environ(), "LNETD_TEST_O2IB=yes")
			out, err := cmd.Output()
			want := c.want
			if name == "installed" {
				want = fmt.Sprintf(c.want, cmd.Process.Pid)
			}
			if err != nil || string(out) != want {
				t.Errorf("%q, %v; want %q", out, err, want)
			}
		})
	}
}
