package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// RouteOptions are the properties of a route besides its net and gateway.
type RouteOptions struct {
	// Hops is 1 to 255, or 0 if it is unknown, which counts as 1.
	Hops uint32
	// Priority is 0 for the most preferred routes.
	Priority uint32
}

// RouteInfo describes a route (lnet-core 8.1).
type RouteInfo struct {
	Net     lnet.Net
	Gateway lnet.NID
	RouteOptions
	// Up reports whether the route may be used. SingleHop reports whether the gateway is
	// known to be on the net itself.
	Up, SingleHop bool
}

// NewRoute is a route to be added or deleted.
type NewRoute struct {
	Net     lnet.Net
	Gateway lnet.NID
	RouteOptions
}

// AddRoute adds a route to a remote net. It is inserted at a random position among routes
// with equal hops and priority, so that nodes spread their load over routers (lnet-core
// 8.1). The gateway is checked at once.
//
// AddRoute returns ErrInvalid if an argument is invalid, ErrExists if the net is local or
// the route exists, ErrUnreachable if no NI is on the gateway's net, ErrClosed,
// ErrInHandler, or ctx's error.
func (a *Admin) AddRoute(ctx context.Context, net lnet.Net, gateway lnet.NID, o RouteOptions) error {
	errs, err := a.AddRoutes(ctx, []NewRoute{{net, gateway, o}})
	if err != nil {
		return fmt.Errorf("add route to %s through %s: %w", net, gateway, err)
	}
	return errs[0]
}

// AddRoutes adds many routes for little more than the cost of one. It returns one error
// for each route, nil for those that were added. If it could not start, it returns an
// error and no list.
func (a *Admin) AddRoutes(ctx context.Context, routes []NewRoute) (errs []error, _ error) {
	n := a.n
	err := n.callErr(ctx, func(m *discovery.Machine, now time.Duration) error {
		errs = n.discoverer.addRoutes(m, now, routes)
		return nil
	})
	return errs, err
}

func (d *discoverer) addRoutes(m *discovery.Machine, now time.Duration, routes []NewRoute) (errs []error) {
	var added []*selection.Route
	to := map[lnet.Net][]*selection.Route{} // those of added, by net
	for k := range routes {
		w := &routes[k]
		r, err := d.newRoute(m, now, w, to[w.Net])
		if err != nil {
			err = fmt.Errorf("add route to %s through %s: %w", w.Net, w.Gateway, err)
		} else {
			added, to[w.Net] = append(added, r), append(to[w.Net], r)
		}
		errs = append(errs, err)
	}
	if len(added) == 0 {
		return errs
	}
	d.route(d.node.topology.Load().view.Routing.WithAll(added, func(n int) int { return d.rng.IntN(1 + n) }))
	for _, r := range added {
		if q := gatewayOf(r); q != nil {
			q.due = nil
		}
	}
	return errs
}

// newRoute creates a route that is not in a table yet. others are the routes to the same
// net that will be added together with it.
func (d *discoverer) newRoute(
	m *discovery.Machine, now time.Duration, w *NewRoute, others []*selection.Route,
) (*selection.Route, error) {
	n := d.node
	if err := w.check(n.topology.Load()); err != nil {
		return nil, err
	}
	through := n.peerFor(w.Gateway).peer.Load()
	for _, list := range [][]*selection.Route{n.topology.Load().view.Routing.To(w.Net), others} {
		for _, r := range list {
			if r.Gateway.NID == w.Gateway || through != nil && gatewayOf(r) == through {
				return nil, fmt.Errorf("by %s: %w", r.Gateway.NID, ErrExists)
			}
		}
	}
	if err := m.AddRoute(now, w.Gateway); err != nil {
		return nil, err
	}
	d.act()
	r := &selection.Route{}
	p := n.peerFor(w.Gateway)
	r.Init(w.Net, &p.PeerNI, w.Priority, w.Hops)
	if n.parameters.Load().CheckRoutersBeforeUse && !p.view().State.Has(discovery.RouterDiscovered) {
		r.Up.Store(false)
		p.Up.Store(false)
	}
	return r, nil
}

