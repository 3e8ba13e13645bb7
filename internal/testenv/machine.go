package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Machine is the directory of a Debian root file system with systemd, which LNETD_TEST_MACHINE
// names: tests copy it. Without it the test is skipped, also if every test must run: a stage of
// its own makes it.
func Machine(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("LNETD_TEST_MACHINE")
	if dir == "" {
		t.Skip("needs LNETD_TEST_MACHINE, a root file system as .ci/run makes it in bin/machine")
	}
	// A copy of a link would be the machine itself.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
