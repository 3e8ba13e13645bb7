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
	// Hops is 1 to 255, or 0 if it is unknown, which counts as 1 hop.
	Hops uint32
	// Priority is 0 for the most preferred routes. Larger numbers are less preferred.
	Priority uint32
}

// RouteInfo describes a route (lnet-core 8.1).
type RouteInfo struct {
	Net     lnet.Net
	Gateway lnet.NID
	RouteOptions
	// Up reports whether messages may use the route. SingleHop reports whether the gateway's
	// ping info has a NID on Net, so that no other router follows.
	Up, SingleHop bool
}

// NewRoute describes a route that is to be added or deleted.
type NewRoute struct {
	Net     lnet.Net
	Gateway lnet.NID
	RouteOptions
}

// AddRoute adds a route to a remote net. The route is inserted at a random position among
// those with equal hops and priority, so that different nodes prefer different routers
// (lnet-core 8.1). The gateway is checked immediately, in the background.
//
// AddRoute returns ErrInvalid if an argument is invalid, ErrExists if the net is local or
// has a route through this gateway, ErrUnreachable if no NI is on the gateway's net,
// ErrClosed, ErrInHandler, or ctx's error.
func (a *Admin) AddRoute(ctx context.Context, net lnet.Net, gateway lnet.NID, o RouteOptions) error {
	errs, err := a.AddRoutes(ctx, []NewRoute{{net, gateway, o}})
	if err != nil {
		return fmt.Errorf("add route to %s through %s: %w", net, gateway, err)
	}
	return errs[0]
}

// AddRoutes adds many routes for little more than the cost of one. errs has one element
// for each route, which is nil if the route was added. If no route could be attempted,
// AddRoutes returns only the second error.
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
	to := map[lnet.Net][]*selection.Route{} // the routes in added, by net
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
	d.nextCheck = 0
	d.node.noteRoutes("route added", added)
	return errs
}

// newRoute creates the route w, which the caller must insert into the route table. others
// are the routes to the same net that will be inserted together with it.
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
				return nil, fmt.Errorf("%s already has a route through NID %s of this gateway: %w", w.Net, r.Gateway.NID, ErrExists)
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

// check returns an error if the route is invalid or cannot be used with the NIs of t.
func (w *NewRoute) check(t *topology) error {
	switch gateway := w.Gateway; {
	case gateway.IsZero() || gateway.IsAny() || gateway.IsLoopback():
		return fmt.Errorf("gateway %s: not a NID that a gateway can have: %w", gateway, ErrInvalid)
	case w.Net == 0 || w.Net.Type() == lnet.TypeLO || w.Net == lnet.AnyNID.Net():
		return fmt.Errorf("net %s: not a net that a route can lead to: %w", w.Net, ErrInvalid)
	case gateway.Net() == w.Net:
		return fmt.Errorf("the gateway is on %s, the destination net of the route: %w", w.Net, ErrInvalid)
	case w.Hops > lnet.HopsMax:
		return fmt.Errorf("%d hops: not within 1 to %d: %w", w.Hops, lnet.HopsMax, ErrInvalid)
	case t.find(gateway) != nil:
		return fmt.Errorf("the gateway is this node: %w", ErrInvalid)
	case t.first(w.Net) != nil:
		return fmt.Errorf("%s is a local net: %w", w.Net, ErrExists)
	case t.first(gateway.Net()) == nil:
		return fmt.Errorf("this node has no interface on %s, the net of the gateway: %w", gateway.Net(), ErrUnreachable)
	}
	return nil
}

// gatewayOf returns the peer through which the route leads. It returns nil if discovery
// does not know the gateway yet.
func gatewayOf(r *selection.Route) *peer { return peerNIOf(r.Gateway).peer.Load() }

// route publishes a topology with the given route table.
func (d *discoverer) route(table *selection.Routing) {
	n := d.node
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	next := n.topology.Load().by(table, d.farNIDs(table))
	d.compile(next)
	n.topology.Store(next)
}

// DeleteRoute deletes the routes to a net that lead through the peer with the gateway NID
// (lnet-core 8.1). A zero net stands for every net, a zero gateway for every gateway. It
// returns ErrNotFound if net is not zero and no route leads to it, ErrClosed,
// ErrInHandler, or ctx's error.
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
// with the NID gateway.
func (n *Node) routesThrough(gateway lnet.NID) func(*selection.Route) bool {
	var through *peer
	if p := n.peers.find(gateway); p != nil {
		through = p.peer.Load()
	}
	return func(r *selection.Route) bool {
		return r.Gateway.NID == gateway || through != nil && gatewayOf(r) == through
	}
}

// dropRoutes deletes the routes for which match returns true, and informs the discovery
// machine.
func (d *discoverer) dropRoutes(match func(*selection.Route) bool) {
	table, gone := d.node.topology.Load().view.Routing.Without(match)
	d.forgetRoutes(gone)
	d.route(table)
	d.act()
}

// Routes lists the routes, grouped by net, in the order in which paths are chosen from
// them.
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