// check validates the route.
func (w *NewRoute) check(t *topology) error {
	switch gateway := w.Gateway; {
	case gateway.IsZero() || gateway.IsAny() || gateway.IsLoopback():
		return fmt.Errorf("gateway %s: %w", gateway, ErrInvalid)
	case w.Net == 0 || w.Net.Type() == lnet.TypeLO || w.Net == lnet.AnyNID.Net():
		return fmt.Errorf("net %s: %w", w.Net, ErrInvalid)
	case gateway.Net() == w.Net:
		return fmt.Errorf("the gateway is on %s, the destination net of the route: %w", w.Net, ErrInvalid)
	case w.Hops > lnet.HopsMax:
		return fmt.Errorf("%d hops: not within 1 to %d: %w", w.Hops, lnet.HopsMax, ErrInvalid)
	case t.find(gateway) != nil:
		return fmt.Errorf("the gateway is this node: %w", ErrInvalid)
	case t.first(w.Net) != nil:
		return fmt.Errorf("%s is a local net: %w", w.Net, ErrExists)
	case t.first(gateway.Net()) == nil:
		return fmt.Errorf("no interface on %s: %w", gateway.Net(), ErrUnreachable)
	}
	return nil
}

// gatewayOf returns the peer through which a route leads, or nil if discovery does not
// know it yet.
func gatewayOf(r *selection.Route) *peer { return peerNIOf(r.Gateway).peer.Load() }

// route replaces the route table.
func (d *discoverer) route(table *selection.Routing) {
	n := d.node
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	next := n.topology.Load().by(table, d.farNIDs(table))
	d.compile(next)
	n.topology.Store(next)
}

