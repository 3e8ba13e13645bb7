package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/console"
	rpclatency "github.com/lnetd/lnetd/selftest/latency"
)

const (
	// selftestTimeout bounds the time to stop LNet selftest. leaveTimeout is the part of it in which
	// the console ends the session on its nodes, some of which may no longer answer.
	selftestTimeout = 10 * time.Second
	leaveTimeout    = selftestTimeout / 2
)

// selftestTask is the task for LNet selftest. While selftest is enabled, the task runs an agent, which takes
// part in tests, and a console. It implements server.Selftest.
type selftestTask struct {
	config config.Selftest
	log    *slog.Logger
	node   func() *node.Node // returns the node; may be called once Run has been called
	ready  chan struct{}

	turn chan struct{} // full while Enable or Disable runs (see inTurn)

	mu      sync.Mutex      // guards the fields below
	up      bool            // true while Run runs, so that selftest may be enabled
	bounds  api.LstBounds   // the limits in force while selftest is enabled
	agent   *selftest.Agent // nil if not enabled
	console *console.Console
	ending  bool // Disable has begun, but agent has not ended yet
}

func newSelftestTask(c config.Selftest, n func() *node.Node, log *slog.Logger) *selftestTask {
	return &selftestTask{config: c, log: log, node: n, ready: make(chan struct{}), turn: make(chan struct{}, 1)}
}

func (t *selftestTask) Ready() <-chan struct{} { return t.ready }
func (t *selftestTask) String() string         { return "selftest" }

// Run enables selftest if the configuration requests it, waits until ctx is done, and disables
// it.
func (t *selftestTask) Run(ctx context.Context) error {
	t.mu.Lock()
	t.up = true
	t.mu.Unlock()
	if t.config.Enabled {
		if err := t.Enable(api.LstBounds{}); err != nil {
			return api.Fault{
				Code: api.CodeLstRefused, Errno: -int(server.Errno(err)), Text: "LNet selftest cannot be enabled",
				Remedy: "remove lnetd.selftest.enabled from the configuration",
			}.Because(err)
		}
	}
	close(t.ready)
	<-ctx.Done()
	t.mu.Lock()
	t.up = false
	t.mu.Unlock()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), selftestTimeout)
	defer cancel()
	if err := t.Disable(stop, true); err != nil && !errors.Is(err, syscall.ENODEV) {
		return err
	}
	return nil
}

// settings returns the configured limits with those replaced that b sets, in two forms: for the agent
// and for the control interface. A zero field of b leaves the configured limit.
func (t *selftestTask) settings(b api.LstBounds) (config.Selftest, api.LstBounds) {
	c := t.config
	if b.Memory != 0 {
		c.SetMemory(int(b.Memory))
	}
	if b.SessionTimeout != 0 {
		c.Agent.SessionTimeout = time.Duration(b.SessionTimeout) * time.Second
	}
	if b.Units != 0 {
		c.Agent.MaxUnits = b.Units
	}
	c.Agent.Logger = t.log
	return c, api.LstBounds{
		Memory:         int64(c.Memory()),
		SessionTimeout: int(max(c.Agent.SessionTimeout, 0) / time.Second),
		Units:          c.Agent.MaxUnits,
	}
}

