package daemon

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/lnetd/metrics"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/console"
)

var _ server.Selftest = (*selftestTask)(nil)

// selftestRun runs LNet selftest on a node, 10.77.0.11, that is alone on an in-memory network.
type selftestRun struct {
	*selftestTask
	stop func() error // ends Run and returns its error
}

func startSelftest(t *testing.T, text string) *selftestRun {
	t.Helper()
	fabric := simlnd.New(simlnd.Config{Seed: 1})
	t.Cleanup(fabric.Close)
	return startSelftestOn(t, fabric.Host("a", "10.77.0.11"), "10.77.0.11", text)
}

// startSelftestOn is startSelftest for the given host.
func startSelftestOn(t *testing.T, host *simlnd.Host, addr, text string) *selftestRun {
	t.Helper()
	c := parse(t, "net: [{net type: tcp, local NI(s): [{nid: "+addr+"@tcp}]}]\n"+text)
	log := slog.New(slog.DiscardHandler)
	up := newNodeTask(c, Drivers{TCP(host)}, nil, log)
	r := &selftestRun{selftestTask: newSelftestTask(c.Selftest, func() *node.Node { return up.Node }, log)}
	nodeCtx, nodeCancel := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(nodeCtx)
	nodeDone, done := make(chan error, 1), make(chan error, 1)
	go func() { nodeDone <- up.Run(nodeCtx) }()
	<-up.Ready()
	go func() { done <- r.Run(ctx) }()
	stopped := false
	r.stop = func() error {
		cancel()
		if stopped {
			return nil
		}
		stopped = true
		return <-done
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		nodeCancel()
		if err := <-nodeDone; err != nil {
			t.Errorf("node: %v", err)
		}
	})
	<-r.Ready()
	return r
}

