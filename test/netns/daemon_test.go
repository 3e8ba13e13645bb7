package netns

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// noticePatience is the time limit for a surviving node to detect a failure, and for a ping to work
// again. It covers the reconnect interval after a few failures.
const noticePatience = 20 * time.Second

// scratch is the directory that all tests share. TestMain creates it.
var scratch string

// programs returns the directory of lnetd and lnetdctl. It builds them on the first call.
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

// start runs lnetd on the host with only a control socket, through a wrapper if one is given, and waits
// until it is ready. It kills lnetd at the end of the test.
func (h *host) start(t *testing.T, wrapper ...string) *daemon {
	t.Helper()
	return h.run(t, nil, nil, nil, append(wrapper, program(t, "lnetd"), "--control-socket", h.socket())...)
}

// startWith is like start, with a configuration. A router is ready when it announces that it routes. A
// route through it counts as up until its gateway is pinged, and then as down for the same time.
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

// run runs an lnetd program in the host's namespace and waits until it is ready.
func (h *host) run(t *testing.T, env []string, stdin io.Reader, stdout io.Writer, command ...string) *daemon {
	t.Helper()
	return &daemon{host: h, Process: daemontest.Run(t, daemontest.Launch{
		Name: h.nid(), Namespace: h.name, Programs: programsDir(t), Socket: h.socket(),
		Command: command, Env: env, Stdin: stdin, Stdout: stdout,
	})}
}

// wantPing checks that a ping of the host is answered, in the output format of lnetctl.
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

// pass waits while the test's processes run, for the load or for a clock of the operating system.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
