package pages

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Given a shell, when commands run in it, then they share directory and variables, and each has its output and
// exit status. Close ends what they have started, and later commands fail.
func TestShell(t *testing.T) {
	s, err := startShell(nil, t.TempDir(), os.Environ(), "x=1\n")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		command, output string
		status          int
	}{
		{"echo $x; echo error >&2", "1\nerror\n", 0},
		{"mkdir d && cd d && x=2", "", 0},
		{"basename \"$PWD\"; printf $x", "d\n2", 0},
		{"cat; (exit 7)", "", 7},
		{"no-such-program 2>/dev/null", "", 127},
	} {
		out, status, err := s.Run(t.Context(), tt.command)
		if out != tt.output || status != tt.status || err != nil {
			t.Errorf("%s: %q, status %d (%v), want %q, status %d", tt.command, out, status, err, tt.output, tt.status)
		}
	}
	out, _, err := s.Run(t.Context(), "sleep 1000 >/dev/null 2>&1 &\necho $!")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d still runs", pid)
	}
	if _, _, err := s.Run(t.Context(), "true"); err == nil {
		t.Error("a command ran after the end")
	}
}
