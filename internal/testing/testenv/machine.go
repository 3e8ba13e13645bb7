package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Machine returns the directory in LNETD_TEST_MACHINE: a Debian root file system with systemd, which
// tests copy. If the variable is not set, it skips the test, even with LNETD_TEST_ALL=1, because only a
// separate CI stage has the directory.
func Machine(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("LNETD_TEST_MACHINE")
	if dir == "" {
		t.Skip("needs LNETD_TEST_MACHINE, a root file system as .ci/run makes it in bin/machine")
	}
	// Callers copy the directory. The copy of a symbolic link would be a link to the same directory.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
