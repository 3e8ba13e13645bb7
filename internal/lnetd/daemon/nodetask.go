package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/numa"
)

// closeTimeout bounds the time to close the node. A router first forwards the remaining messages for
// up to 10 s (lnet-core 9.1). Closing also takes time if peers no longer answer.
const closeTimeout = 20 * time.Second

// nodeTask is the task that runs the node and its drivers. The embedded Node and Admin may be used
// once the task is ready.
type nodeTask struct {
	*node.Node
	*node.Admin
	// loaded is the configuration that was loaded last. It is never modified, and replaced only under
	// changes.inTurn. Dry runs read it at any time.
	loaded  atomic.Pointer[config.Config]
	machine *numa.Machine // the NUMA layout; nil if the host has one NUMA node or its layout is unknown
	log     *slog.Logger
	drivers Drivers
	engines *engines
	// interfaces returns the host's network interfaces.
	interfaces func() ([]config.Interface, error)
	changes    changes
	// routerSensitivity is the parameter router_sensitivity. It has no effect and is stored only to
	// be shown.
	routerSensitivity atomic.Int64
	// unconfigured is true while LNet is not configured (lnetctl 4.1), so that only 0@lo exists.
	unconfigured atomic.Bool
	// failStep, if not nil, makes a step fail in tests.
	failStep func(config.Step) error
	// found is the NI that lnetd has chosen because the configuration names no net, or nil.
	found atomic.Pointer[config.NI]
	// unsettled is true if no "ip2nets" rule of the configuration has matched this host yet. The
	// rules are tried again when interfaces change. unsettled is changed only under changes.inTurn.
	unsettled atomic.Bool
	// pending holds the documents imported with --wait whose "ip2nets" rules have not matched this
	// host yet. They are tried again when interfaces change. pending is used only under
	// changes.inTurn.
	pending   []config.Config
	postponed postponed // routes that wait for an NI; changed only under changes.inTurn
	ready     chan struct{}
}

func newNodeTask(c config.Config, drivers Drivers, m *numa.Machine, log *slog.Logger) *nodeTask {
	t := &nodeTask{
		Admin: new(node.Admin), machine: m, log: log,
		drivers: drivers, engines: newEngines(drivers, c.Drivers, cptsOf(m), log), interfaces: hostInterfaces,
		changes: newChanges(), ready: make(chan struct{}),
	}
	t.loaded.Store(&c)
	t.engines.interfaces = func() ([]config.Interface, error) { return t.interfaces() }
	t.routerSensitivity.Store(int64(c.Parameters.RouterSensitivity))
	return t
}

// cpts returns the number of CPU partitions of this host.
func (t *nodeTask) cpts() int { return cptsOf(t.machine) }

func cptsOf(m *numa.Machine) int {
	if m == nil {
		return 1
	}
	return m.CPTs()
}

func (t *nodeTask) Ready() <-chan struct{} { return t.ready }
func (t *nodeTask) String() string         { return "node" }

// Run implements Task. It brings up the node and its NIs, retries waiting NIs when interfaces change,
// and takes the node down when ctx is done.
func (t *nodeTask) Run(ctx context.Context) error {
	if err := t.settle(); err != nil {
		return err
	}
	c := t.loaded.Load()
	n, err := node.New(node.Config{
		Logger:     t.log,
		Parameters: &c.Parameters.Parameters,
		NUMA:       t.machine,
		Routing:    c.Routing == config.RoutingAtOnce,
		Buffers:    c.Buffers,
	})
	if err != nil {
		return api.Fault{Code: api.CodeConfigInvalid, Text: "the node cannot be created"}.Because(err)
	}
	t.Node, t.Admin = n, n.Admin()
	switch err = t.up(ctx); {
	case err == nil:
		t.warnIfNoneIsUp()
		close(t.ready)
		t.watchInterfaces(ctx)
		<-ctx.Done()
	case ctx.Err() != nil: // stopped before it was up
		err = nil
	}
	return errors.Join(err, t.down())
}

// down closes the node, and then the drivers. If the node does not close in time, the drivers are left
// running, because they still have interfaces.
func (t *nodeTask) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		return err // the drivers cannot be stopped while they have interfaces
	}
	return t.engines.close()
}

