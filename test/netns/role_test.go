package netns

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// roles are what the test binary does instead of tests, by the environment variable that selects it. The function gets
// the value of the variable.
var roles = map[string]func(argument string) error{partyEnv: serveParty, crowdEnv: serveCrowd, guestEnv: serveGuest}

// rolePatience is the time limit for the start of a role.
const rolePatience = 2 * time.Minute

// startRole runs the test binary in a role on the host, until the end of the test, and waits until it is ready.
func (h *host) startRole(t *testing.T, variable, argument string) *os.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, hold := pipe(t)
	ready, out := pipe(t)
	cmd := exec.Command("ip", "netns", "exec", h.name, self) // ip replaces itself by the test binary
	cmd.Env = append(os.Environ(), variable+"="+argument)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT) // the test may have stopped it
		if err := errors.Join(hold.Close(), cmd.Wait(), ready.Close()); err != nil {
			t.Errorf("%s=%s: %v", variable, argument, err)
		}
	})
	if err := errors.Join(in.Close(), out.Close(), ready.SetReadDeadline(time.Now().Add(rolePatience))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		t.Fatalf("%s=%s is not ready: %v", variable, argument, err)
	}
	return cmd.Process
}

// serveRole reports that a role is ready, and waits until standard input ends.
func serveRole() error {
	if _, err := os.Stdout.Write([]byte("\n")); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
