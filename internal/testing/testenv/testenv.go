// Package testenv checks what a test needs from the machine that it runs on. If something is missing, the
// test is skipped with a message that names it. With LNETD_TEST_ALL=1 the test fails instead. The package
// also has helpers that several tests share, such as memory that can disappear.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// All reports whether every test must run.
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

// Fewer returns how many times a test repeats something: n, or an eighth of n and at least 1 with the
// race detector. It is for tests with goroutines that share nothing.
func Fewer(n int) int {
	if Race {
		return min(n, max(n/8, 1))
	}
	return n
}

// SocketDir creates a directory for sockets and removes it at the end of the test. Its path is short,
// because the path of a socket has at most 107 bytes and that of t.TempDir contains the test's name.
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
