package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Machine returns the directory in LNETD_TEST_MACHINE: a Debian root file system with systemd, which
// tests copy. It skips the test if the variable is not set, even if every test must run, because a
// separate CI stage creates the directory.
func Machine(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("LNETD_TEST_MACHINE")
	if dir == "" {
		t.Skip("needs LNETD_TEST_MACHINE, a root file system as .ci/run makes it in bin/machine")
	}
	// If the path is a symbolic link, a copy of it would be the same directory.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
