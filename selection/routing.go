package selection

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// Routing is an immutable route table. A nil table has no routes.
type Routing struct {
	// all holds all routes, grouped by net. Nets are in the order in which they were added,
	// and the routes of each net in the order in which selection considers them.
	all      []*Route
	nets     map[lnet.Net][]*Route
	gateways map[*PeerNI]struct{}
	nids     map[lnet.NID][]*Route // the routes by the NIDs of their gateways
}

// NewRouting returns a table of these routes. The routes of each net keep their order. A
// new route should be inserted at a random place among those of its net, so that different
// nodes prefer different routers (lnet-core 8.1).
func NewRouting(routes []*Route) *Routing {
	t := &Routing{
		all: slices.Clone(routes), nets: make(map[lnet.Net][]*Route),
		gateways: make(map[*PeerNI]struct{}),
		nids:     make(map[lnet.NID][]*Route),
	}
	for _, r := range routes {
		t.nets[r.Net] = append(t.nets[r.Net], r)
		t.gateways[r.Gateway] = struct{}{}
		t.nids[r.Gateway.NID] = append(t.nids[r.Gateway.NID], r)
	}
	return t
}

// With returns a copy of the table with r inserted at the given place among the routes of
// its net, from 0. A place beyond the end means the end.
func (t *Routing) With(r *Route, place int) *Routing {
	all := t.Routes()
	at := len(all)
	for k, other := range all {
		if other.Net != r.Net {
			continue
		}
		if place <= 0 {
			at = k
			break
		}
		place--
	}
	return NewRouting(slices.Insert(all, at, r))
}

// WithAll returns a copy of the table with more routes. For each of them it calls place
// with the number n of routes that its net has so far; place returns where to insert the
// new route, 0 to n. WithAll costs about as much as adding one route.
func (t *Routing) WithAll(routes []*Route, place func(n int) int) *Routing {
	nets := make(map[lnet.Net][]*Route)
	var order []lnet.Net
	add := func(r *Route, at int) {
		if len(nets[r.Net]) == 0 {
			order = append(order, r.Net)
		}
		nets[r.Net] = slices.Insert(nets[r.Net], at, r)
	}
	for _, r := range t.Routes() {
		add(r, len(nets[r.Net]))
	}
	for _, r := range routes {
		add(r, place(len(nets[r.Net])))
	}
	var all []*Route
	for _, net := range order {
		all = append(all, nets[net]...)
	}
	return NewRouting(all)
}

// Without returns a copy of the table without the routes for which match returns true.
// gone are the routes that were left out.
func (t *Routing) Without(match func(*Route) bool) (next *Routing, gone []*Route) {
	var kept []*Route
	for _, r := range t.Routes() {
		if match(r) {
			gone = append(gone, r)
		} else {
			kept = append(kept, r)
		}
	}
	return NewRouting(kept), gone
}

// RebindGateways returns a copy of the table in which the gateway of each route is the
// peer NI that find returns for the gateway's NID. If find returns nil, the route is not
// changed.
func (t *Routing) RebindGateways(find func(lnet.NID) *PeerNI) *Routing {
	routes := t.Routes()
	for k, r := range routes {
		if p := find(r.Gateway.NID); p != nil && p != r.Gateway {
			routes[k] = r.Through(p)
		}
	}
	return NewRouting(routes)
}

// MoveGateway returns a copy of the table in which all routes through the NID from lead
// through the peer NI to instead. They keep their places. same reports whether a route
// already leads through the peer of to. If a net would then have two routes through that
// peer, the existing one is kept, unless the moved route has both a better priority and
// fewer hops (lnet-core 8.1). gone are the routes that were removed.
func (t *Routing) MoveGateway(from lnet.NID, to *PeerNI, same func(*Route) bool) (next *Routing, gone []*Route) {
	next = t
	for _, r := range t.Routes() {
		if r.Gateway.NID != from {
			continue
		}
		moved, at := r.Through(to), slices.Index(next.To(r.Net), r)
		next = next.without(r)
		if k := slices.IndexFunc(next.To(r.Net), same); k >= 0 {
			other := next.To(r.Net)[k]
			if !moved.dominates(other) {
				gone = append(gone, moved)
				continue
			}
			gone = append(gone, other)
			next = next.without(other)
		}
		next = next.With(moved, at)
	}
	return next, gone
}

func (t *Routing) without(r *Route) *Routing {
	return NewRouting(slices.DeleteFunc(t.Routes(), func(o *Route) bool { return o == r }))
}

// Routes returns all routes, grouped by net, in the order of the table. The caller owns
// the slice.
func (t *Routing) Routes() []*Route {
	if t == nil {
		return nil
	}
	return slices.Clone(t.all)
}

// To returns the routes to a net in the order of the table. The caller must not modify the
// slice.
func (t *Routing) To(net lnet.Net) []*Route {
	if t == nil {
		return nil
	}
	return t.nets[net]
}

// Through returns the routes that were created with nid as their gateway's NID, in the
// order of the table. The caller must not modify the slice.
func (t *Routing) Through(nid lnet.NID) []*Route {
	if t == nil {
		return nil
	}
	return t.nids[nid]
}

// Uses reports whether a route was created with nid as its gateway's NID.
func (t *Routing) Uses(nid lnet.NID) bool { return len(t.Through(nid)) > 0 }

// gateway reports whether a route was created with a NID of the peer p.
func (t *Routing) gateway(p *Peer) bool {
	if t == nil || p == nil {
		return false
	}
	for _, n := range p.Nets {
		for _, i := range n.NIs {
			if _, ok := t.gateways[i]; ok {
				return true
			}
		}
	}
	return false
}
