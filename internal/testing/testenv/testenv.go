// Package testenv checks whether the machine has what a test needs. If something is missing, it skips
// the test with a message that names what is missing. With LNETD_TEST_ALL=1 it fails the test instead.
// The package also has helpers for tests of several packages.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// All reports whether every test must run, so that a test fails instead of being skipped.
func All() bool { return os.Getenv("LNETD_TEST_ALL") == "1" }

// NeedRoot skips or fails the test unless it runs as root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root (network namespaces, port 988)")
	}
}

// NeedCommand skips or fails the test unless the command is installed.
func NeedCommand(t testing.TB, command, debianPackage string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		missing(t, "the command "+command+" (Debian package "+debianPackage+")")
	}
}

// Fewer returns the number of repetitions for a test: n, or with the race detector an eighth of n, but
// at least 1. It is for tests in which the race detector is unlikely to find anything, because their
// goroutines share no data.
func Fewer(n int) int {
	if Race {
		return min(n, max(n/8, 1))
	}
	return n
}

// SocketDir creates a directory for sockets and removes it at the end of the test. Its path is short,
// because the path of a socket can have at most 107 bytes. The path of t.TempDir contains the test's
// name and may be too long.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // programs of other users use the sockets
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func missing(t testing.TB, what string) {
	t.Helper()
	if All() {
		t.Fatal("needs " + what)
	}
	t.Skip("needs " + what)
}
