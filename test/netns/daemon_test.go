package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/daemon/daemontest"
)

const (
	startPatience = 20 * time.Second
	// stopPatience is more than lnetd gives itself.
	stopPatience = 30 * time.Second
	// noticePatience bounds what a survivor takes to notice, and a ping to
	// work again: the reconnect interval after a few failures, and some.
	noticePatience = 20 * time.Second
)

// scratch is where what all tests share lies; TestMain makes it.
var scratch string

// scratches begins the name of scratch; the process ID follows.
const scratches = "lnetd-netns-"

// programs are the paths of lnetd and lnetdctl, built when they are first asked for.
var programs = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", scratch, "../../cmd/lnetd", "../../cmd/lnetdctl")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return scratch, nil
})

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// daemon is a running lnetd.
type daemon struct {
	host   *host
	cmd    *exec.Cmd
	socket string
	log    *daemontest.Log
	ended  chan error // what Wait returned
}

// start runs lnetd on the host with nothing but a control socket, through a
// wrapper if there is one, and waits until it is ready. It is killed at the
// test's end if it still runs.
func (h *host) start(t *testing.T, wrapper ...string) *daemon {
	t.Helper()
	return h.run(t, nil, nil, nil, append(wrapper, program(t, "lnetd"), "--control-socket", h.socket())...)
}

// startWith is start with a configuration.
func (h *host) startWith(t *testing.T, c *configuration) *daemon {
	t.Helper()
	return h.run(t, nil, nil, nil, program(t, "lnetd"), "--config", h.write(t, c))
}

func (h *host) socket() string { return filepath.Join(h.dir, "control.sock") }

// run runs a program that is lnetd in the host's namespace and waits until it is
// ready.
func (h *host) run(t *testing.T, env []string, stdin io.Reader, stdout io.Writer, command ...string) *daemon {
	t.Helper()
	notify, err := daemontest.NewNotify(filepath.Join(t.TempDir(), "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = notify.Close() }()
	d := &daemon{host: h, socket: h.socket(), log: &daemontest.Log{}, ended: make(chan error, 1)}
	// ip and what stands before lnetd end by becoming the next program: the
	// process is lnetd itself.
	d.cmd = exec.Command("ip", append([]string{"netns", "exec", h.name}, command...)...)
	d.cmd.Env = append(append(os.Environ(), notify.Env()), env...)
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = stdin, stdout, d.log
	// Should the tests be killed, nothing of them goes on.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait() }()
	t.Cleanup(func() {
		d.kill(t)
		if t.Failed() {
			t.Logf("log of lnetd on %s:\n%s", h.nid(), d.log)
		}
	})
	if err := notify.Await("READY=1", startPatience); err != nil {
		t.Fatalf("lnetd on %s: %v\n%s", h.nid(), err, d.log)
	}
	return d
}

// kill ends lnetd without giving it a chance, if it still runs.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill: %v", err)
	}
	d.ended <- <-d.ended // wait, and let others wait too
}

// stop ends lnetd with SIGTERM and checks that it ends well.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-d.ended:
		if err != nil {
			t.Errorf("lnetd: %v\n%s", err, d.log)
		}
		d.ended <- err
	case <-time.After(stopPatience):
		t.Errorf("lnetd still runs %v after SIGTERM", stopPatience)
	}
}

// ctl runs lnetdctl against the daemon and returns stdout and exit status.
func (d *daemon) ctl(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, "lnetdctl"), append([]string{"--control-socket", d.socket}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("lnetdctl %q: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// must is ctl of a command that has to succeed.
func (d *daemon) must(t *testing.T, args ...string) string {
	t.Helper()
	out, status := d.ctl(t, args...)
	if status != 0 {
		t.Fatalf("lnetdctl %q on %s: status %d\n%s", args, d.host.nid(), status, out)
	}
	return out
}

// wantPing checks that a ping of the host is answered, as lnetctl prints it.
func (d *daemon) wantPing(t *testing.T, to *host) {
	t.Helper()
	out, status := d.ctl(t, "ping", "--timeout", "10", to.nid())
	if want := answer(to); status != 0 || out != want {
		t.Fatalf("ping %s: status %d\n%swant\n%s", to.nid(), status, out, want)
	}
}

func answer(to *host) string {
	return fmt.Sprintf("ping:\n- primary nid: %[1]s\n  Multi-Rail: false\n  peer_ni:\n  - nid: %[1]s\n", to.nid())
}

// within tries f until it succeeds or d is over.
func within(t *testing.T, d time.Duration, what string, f func() error) {
	t.Helper()
	over := time.After(d)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-over:
			t.Fatalf("%s: not within %v: %v", what, d, err)
		case <-again.C:
		}
	}
}

// pass waits while what is under test goes on; the load, or a clock that only the
// operating system has, is what the time is for.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
