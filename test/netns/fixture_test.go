package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/control"
	"github.com/lnetd/lnetd/internal/daemon/daemontest"
	"github.com/lnetd/lnetd/internal/testenv"
)

const (
	startPatience = 20 * time.Second
	stopPatience  = 20 * time.Second
	// noticePatience bounds what a survivor takes to notice, and a ping to
	// work again: the reconnect interval after a few failures, and some.
	noticePatience = 20 * time.Second
)

// host is a network namespace with one interface, eth0.
type host struct {
	name string // of the namespace
	addr string
	dir  string // for the host's sockets
}

// pair makes two hosts with a wire between them.
func pair(t *testing.T) (a, b *host) {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedCommand(t, "ip", "iproute2")
	id := strconv.Itoa(os.Getpid())
	a = newHost(t, "lnetd-"+id+"-a", "10.213.77.1")
	b = newHost(t, "lnetd-"+id+"-b", "10.213.77.2")
	ip(t, "link", "add", "eth0", "netns", a.name, "type", "veth", "peer", "name", "eth0", "netns", b.name)
	for _, h := range []*host{a, b} {
		ip(t, "-n", h.name, "addr", "add", h.addr+"/24", "dev", "eth0")
		ip(t, "-n", h.name, "link", "set", "lo", "up")
		ip(t, "-n", h.name, "link", "set", "eth0", "up")
	}
	return a, b
}

func newHost(t *testing.T, name, addr string) *host {
	t.Helper()
	ip(t, "netns", "add", name)
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
			t.Errorf("ip netns del %s: %v\n%s", name, err, out)
		}
	})
	return &host{name: name, addr: addr, dir: t.TempDir()}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// nid is the host's NID on tcp.
func (h *host) nid() string { return h.addr + "@tcp" }

// programs are lnetd and lnetdctl, built for the test.
type programs struct{ lnetd, lnetdctl string }

func build(t *testing.T) programs {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", dir, "../../cmd/lnetd", "../../cmd/lnetdctl").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	// Another user may run them.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return programs{lnetd: filepath.Join(dir, "lnetd"), lnetdctl: filepath.Join(dir, "lnetdctl")}
}

// daemon is a running lnetd.
type daemon struct {
	cmd    *exec.Cmd
	socket string
	log    *lockedBuffer
	ended  chan error // what Wait returned
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start runs lnetd on the host with nothing but a control socket, through a
// wrapper if there is one, and waits until it is ready. It is killed at the
// test's end if it still runs.
func (h *host) start(t *testing.T, p programs, wrapper ...string) *daemon {
	t.Helper()
	notify, err := daemontest.NewNotify(filepath.Join(t.TempDir(), "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = notify.Close() }()
	if err := os.Chmod(filepath.Dir(h.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &daemon{socket: filepath.Join(h.dir, "control.sock"), log: &lockedBuffer{}, ended: make(chan error, 1)}
	// ip and the wrapper end by becoming the next program: the process is
	// lnetd itself.
	args := append([]string{"netns", "exec", h.name}, wrapper...)
	d.cmd = exec.Command("ip", append(args, p.lnetd, "--control-socket", d.socket)...)
	d.cmd.Env = append(os.Environ(), notify.Env())
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait() }()
	t.Cleanup(func() {
		d.kill(t)
		if t.Failed() {
			t.Logf("log of lnetd on %s:\n%s", h.addr, d.log)
		}
	})
	if err := notify.Await("READY=1", startPatience); err != nil {
		t.Fatalf("lnetd on %s: %v\n%s", h.addr, err, d.log)
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
func (d *daemon) ctl(t *testing.T, p programs, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.lnetdctl, append([]string{"--control-socket", d.socket}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("lnetdctl %q: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// wantPing checks that a ping of the host is answered, as lnetctl prints it.
func (d *daemon) wantPing(t *testing.T, p programs, to *host) {
	t.Helper()
	out, status := d.ctl(t, p, "ping", "--timeout", "10", to.nid())
	if want := answer(to); status != 0 || out != want {
		t.Fatalf("ping %s: status %d\n%swant\n%s", to.nid(), status, out, want)
	}
}

func answer(to *host) string {
	return fmt.Sprintf("ping:\n- primary nid: %[1]s\n  Multi-Rail: false\n  peer_ni:\n  - nid: %[1]s\n", to.nid())
}

// counter is a counter of the driver on the node's NI.
func (d *daemon) counter(t *testing.T, name string) uint64 {
	t.Helper()
	c := control.NewClient(d.socket)
	defer c.Close()
	nets, err := c.Nets(t.Context(), "tcp")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range nets[0].NIs[0].Counters {
		if k.Name == name {
			return k.Value
		}
	}
	t.Fatalf("no counter %s in %+v", name, nets[0].NIs[0].Counters)
	return 0
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