// DeleteRoute deletes the routes to a net through the peer that has the gateway NID
// (lnet-core 8.1). A zero net stands for any net, a zero gateway for any gateway. It
// returns ErrNotFound if there is no route to the net, ErrClosed, ErrInHandler, or ctx's
// error.
func (a *Admin) DeleteRoute(ctx context.Context, net lnet.Net, gateway lnet.NID) error {
	n := a.n
	err := n.callErr(ctx, func(m *discovery.Machine, now time.Duration) error {
		if net != 0 && len(n.topology.Load().view.Routing.To(net)) == 0 {
			return ErrNotFound
		}
		n.strangers.recount()
		leads := n.routesThrough(gateway)
		n.discoverer.dropRoutes(func(r *selection.Route) bool {
			return (net == 0 || r.Net == net) && (gateway.IsZero() || leads(r))
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete route to %s through %s: %w", net, gateway, err)
	}
	return nil
}

// DeleteRoutes deletes many routes by their nets and gateways, for little more than the
// cost of one. Routes that do not exist are ignored.
func (a *Admin) DeleteRoutes(ctx context.Context, routes []NewRoute) error {
	n := a.n
	err := n.callErr(ctx, func(*discovery.Machine, time.Duration) error {
		by := map[lnet.Net][]func(*selection.Route) bool{}
		for k := range routes {
			by[routes[k].Net] = append(by[routes[k].Net], n.routesThrough(routes[k].Gateway))
		}
		n.strangers.recount()
		n.discoverer.dropRoutes(func(r *selection.Route) bool {
			return slices.ContainsFunc(by[r.Net], func(leads func(*selection.Route) bool) bool { return leads(r) })
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete routes: %w", err)
	}
	return nil
}

// routesThrough returns a function that reports whether a route leads through the peer
// that has the gateway NID.
func (n *Node) routesThrough(gateway lnet.NID) func(*selection.Route) bool {
	var through *peer
	if p := n.peers.find(gateway); p != nil {
		through = p.peer.Load()
	}
	return func(r *selection.Route) bool {
		return r.Gateway.NID == gateway || through != nil && gatewayOf(r) == through
	}
}

// dropRoutes deletes the routes for which match returns true.
func (d *discoverer) dropRoutes(match func(*selection.Route) bool) {
	table, gone := d.node.topology.Load().view.Routing.Without(match)
	d.forgetRoutes(gone)
	d.route(table)
	d.act()
}

// Routes lists the routes, grouped by net.
func (a *Admin) Routes() []RouteInfo {
	if !a.n.isMade() {
		return nil
	}
	t := a.n.topology.Load()
	infos := []RouteInfo{}
	for _, r := range t.view.Routing.Routes() {
		infos = append(infos, RouteInfo{
			Net: r.Net, Gateway: r.Gateway.NID, RouteOptions: RouteOptions{Hops: r.Hops, Priority: r.Priority},
			Up: r.Alive(&t.view), SingleHop: r.SingleHop.Load(),
		})
	}
	return infos
}

// rebindRoutes makes routes refer to the peer NIs that now have their gateways' NIDs.
func (d *discoverer) rebindRoutes() {
	n := d.node
	d.route(n.topology.Load().view.Routing.RebindGateways(func(nid lnet.NID) *selection.PeerNI {
		if p := n.peers.find(nid); p != nil {
			return &p.PeerNI
		}
		return nil
	}))
}

// moveRoutes makes routes through the NID from lead through the NID to.
func (d *discoverer) moveRoutes(from, to lnet.NID) {
	n := d.node
	owner := n.peerFor(to)
	table, gone := n.topology.Load().view.Routing.MoveGateway(from, &owner.PeerNI, func(r *selection.Route) bool {
		return gatewayOf(r) == owner.peer.Load()
	})
	d.forgetRoutes(gone)
	d.route(table)
}

// forgetRoutes notifies the discovery machine of routes that were removed.
func (d *discoverer) forgetRoutes(gone []*selection.Route) {
	for _, r := range gone {
		if err := d.machine.RemoveRoute(d.node.machineNow(), r.Gateway.NID); err != nil {
			d.node.log.Warn("discovery does not know a deleted route", "net", r.Net, "gateway", r.Gateway.NID, "err", err)
		}
	}
}

// gatewayRoutes calls f for each route through a peer.
func (d *discoverer) gatewayRoutes(q *peer, f func(*selection.Route)) {
	for _, r := range d.node.topology.Load().view.Routing.Routes() {
		if gatewayOf(r) == q {
			f(r)
		}
	}
}

// gatewayInfo updates the routes through a gateway from its ping info (lnet-core 8.3).
func (d *discoverer) gatewayInfo(q *peer, info *lnet.PingInfo) {
	if q == nil {
		return
	}
	d.recordGatewayNIDs(q, info)
	n := d.node
	if info.Features&lnet.FeatRoutingDisabled != 0 {
		d.gatewayRoutes(q, func(r *selection.Route) { r.Up.Store(false) })
		return
	}
	symmetric := !n.parameters.Load().AsymmetricRoutes
	d.gatewayRoutes(q, func(r *selection.Route) {
		up := q.selection.UpOn(r.Gateway.NID.Net())
		single, netUp := false, false
		for _, i := range info.NIs {
			if i.NID.Net() == r.Net {
				single = true
				netUp = netUp || i.Status == lnet.StatusUp
			}
		}
		r.SingleHop.Store(single)
		if r.Hops == 1 && !single {
			n.log.Report(boundedlog.Line{
				Level: slog.LevelWarn, Text: "a route has one hop, but its gateway is not on the destination net", Of: boundedlog.AboutPeer(r.Gateway.NID),
			}, slog.Any("net", r.Net))
		}
		if symmetric && (r.Hops == 1 || single) {
			up = up && netUp
		}
		r.Up.Store(up)
	})
}

// gatewayChecked records whether a gateway has answered (discovery 6.8). A gateway that
// has not answered in time, but from which messages have arrived meanwhile, is considered
// busy and not dead (decisions 131).
func (d *discoverer) gatewayChecked(q *peer, err error) {
	if q == nil || errors.Is(err, discovery.ErrTimedOut) && d.heardSincePing(q) {
		return
	}
	if err != nil {
		if v := q.view.Load(); v != nil {
			for _, nid := range v.NIDs {
				if p := d.node.peers.find(nid); p != nil {
					p.Up.Store(false)
				}
			}
		}
		d.gatewayRoutes(q, func(r *selection.Route) { r.Up.Store(false) })
	}
	d.setRemoved(q, err != nil)
}

// heardSincePing reports whether a message arrived from a peer within the timeout of a
// ping, and no driver has reported the peer as lost since.
func (d *discoverer) heardSincePing(q *peer) bool {
	v := q.view.Load()
	if v == nil {
		return false
	}
	n := d.node
	since := n.second.Load() - int64(n.parameters.Load().TransactionTimeout/time.Second)
	return slices.ContainsFunc(v.NIDs, func(nid lnet.NID) bool {
		p := n.peers.find(nid)
		return p != nil && p.Up.Load() && p.lastAlive.Load() > max(since, 0)
	})
}

// causeGateway links the log lines about a gateway that stops and starts to answer.
const causeGateway = "gateway"

func (d *discoverer) setRemoved(q *peer, dead bool) {
	if q.removed == dead {
		return
	}
	q.removed = dead
	v := q.view.Load()
	if v == nil {
		return
	}
	if dead {
		d.node.log.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "gateway does not answer", Cause: causeGateway, Of: boundedlog.AboutPeer(v.Primary)})
	} else {
		d.node.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "gateway answers", Cause: causeGateway, Of: boundedlog.AboutPeer(v.Primary)})
	}
	d.publishPeer(q, v)
}

// admitRouted reports whether a message that a router delivered from a net is accepted
// (lnet-core 5.2 step 6).
func (n *Node) admitRouted(gateway *peerNI, from lnet.Net, forUs bool) bool {
	strict := forUs && n.parameters.Load().DropAsymRoute
	dead := gateway.Peer().Removed
	if !strict && !dead {
		return true
	}
	if strict && !n.returnsThrough(gateway, from) {
		return false
	}
	if dead {
		q := gateway.peer.Load()
		n.discoverer.post(func(*discovery.Machine, time.Duration) { n.discoverer.reviveGateway(q, from) })
	}
	return true
}

// returnsThrough reports whether a route to a net leads through a neighbour.
func (n *Node) returnsThrough(gateway *peerNI, to lnet.Net) bool {
	q := gateway.peer.Load()
	return q != nil && slices.ContainsFunc(n.topology.Load().view.Routing.To(to), func(r *selection.Route) bool {
		return gatewayOf(r) == q
	})
}

// reviveGateway marks a gateway as alive that counted as dead and has delivered a message
// from a net.
func (d *discoverer) reviveGateway(q *peer, from lnet.Net) {
	v := q.view.Load()
	if !q.removed || v == nil {
		return
	}
	for _, nid := range v.NIDs {
		if p := d.node.peers.find(nid); p != nil && nid.Net() == from {
			p.Up.Store(true)
		}
	}
	if v.Disabled(d.node.topology.Load().local) {
		d.gatewayRoutes(q, func(r *selection.Route) {
			if r.Net == from {
				r.Up.Store(true)
			}
		})
	}
	d.setRemoved(q, false)
}

// markAlive updates a peer NI that counted as down after a message has arrived from it. The
// message may have been sent before the peer NI was reported as down. It is assumed to be
// no older than the LND timeout, although it may be if a PUT on a lazy portal has blocked
// it.
func (n *Node) markAlive(p *peerNI) {
	late := n.parameters.Load().LNDTimeout()
	for _, i := range n.topology.Load().nis {
		if i.net == p.NID.Net() {
			late = max(late, i.iface.Timeout())
		}
	}
	n.reportUp(p, n.now()-int64(late))
	if p.Up.Swap(true) {
		return
	}
	n.discoverer.retryRounds(p, true)
	if !p.gateway() || p.Peer().Removed { // see reviveGateway
		return
	}
	n.discoverer.post(func(*discovery.Machine, time.Duration) { n.discoverer.notifyRoutes(p, true) })
}

// noteLost records that a driver has lost a peer (lnet-core 8.4).
func (n *Node) noteLost(i *ni, nid lnet.NID) {
	p := n.peers.find(nid)
	if p == nil || n.parameters.Load().IgnorePeerDown {
		return
	}
	p.Up.Store(false)
	if !p.gateway() || n.topology.Load().better(i) { // update routes even if p was down already
		return
	}
	n.discoverer.post(func(*discovery.Machine, time.Duration) { n.discoverer.notifyRoutes(p, false) })
}

// notifyRoutes sets the state of the routes whose gateway is the NID of p. It applies
// only to gateways for which discovery is disabled.
func (d *discoverer) notifyRoutes(p *peerNI, up bool) {
	if !p.view().Disabled(d.node.topology.Load().local) {
		return
	}
	for _, r := range d.node.topology.Load().view.Routing.Routes() {
		if r.Gateway == &p.PeerNI {
			r.Up.Store(up)
		}
	}
}
