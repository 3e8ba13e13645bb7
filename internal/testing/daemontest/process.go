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
	startTimeout = 2 * time.Minute
	// stopTimeout is longer than the time limit in lnetd.
	stopTimeout = time.Minute
	ctlTimeout  = 3 * time.Minute
)

// Launch describes how Run starts lnetd.
type Launch struct {
	// Name names the process in messages of the test.
	Name string
	// Namespace is the network namespace in which lnetd runs. If it is empty, lnetd runs in the namespace
	// of the test.
	Namespace string
	// Programs is the directory in which lnetdctl is.
	Programs string
	// Socket is the path of lnetd's control socket.
	Socket string
	// Command is the command and its arguments: lnetd, or a program that replaces itself by lnetd.
	Command []string
	// Env has variables that are added to the test's environment.
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
}

// Process is a running lnetd.
type Process struct {
	Launch
	// Log is lnetd's standard error.
	Log *Log

	cmd   *exec.Cmd
	ended chan error // receives the result of Wait
}

// Build builds lnetd and lnetdctl in the directory dir, with additional flags for go build.
func Build(dir string, flags ...string) error {
	const module = "github.com/lnetd/lnetd/cmd/"
	args := append([]string{"build", "-buildvcs=false"}, flags...)
	cmd := exec.Command("go", append(args, "-o", dir, module+"lnetd", module+"lnetdctl")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Run starts lnetd and waits until it is ready. At the end of the test, lnetd is killed if it still
// runs, and its log is printed if the test has failed.
func Run(t *testing.T, l Launch) *Process {
	t.Helper()
	notify, err := NewNotify(filepath.Join(testenv.SocketDir(t), "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = notify.Close() }()
	p := &Process{Launch: l, Log: &Log{}, ended: make(chan error, 1)}
	// The ip command and the program in Command replace themselves by the next program, so the process
	// becomes lnetd.
	command := l.Command
	if l.Namespace != "" {
		command = append([]string{"ip", "netns", "exec", l.Namespace}, command...)
	}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(append(os.Environ(), notify.Env()), l.Env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = l.Stdin, l.Stdout, p.Log
	// If the test process is killed, lnetd is killed too.
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
	if err := notify.Await("READY=1", startTimeout); err != nil {
		t.Fatalf("lnetd on %s: %v\n%s", l.Name, err, p.Log)
	}
	return p
}

// Kill kills lnetd, if it still runs, and waits for its end.
func (p *Process) Kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill: %v", err)
	}
	p.ended <- <-p.ended // wait, and put the result back for other callers
}

// Stop sends SIGTERM to lnetd, waits for its end, and fails the test if the exit status is not 0.
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
	case <-time.After(stopTimeout):
		t.Errorf("lnetd still runs %v after SIGTERM", stopTimeout)
	}
}

// Ctl runs lnetdctl with the control socket of this lnetd. It returns standard output and the exit
// status.
func (p *Process) Ctl(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ctlTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.Programs, "lnetdctl"), append([]string{"--control-socket", p.Socket}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("lnetdctl %q: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Must does the same as Ctl, but ends the test if the exit status is not 0.
func (p *Process) Must(t *testing.T, args ...string) string {
	t.Helper()
	out, status := p.Ctl(t, args...)
	if status != 0 {
		t.Fatalf("lnetdctl %q on %s: status %d\n%s", args, p.Name, status, out)
	}
	return out
}

// Within calls f at growing intervals until f returns nil. It ends the test if f still returns an error
// after d; what names the expectation.
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

// PID returns the process ID of lnetd.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to lnetd.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }
