package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// waitingNI is an NI that is configured but not up because its interface is not usable yet. lnetd brings
// it up when the interface becomes usable.
type waitingNI struct {
	config.NI
	cause string // why the interface is not usable
	index int    // position of the NI among all NIs of the node
}

// waiting returns the NIs whose interface is not usable yet. It may be called at any time, also outside
// of changes.inTurn.
func (e *engines) waiting() (list []waitingNI) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.nis {
		if l := &e.nis[k]; l.waits != nil {
			list = append(list, waitingNI{l.NI, causeOf(l.waits), k})
		}
	}
	return list
}

// waitsFor returns why the node's NI with the same names as ni is not up. It returns nil if that NI is
// up or does not exist.
func (e *engines) waitsFor(ni *config.NI) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.find(ni); k >= 0 {
		return e.nis[k].waits
	}
	return nil
}

// waitingOf returns a warning for each NI in the document c that waits for its interface, even if the
// NI existed before the document was applied. The document is called name in messages. If c is nil, as
// for a document that deletes, there are no warnings.
func (e *engines) waitingOf(name string, c *config.Config) (list config.Problems) {
	if c == nil {
		return nil
	}
	for k := range c.NIs {
		ni := &c.NIs[k]
		if waits := e.waitsFor(ni); waits != nil && strings.HasPrefix(ni.Where, name+":") {
			list = append(list, config.ProblemAt(name, ni.Where, "NI "+ni.String()+" waits: "+causeOf(waits), ""))
		}
	}
	return list
}

// causeOf returns the cause of an error without its other parts: the Cause of an *api.Fault, or else
// the whole text.
func causeOf(err error) string {
	var f *api.Fault
	if errors.As(err, &f) && f.Cause != "" {
		return f.Cause
	}
	return err.Error()
}

// waitsOn reports whether the net has NIs and all of them wait for their interfaces. It must run under
// changes.inTurn.
func (e *engines) waitsOn(n lnet.Net) bool {
	waits := false
	for k := range e.nis {
		switch l := &e.nis[k]; {
		case l.Net != n:
		case l.waits == nil:
			return false
		default:
			waits = true
		}
	}
	return waits
}

// Log lines about an NI that is not up.
const (
	textWaits    = "NI waits for its interface"
	textUndriven = "NI stays down because this lnetd has no driver for its net"
)

// retry brings up those waiting NIs whose interface is usable now. It reports whether it brought up at
// least one. It must run under changes.inTurn.
func (e *engines) retry(ctx context.Context, n *node.Node) (some bool) {
	if len(e.waiting()) == 0 {
		return false
	}
	for k := range e.nis {
		l := e.nis[k]
		if l.waits == nil {
			continue
		}
		before := l.waits.Error()
		d := e.table.of(l.Net.Type())
		err := d.usable(&l.NI)
		if err == nil {
			err = e.bringUp(ctx, n, d, &l)
		}
		if ctx.Err() != nil {
			return some
		}
		if err == nil {
			some = true
		} else if l.waits = err; err.Error() != before {
			boundedlog.New(e.log).Report(boundedlog.Line{Level: slog.LevelWarn, Text: textWaits, Of: boundedlog.About("ni", l.String())},
				slog.String("cause", causeOf(err)))
		}
		e.mu.Lock()
		e.nis[k] = l
		e.mu.Unlock()
	}
	return some
}

// watchInterfaces blocks until ctx is done, and calls retry whenever interfaces may have changed.
func (t *nodeTask) watchInterfaces(ctx context.Context) {
	var wg sync.WaitGroup
	for k := range t.drivers {
		watch := t.drivers[k].Watch
		if watch == nil {
			continue
		}
		wg.Go(func() {
			hostnet.Follow(ctx, watch, func() {
				_ = t.changes.inTurn(ctx, func() { t.retry(ctx) }) // fails only if ctx is done
			}, func(err error) {
				t.log.Warn("the kernel does not report changes of interfaces; NIs that wait for an interface stay down until it does", "cause", err)
			})
		})
	}
	wg.Wait()
}

// retry adjusts the node after interfaces may have changed. It tries again the "ip2nets" rules that
// matched no interface before, brings up waiting NIs, and adds the routes that waited for them. It must
// run under changes.inTurn.
func (t *nodeTask) retry(ctx context.Context) {
	if !t.unconfigured.Load() {
		t.settleAgain(ctx)
	}
	if t.engines.retry(ctx, t.Node) {
		t.addPostponed(ctx)
	}
}

// settleAgain tries again those "ip2nets" rules that have not matched this host yet, both of the loaded
// configuration and of pending documents. If rules match now, their NIs and routes are added.
func (t *nodeTask) settleAgain(ctx context.Context) {
	if c := *t.loaded.Load(); t.unsettled.Load() && t.settleNow(ctx, &c) {
		t.loaded.Store(&c)
		t.unsettled.Store(false)
	}
	t.pending = slices.DeleteFunc(t.pending, func(c config.Config) bool { return t.settleNow(ctx, &c) })
}

// settleNow resolves c for this host, adds the resulting NIs and routes to the node, and stores the
// resolved state in c. It returns false, so that the caller tries again later, if no "ip2nets" rule
// matches yet or the NIs cannot be added.
func (t *nodeTask) settleNow(ctx context.Context, c *config.Config) bool {
	s, err := t.resolvedState(c)
	if err != nil {
		return false
	}
	have, err := t.runningState(ctx)
	if err != nil {
		return false
	}
	add := config.Config{State: config.State{
		NIs: s.NIs, Routes: s.Routes, Parameters: have.Parameters, Routing: have.Routing, Buffers: have.Buffers, Drivers: have.Drivers,
	}}
	add.SetLNDTimeouts(t.loaded.Load().LNDTimeouts)
	t.engines.logCPTs(add.NIs)
	add.NIs = t.engines.resolvedOver(add.NIs, have.Drivers, have.Drivers)
	if s.Routing != config.RoutingOff {
		add.Routing = s.Routing
	}
	want, _, err := config.Add(&have, "ip2nets", &add, t.drivers.Options())
	if err == nil {
		err = t.apply(ctx, config.Diff(&have, &want, t.drivers.Options()), true)
	}
	if err != nil {
		boundedlog.New(t.log).Report(boundedlog.Line{ // bounded, because interfaces may change often
			Level: slog.LevelError, Text: "cannot add the NIs that the ip2nets rules select; lnetd tries again when an interface changes",
		}, slog.Any("err", err))
		return false
	}
	c.State = s
	return true
}

// postpone stores a route that cannot be added yet, because the net of its gateway has no NI that is
// up. addPostponed adds it later.
func (t *nodeTask) postpone(r *config.Route) {
	t.log.Info("route is waiting for an NI on the net of its gateway", "net", r.Net.String(), "gateway", r.Gateway.String())
	t.postponed.add(*r)
}

// postponed is a list of routes that wait until an NI on the net of their gateway is up.
type postponed struct {
	mu     sync.Mutex // guards routes
	routes []config.Route
}

func (p *postponed) add(r config.Route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes = append(p.routes, r)
}

// all returns a copy of the list.
func (p *postponed) all() []config.Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.routes)
}

// remove removes a route from the list, and reports whether the list contained it.
func (p *postponed) remove(net lnet.Net, gateway lnet.NID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.routes)
	p.routes = slices.DeleteFunc(p.routes, func(r config.Route) bool { return r.Net == net && r.Gateway == gateway })
	return len(p.routes) < before
}

// removeAll empties the list and returns its routes.
func (p *postponed) removeAll() []config.Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	routes := p.routes
	p.routes = nil
	return routes
}

// addPostponed tries to add all postponed routes. A route whose gateway still has no NI on its net is
// postponed again.
func (t *nodeTask) addPostponed(ctx context.Context) {
	routes := t.postponed.removeAll()
	for k := range routes {
		if err := t.addRoutes(ctx, []*config.Route{&routes[k]}); err != nil {
			t.log.Warn("ignoring a route of the configuration", "net", routes[k].Net.String(), "gateway", routes[k].Gateway.String(), "cause", err)
		}
	}
}

// warnIfNoneIsUp logs a warning if no NI except 0@lo is up and NIs wait for their interfaces. The line
// says what each of them waits for.
func (t *nodeTask) warnIfNoneIsUp() {
	waiting := t.engines.waiting()
	if len(t.NIs()) > 1 || len(waiting) == 0 {
		return
	}
	var all []string
	for _, w := range waiting {
		all = append(all, w.String()+": "+w.cause)
	}
	t.log.Warn("no NI is up; this node reaches no other node until an interface becomes usable", "waiting", strings.Join(all, "; "))
}
