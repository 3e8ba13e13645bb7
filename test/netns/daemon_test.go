package netns

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/client"
	"github.com/lnetd/lnetd/internal/daemon/daemontest"
)

// noticePatience bounds what a survivor takes to notice, and a ping to work
// again: the reconnect interval after a few failures, and some.
const noticePatience = 20 * time.Second

// scratch is where what all tests share lies; TestMain makes it.
var scratch string

// programs is the directory of lnetd and lnetdctl, built when it is first asked for.
var programs = sync.OnceValues(func() (string, error) { return scratch, daemontest.Build(scratch) })

func programsDir(t *testing.T) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func program(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(programsDir(t), name)
}

// daemon is a running lnetd.
type daemon struct {
	*daemontest.Process
	host *host
}

// start runs lnetd on the host with nothing but a control socket, through a
// wrapper if there is one, and waits until it is ready. It is killed at the
// test's end if it still runs.
func (h *host) start(t *testing.T, wrapper ...string) *daemon {
	t.Helper()
	return h.run(t, nil, nil, nil, append(wrapper, program(t, "lnetd"), "--control-socket", h.socket())...)
}

// startWith is start with a configuration. A router is ready when it says that it
// is one: a route through it counts as up until its gateway is asked, and then as
// down for so long.
func (h *host) startWith(t *testing.T, c *configuration) *daemon {
	t.Helper()
	d := h.run(t, nil, nil, nil, program(t, "lnetd"), "--config", h.write(t, c))
	if c.router {
		daemontest.Within(t, announced+lateness, h.nid()+" is a router", func() error {
			r := ask(t, d, func(ctx context.Context, c *client.Client) (api.Routing, error) { return c.Routing(ctx) })
			if r.State != api.RoutingEnabled {
				return fmt.Errorf("routing state %d", r.State)
			}
			return nil
		})
	}
	return d
}

func (h *host) socket() string { return filepath.Join(h.dir, "control.sock") }

// run runs a program that is lnetd in the host's namespace and waits until it is
// ready.
func (h *host) run(t *testing.T, env []string, stdin io.Reader, stdout io.Writer, command ...string) *daemon {
	t.Helper()
	return &daemon{host: h, Process: daemontest.Run(t, daemontest.Launch{
		Name: h.nid(), Namespace: h.name, Programs: programsDir(t), Socket: h.socket(),
		Command: command, Env: env, Stdin: stdin, Stdout: stdout,
	})}
}

// wantPing checks that a ping of the host is answered, as lnetctl prints it.
func (d *daemon) wantPing(t *testing.T, to *host) {
	t.Helper()
	out, status := d.Ctl(t, "ping", "--timeout", "10", to.nid())
	if want := answer(to); status != 0 || out != want {
		t.Fatalf("ping %s: status %d\n%swant\n%s", to.nid(), status, out, want)
	}
}

func answer(to *host) string {
	return fmt.Sprintf("ping:\n- primary nid: %[1]s\n  Multi-Rail: false\n  peer_ni:\n  - nid: %[1]s\n", to.nid())
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