func (r *selftestRun) mustConsole(t *testing.T) *console.Console {
	t.Helper()
	c, err := r.Console()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A node takes part only while selftest is enabled. It can be enabled again.
func TestSelftestIsEnabledByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startSelftest(t, "")
		if _, err := r.Console(); !errors.Is(err, syscall.ENODEV) {
			t.Errorf("console of a node that is not enabled: %v", err)
		}
		if err := r.Disable(t.Context(), true); !errors.Is(err, syscall.ENODEV) {
			t.Errorf("disable: %v", err)
		}
		want := api.LstStatus{Bounds: api.LstBounds{Memory: 256 << 20, SessionTimeout: 100, Units: 65536}}
		if diff := cmp.Diff(want, r.Status()); diff != "" {
			t.Error(diff)
		}
		for range 2 {
			if err := r.Enable(api.LstBounds{Memory: 64 << 20, Units: 10}); err != nil {
				t.Fatal(err)
			}
			if err := r.Enable(api.LstBounds{}); !errors.Is(err, syscall.EALREADY) {
				t.Errorf("enabled twice: %v", err)
			}
			want = api.LstStatus{Enabled: true, Bounds: api.LstBounds{Memory: 64 << 20, SessionTimeout: 100, Units: 10}}
			if diff := cmp.Diff(want, r.Status()); diff != "" {
				t.Error(diff)
			}
			if err := r.Disable(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSelftestIsEnabledByConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startSelftest(t, "lnetd: {selftest: {enabled: true, session_timeout: 0, memory: 32}}\n")
		if s := r.Status(); !s.Enabled || s.Bounds.SessionTimeout != 0 || s.Bounds.Memory != 32<<20 {
			t.Errorf("%+v", s)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if err := r.Enable(api.LstBounds{}); !errors.Is(err, node.ErrClosed) {
			t.Errorf("enabled at the end: %v", err)
		}
	})
}

// Selftest in use can be disabled only by force, which ends the session and its tests.
func TestSelftestInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startSelftest(t, "lnetd: {selftest: {enabled: true}}\n")
		c, ctx := r.mustConsole(t), t.Context()
		if _, err := c.NewSession(ctx, console.SessionOptions{Key: 1, Name: "s"}); err != nil {
			t.Fatal(err)
		}
		busy := func(text string) {
			t.Helper()
			var f *api.Fault
			if err := r.Disable(ctx, false); !errors.As(err, &f) || f.Code != api.CodeLstBusy || f.Text != text {
				t.Errorf("disable: %v", err)
			}
		}
		busy("this node is the console of the session s")
		if _, err := c.AddGroup(ctx, 1, "g", []string{"10.77.0.11@tcp"}); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []console.TestKind{"ping", "brw"} {
			if _, err := c.AddTest(ctx, 1, console.Test{
				Batch: "batch", From: "g", To: "g", Kind: kind, Loop: 2, Concurrency: 1, Distribute: 1, Span: 1,
				BRW: console.BRW{Size: 4096},
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Run(ctx, 1, "batch", 0); err != nil {
			t.Fatal(err)
		}
		after(time.Second) // the loops have ended
		s := r.Status()
		if s.Console == nil || s.Console.Name != "s" || s.Session == nil {
			t.Fatalf("%+v", s)
		}
		if s.Session.Name != "s" || s.Session.Console != "10.77.0.11@tcp" || s.Session.Age < 1 {
			t.Errorf("%+v", s.Session)
		}
		var roles []string
		for _, v := range s.Session.Tests {
			switch {
			case !v.Client && v.Latency == nil && v.Units == 0:
				roles = append(roles, v.Kind+" server")
			case v.Client && v.Units == 1 && v.Active == 0 && v.Latency != nil && v.Latency.Count == 2:
				roles = append(roles, v.Kind+" client")
			default:
				t.Errorf("%+v", v)
			}
		}
		if diff := cmp.Diff([]string{"ping server", "ping client", "brw server", "brw client"}, roles); diff != "" {
			t.Error(diff)
		}
		if s.Counters.Sent == 0 || s.Counters.Errors != 0 || s.Counters.BulkPut != 8192 {
			t.Errorf("%+v", s.Counters)
		}
		figures := metrics.Selftest{Enabled: true, Node: true, Console: true, Servers: 2, Clients: 2}
		figures.RPCs = r.figures().RPCs
		if diff := cmp.Diff(figures, r.figures()); diff != "" || figures.RPCs.BulkPut != 8192 || figures.RPCs.Sent != s.Counters.Sent {
			t.Errorf("%s%+v", diff, figures.RPCs)
		}
		busy("this node is the console of the session s")
		if err := r.Disable(ctx, true); err != nil {
			t.Fatal(err)
		}
		if got := r.figures(); got != (metrics.Selftest{}) {
			t.Errorf("disabled: %+v", got)
		}
		if _, err := c.ShowSession(); err == nil {
			t.Error("the console has a session still")
		}
	})
}

// A dead node does not prevent selftest from being disabled. A caller that gives up does not
// leave it half enabled.
func TestSelftestIsDisabledBesideADeadNode(t *testing.T) {
	for _, patient := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			fabric := simlnd.New(simlnd.Config{Seed: 1})
			t.Cleanup(fabric.Close)
			hostA, hostB := fabric.Host("a", "10.77.0.11"), fabric.Host("b", "10.77.0.12")
			const enabled = "lnetd: {selftest: {enabled: true}}\n"
			startSelftestOn(t, hostB, "10.77.0.12", enabled)
			r := startSelftestOn(t, hostA, "10.77.0.11", enabled)
			c := r.mustConsole(t)
			if _, err := c.NewSession(t.Context(), console.SessionOptions{Key: 1, Name: "s"}); err != nil {
				t.Fatal(err)
			}
			if a, err := c.AddGroup(t.Context(), 1, "g", []string{"10.77.0.[11-12]@tcp"}); err != nil || !a.Lists[0].Result.OK() {
				t.Fatalf("%+v, %v", a, err)
			}
			fabric.Partition(hostA, hostB, simlnd.Both)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if !patient {
				time.AfterFunc(time.Second, cancel)
			}
			begun := time.Now()
			if err := r.Disable(ctx, true); err != nil || time.Since(begun) > selftestTimeout {
				t.Errorf("patient %v: after %v: %v", patient, time.Since(begun), err)
			}
			if s := r.Status(); s.Enabled || s.Console != nil || s.Session != nil {
				t.Errorf("patient %v: %+v", patient, s)
			}
			if err := r.Enable(api.LstBounds{}); err != nil {
				t.Error(err)
			}
			if _, err := r.mustConsole(t).NewSession(t.Context(), console.SessionOptions{Key: 2, Name: "t"}); err != nil {
				t.Error(err)
			}
			fabric.Heal(hostA, hostB, simlnd.Both)
		})
	}
}