// inTurn waits until selftest is not being enabled or disabled, and then calls do, which may do so. If
// ctx ends first, inTurn returns the cause and does not call do.
func (t *selftestTask) inTurn(ctx context.Context, do func() error) error {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
		return do()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Enable implements server.Selftest. If an earlier Disable ran out of time, Enable first completes it.
func (t *selftestTask) Enable(b api.LstBounds) error {
	return t.inTurn(context.Background(), func() error {
		t.mu.Lock()
		ending := t.ending
		t.mu.Unlock()
		if ending {
			if err := t.end(context.Background()); err != nil {
				return err
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case !t.up:
			return node.ErrClosed
		case t.agent != nil:
			return api.Fault{
				Code: api.CodeLstBusy, Errno: -int(syscall.EALREADY), Text: "LNet selftest is already enabled",
				Remedy: "disable it first to change its limits",
			}.Because(syscall.EALREADY)
		}
		c, bounds := t.settings(b)
		n := t.node()
		a, err := selftest.Enable(n, c.Agent)
		if err != nil {
			return err
		}
		t.agent, t.bounds = a, bounds
		t.console = console.New(n, a, console.Config{Logger: t.log})
		t.log.Info("LNet selftest is enabled", "memory", bounds.Memory, "session_timeout", bounds.SessionTimeout,
			"units", bounds.Units)
		return nil
	})
}

// Disable implements server.Selftest. After it has begun to stop selftest, it continues even if ctx is
// canceled. If it runs out of time, it returns an error, although the node no longer takes part in
// tests. The next call of Disable or Enable then waits again for the end.
func (t *selftestTask) Disable(ctx context.Context, force bool) error {
	return t.inTurn(ctx, func() error {
		t.mu.Lock()
		a, c, ending := t.agent, t.console, t.ending
		t.mu.Unlock()
		if a == nil {
			return syscall.ENODEV
		}
		if err := inUse(a, c); err != nil && !force && !ending {
			return err
		}
		return t.end(ctx)
	})
}

// end closes the console, and then the agent. The console gets only a part of the time, so that the
// agent can still be closed if the console's nodes do not answer.
func (t *selftestTask) end(ctx context.Context) error {
	t.mu.Lock()
	a, c := t.agent, t.console
	t.ending = true
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), selftestTimeout)
	defer cancel()
	leave, cancelLeave := context.WithTimeout(ctx, leaveTimeout)
	defer cancelLeave()
	if err := c.Close(leave); err != nil {
		t.log.Warn("LNet selftest ended, but some nodes did not answer; they keep the session until it expires", "err", err)
	}
	if err := a.Close(ctx); err != nil {
		return api.Fault{
			Code: api.CodeLstBusy, Errno: -int(server.Errno(err)), Text: "LNet selftest is stopping, but has not stopped yet",
			Remedy: "wait, then disable it again",
		}.Because(err)
	}
	t.mu.Lock()
	t.agent, t.console, t.ending = nil, nil, false
	t.mu.Unlock()
	t.log.Info("LNet selftest is disabled")
	return nil
}

// inUse returns an error if Disable would end a session, either one of this node's console or one in
// which this node takes part. The error names the session.
func inUse(a *selftest.Agent, c *console.Console) error {
	busy := api.Fault{
		Code: api.CodeLstBusy, Errno: -int(syscall.EBUSY), Remedy: "end it there, or add --force",
	}
	if s, err := c.ShowSession(); err == nil {
		busy.Text = "this node is the console of the session " + s.Name
		return &busy
	}
	if s, ok := a.Session(); ok {
		busy.Text = "this node takes part in the session " + s.Name + " of " + s.ID.NID.String()
		return &busy
	}
	return nil
}

// Console implements server.Selftest.
func (t *selftestTask) Console() (*console.Console, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.console == nil || t.ending {
		return nil, syscall.ENODEV
	}
	return t.console, nil
}

// Status implements server.Selftest.
func (t *selftestTask) Status() api.LstStatus {
	t.mu.Lock()
	a, c, bounds, ending := t.agent, t.console, t.bounds, t.ending
	t.mu.Unlock()
	if a == nil || ending {
		_, bounds := t.settings(api.LstBounds{})
		return api.LstStatus{Bounds: bounds}
	}
	s := api.LstStatus{Enabled: true, Bounds: bounds}
	if i, err := c.ShowSession(); err == nil {
		session := server.ShownSession(&i)
		s.Console = &session
	}
	if i, ok := a.Session(); ok {
		s.Session = controlSession(&i)
	}
	n := a.Counters()
	s.Counters = api.LstCounters{
		Errors: n.Errors, Sent: n.Sent, Received: n.Received, Dropped: n.Dropped, Expired: n.Expired,
		BulkGet: n.BulkGet, BulkPut: n.BulkPut,
	}
	return s
}

// controlSession converts the session in which this node takes part to the form of the control
// interface.
func controlSession(i *selftest.SessionInfo) *api.LstAgentSession {
	s := &api.LstAgentSession{
		Name: i.Name, Console: i.ID.NID.String(), Stamp: i.ID.Stamp, Age: time.Since(i.Made).Seconds(),
		BRWErrors: i.BRWErrors, PingErrors: i.PingErrors, Tests: []api.LstAgentTest{},
	}
	for _, b := range i.Batches {
		for k := range b.Tests {
			test := &b.Tests[k]
			s.Tests = append(s.Tests, api.LstAgentTest{
				Batch: b.ID, Index: test.Index, Kind: test.Service.String(), Client: test.Client,
				Units: test.Units, Active: test.Active, Latency: controlLatency(&test.Latency),
			})
		}
	}
	return s
}

func controlLatency(h *rpclatency.Histogram) *api.LstLatency {
	n := h.Count()
	if n == 0 {
		return nil
	}
	return &api.LstLatency{
		Count: n, Mean: h.Mean(), P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), Max: h.Max,
	}
}
