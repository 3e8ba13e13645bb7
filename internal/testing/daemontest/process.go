package daemontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

const (
	startPatience = 2 * time.Minute
	// stopPatience is more than lnetd's own limit.
	stopPatience = time.Minute
	ctlPatience  = 3 * time.Minute
)

// Launch describes how to run lnetd.
type Launch struct {
	// Name is the test's name for the process.
	Name string
	// Namespace is the network namespace to run in. Empty means that of the test.
	Namespace string
	// Programs is the directory of lnetdctl.
	Programs string
	// Socket is the path of its control socket.
	Socket string
	// Command is the command and its arguments. It is lnetd, or a program that becomes lnetd.
	Command []string
	// Env is added to the test's environment.
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
}

// Process is a running lnetd.
type Process struct {
	Launch
	// Log is its output.
	Log *Log

	cmd   *exec.Cmd
	ended chan error // the result of Wait
}

// Build builds lnetd and lnetdctl into a directory, with flags for go build.
func Build(dir string, flags ...string) error {
	const module = "github.com/lnetd/lnetd/cmd/"
	args := append([]string{"build", "-buildvcs=false"}, flags...)
	cmd := exec.Command("go", append(args, "-o", dir, module+"lnetd", module+"lnetdctl")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Run starts lnetd and waits until it is ready. It is killed at the end of the test if it still
// runs.
func Run(t *testing.T, l Launch) *Process {
	t.Helper()
	notify, err := NewNotify(filepath.Join(testenv.SocketDir(t), "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = notify.Close() }()
	p := &Process{Launch: l, Log: &Log{}, ended: make(chan error, 1)}
	// ip, and a wrapper around lnetd, replace themselves by the next program, so the process is
	// lnetd itself.
	command := l.Command
	if l.Namespace != "" {
		command = append([]string{"ip", "netns", "exec", l.Namespace}, command...)
	}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(append(os.Environ(), notify.Env()), l.Env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = l.Stdin, l.Stdout, p.Log
	// If the tests are killed, no process of them is left.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.Kill(t)
		if t.Failed() {
			t.Logf("log of lnetd on %s:\n%s", l.Name, p.Log)
		}
	})
	if err := notify.Await("READY=1", startPatience); err != nil {
		t.Fatalf("lnetd on %s: %v\n%s", l.Name, err, p.Log)
	}
	return p
}

// Kill kills lnetd if it still runs.
func (p *Process) Kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill: %v", err)
	}
	p.ended <- <-p.ended // wait, and leave the result for other waiters
}

// Stop ends lnetd with SIGTERM and checks that it ends without an error.
func (p *Process) Stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("lnetd: %v\n%s", err, p.Log)
		}
		p.ended <- err
	case <-time.After(stopPatience):
		t.Errorf("lnetd still runs %v after SIGTERM", stopPatience)
	}
}

// Ctl runs lnetdctl against the daemon and returns stdout and the exit status.
func (p *Process) Ctl(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ctlPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.Programs, "lnetdctl"), append([]string{"--control-socket", p.Socket}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("lnetdctl %q: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Must is like Ctl for a command that must succeed.
func (p *Process) Must(t *testing.T, args ...string) string {
	t.Helper()
	out, status := p.Ctl(t, args...)
	if status != 0 {
		t.Fatalf("lnetdctl %q on %s: status %d\n%s", args, p.Name, status, out)
	}
	return out
}

// Within retries f at growing intervals until it succeeds or d is over.
func Within(t *testing.T, d time.Duration, what string, f func() error) {
	t.Helper()
	over := time.After(d)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-over:
			t.Fatalf("%s: not within %v: %v", what, d, err)
		case <-time.After(pause):
		}
	}
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends lnetd a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }
