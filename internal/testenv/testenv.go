// Package testenv says what a test needs of the machine that it runs on. A
// test that does not find it skips and says what is missing, unless
// LNETD_TEST_ALL=1 asks for every test, when it fails instead. And it gives
// tests what several need of the machine, such as memory whose pages can go.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// All tells whether every test must run.
func All() bool { return os.Getenv("LNETD_TEST_ALL") == "1" }

// NeedRoot ends the test unless it runs with root's rights.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "root (network namespaces, port 988)")
	}
}

// NeedCommand ends the test unless the command is installed.
func NeedCommand(t testing.TB, command, debianPackage string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		missing(t, "the command "+command+" (Debian package "+debianPackage+")")
	}
}

// Fewer is how often a test tries the same: n times, or, with the race detector, an eighth of
// it and at least once. It is for tests whose goroutines have nothing in common.
func Fewer(n int) int {
	if Race {
		return min(n, max(n/8, 1))
	}
	return n
}

// SocketDir is a directory for sockets, which goes with the test. The path of a socket has at
// most 107 bytes, and that of t.TempDir has the test's name in it.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
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