// up applies the loaded configuration to the new node, except for the settings that were passed when
// the node was created and are in force already. Then it waits for gateways (see checkGateways).
func (t *nodeTask) up(ctx context.Context) error {
	want, _, err := t.desiredState(ctx, nil)
	if err != nil {
		return err
	}
	if refused := t.drivers.twice("", want.NIs); len(refused) > 0 {
		return RefusedFault(refused)
	}
	have := config.State{Parameters: want.Parameters, Buffers: want.Buffers, Drivers: want.Drivers}
	if want.Routing == config.RoutingAtOnce {
		have.Routing = want.Routing
		t.log.Info("this node is a router")
	}
	if busy := t.changes.inTurn(ctx, func() { err = t.apply(ctx, config.Diff(&have, &want, t.drivers.Options()), true) }); busy != nil {
		return busy
	}
	if err != nil {
		return err
	}
	if n := len(want.Peers); n > 0 {
		t.log.Info("peers configured", "peers", n)
	}
	if n := len(t.Routes()); n > 0 {
		t.log.Info("routes added", "routes", n)
	}
	return t.checkGateways(ctx)
}

// settle resolves the "ip2nets" rules and interface names of the loaded configuration for this host,
// and stores the result in t.loaded.
func (t *nodeTask) settle() error {
	c := *t.loaded.Load()
	s, unsettled, err := t.settledOrWaiting(&c)
	c.State = s
	t.loaded.Store(&c)
	t.unsettled.Store(unsettled)
	return err
}

// mismatches describes the interfaces that the string "ip2nets" in l selects although none of their
// addresses matches the string's patterns (see config.Site.Mismatches).
func (t *nodeTask) mismatches(l *config.Site) []string {
	if len(l.IP2Nets) == 0 {
		return nil // as in most documents; avoids reading the interfaces again
	}
	machine, err := t.interfaces()
	if err != nil {
		return nil // resolvedState returns the error
	}
	return l.Mismatches(machine)
}

// logMismatches logs a warning for each text that mismatches returns.
func (t *nodeTask) logMismatches(l *config.Site) {
	for _, text := range t.mismatches(l) {
		t.log.Warn("an ip2nets entry uses an interface whose addresses do not match its patterns", "cause", text)
	}
}

// settledOrWaiting resolves c for this host. If no "ip2nets" rule matches this host, it returns the
// state without the rules and sets unsettled instead of returning an error, because a matching
// interface may still appear.
func (t *nodeTask) settledOrWaiting(c *config.Config) (_ config.State, unsettled bool, _ error) {
	s, err := t.resolvedState(c)
	t.logMismatches(&c.Site)
	if fitsNothing(err) {
		t.log.Warn("no ip2nets rule matches this host; waiting for an interface that matches one", "cause", err)
		return s, true, nil
	}
	return s, false, err
}

// fitsNothing reports whether err means that no "ip2nets" rule matches this host.
func fitsNothing(err error) bool {
	return errors.Is(err, config.ErrNoRules) || errors.Is(err, lnet.ErrNoMatch)
}

// checkGateways discovers all gateways, and waits until each has answered or the timeout has passed. It
// does so only if check_routers_before_use is set (lnet-core 8.5). A gateway that does not answer is
// logged and is not an error.
func (t *nodeTask) checkGateways(ctx context.Context) error {
	p := &t.loaded.Load().Parameters
	if !p.CheckRoutersBeforeUse {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.RouterPingTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for nid := range t.gateways() {
		wg.Go(func() {
			if _, err := t.Discover(ctx, nid); err != nil {
				boundedlog.New(t.log).Report(boundedlog.Line{
					Level: slog.LevelWarn, Text: "gateway did not answer the check at the start; its routes are down", Of: boundedlog.AboutPeer(nid),
				}, slog.Any("cause", err))
			}
		})
	}
	wg.Wait()
	return nil
}

// gateways returns the set of gateways of all routes.
func (t *nodeTask) gateways() map[lnet.NID]bool {
	all := map[lnet.NID]bool{}
	for _, r := range t.Routes() {
		all[r.Gateway] = true
	}
	return all
}