// rebindRoutes replaces the gateways of all routes by the peer NIs that now have the
// gateways' NIDs, after NIDs of gateways were added to or removed from peers.
func (d *discoverer) rebindRoutes() {
	n := d.node
	d.route(n.topology.Load().view.Routing.RebindGateways(func(nid lnet.NID) *selection.PeerNI {
		if p := n.peers.find(nid); p != nil {
			return &p.PeerNI
		}
		return nil
	}))
}

// moveRoutes changes the gateway of all routes through the NID from to the NID to, which
// now stands for the same node.
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
	d.node.noteRoutes("route removed", gone)
	for _, r := range gone {
		if err := d.machine.RemoveRoute(d.node.machineNow(), r.Gateway.NID); err != nil {
			d.node.log.Warn("a deleted route was unknown to discovery; this is a bug in lnetd without other effects", "net", r.Net, "gateway", r.Gateway.NID, "err", err)
		}
	}
}

// gatewayRoutes calls f for each route that leads through the peer q.
func (d *discoverer) gatewayRoutes(q *peer, f func(*selection.Route)) {
	v := q.view.Load()
	if v == nil {
		return
	}
	table := d.node.topology.Load().view.Routing
	for _, nid := range v.NIDs {
		for _, r := range table.Through(nid) {
			if gatewayOf(r) == q {
				f(r)
			}
		}
	}
}

// gatewayInfo updates the state of the routes through the gateway q from its ping info
// (lnet-core 8.3).
func (d *discoverer) gatewayInfo(q *peer, info *lnet.PingInfo) {
	if q == nil {
		return
	}
	d.recordGatewayNIDs(q, info)
	n := d.node
	if info.Features&lnet.FeatRoutingDisabled != 0 {
		d.gatewayRoutes(q, func(r *selection.Route) { d.node.setRouteUp(r, false) })
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
				Level: slog.LevelWarn, Text: "a route has one hop, but its gateway reports no NI on the destination net", Of: boundedlog.AboutPeer(r.Gateway.NID),
			}, slog.Any("net", r.Net))
		}
		if symmetric && (r.Hops == 1 || single) {
			up = up && netUp
		}
		n.setRouteUp(r, up)
	})
}

// gatewayChecked records whether the gateway q has answered a check; err is nil if it has
// (discovery 6.8). If the answer is only late, but other messages have arrived from the
// gateway since the ping, the gateway is considered busy, and nothing changes (decisions
// 131).
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
		d.gatewayRoutes(q, func(r *selection.Route) { d.node.setRouteUp(r, false) })
	}
	d.setRemoved(q, err != nil)
}

// heardSincePing reports whether a message has arrived from the peer q within the last
// transaction timeout, on a NID that no driver has reported as lost since.
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

// causeGateway connects two log lines: that a gateway does not answer, and that it answers
// again.
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
		d.node.log.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "gateway does not answer; its routes are down", Cause: causeGateway, Of: boundedlog.AboutPeer(v.Primary)})
	} else {
		d.node.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "gateway answers again", Cause: causeGateway, Of: boundedlog.AboutPeer(v.Primary), Recovery: true})
	}
	d.publishPeer(q, v)
}

// admitRouted reports whether a message from the net from, which the router gateway
// delivered, is accepted (lnet-core 5.2 step 6). forUs reports whether the message is for
// this node.
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

// returnsThrough reports whether a route to the net to leads through the neighbour
// gateway.
func (n *Node) returnsThrough(gateway *peerNI, to lnet.Net) bool {
	q := gateway.peer.Load()
	return q != nil && slices.ContainsFunc(n.topology.Load().view.Routing.To(to), func(r *selection.Route) bool {
		return gatewayOf(r) == q
	})
}

// reviveGateway marks the gateway q as alive again. q counted as dead, but has delivered a
// message from the net from.
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
				d.node.setRouteUp(r, true)
			}
		})
	}
	d.setRemoved(q, false)
}

// markAlive marks the peer NI p, which counts as down, as up, because a message has
// arrived from it. If p's node has reported p as down, this report is kept if the message
// may be older. The message is assumed to be sent at most one LND timeout ago, although it
// may be older if a PUT on a lazy portal has blocked it.
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

// noteLost records that the driver of i has lost the connections to the peer NI nid
// (lnet-core 8.4).
func (n *Node) noteLost(i *ni, nid lnet.NID) {
	p := n.peers.find(nid)
	if p == nil || n.parameters.Load().IgnorePeerDown {
		return
	}
	p.Up.Store(false)
	if !p.gateway() || n.topology.Load().better(i) { // routes are updated even if p was down already
		return
	}
	n.discoverer.post(func(*discovery.Machine, time.Duration) { n.discoverer.notifyRoutes(p, false) })
}

// notifyRoutes sets the state of the routes whose gateway has the NID of p. It does
// nothing if discovery is enabled for the gateway, because its ping info then determines
// the state.
func (d *discoverer) notifyRoutes(p *peerNI, up bool) {
	if !p.view().Disabled(d.node.topology.Load().local) {
		return
	}
	for _, r := range d.node.topology.Load().view.Routing.Through(p.NID) {
		if r.Gateway == &p.PeerNI {
			d.node.setRouteUp(r, up)
		}
	}
}
