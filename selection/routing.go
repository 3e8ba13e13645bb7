package selection

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// Routing is an immutable route table. A nil table has no routes.
type Routing struct {
	// all holds the routes of each net in list order. Nets are in the order in which they
	// were added.
	all      []*Route
	nets     map[lnet.Net][]*Route
	gateways map[*PeerNI]struct{}
	nids     map[lnet.NID]struct{} // the NIDs of gateways
}

// NewRouting returns a table in which the routes of each net keep their order. A new route
// should be inserted at a random place among those of its net, so that nodes spread their
// traffic over routers (lnet-core 8.1).
func NewRouting(routes []*Route) *Routing {
	t := &Routing{
		all: slices.Clone(routes), nets: make(map[lnet.Net][]*Route),
		gateways: make(map[*PeerNI]struct{}, len(routes)),
		nids:     make(map[lnet.NID]struct{}, len(routes)),
	}
	for _, r := range routes {
		t.nets[r.Net] = append(t.nets[r.Net], r)
		t.gateways[r.Gateway] = struct{}{}
		t.nids[r.Gateway.NID] = struct{}{}
	}
	return t
}

// With returns the table with r inserted at place among the routes of its net. Place 0 is
// the front. A place beyond the end is the end.
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

// WithAll returns the table with more routes. place is called with the number n of routes
// that the net has so far, and returns the place of the new one, 0 to n. It costs as much
// as adding a single route.
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

// Without returns the table without the routes for which match returns true, and those
// routes.
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

// RebindGateways returns the table with each route through the peer NI that now has its gateway's
// NID. find returns that peer NI, or nil to keep the route's own.
func (t *Routing) RebindGateways(find func(lnet.NID) *PeerNI) *Routing {
	routes := t.Routes()
	for k, r := range routes {
		if p := find(r.Gateway.NID); p != nil && p != r.Gateway {
			routes[k] = r.Through(p)
		}
	}
	return NewRouting(routes)
}

// MoveGateway returns the table in which routes through the NID from lead through to instead, in
// the same places. same reports whether another route already leads through the peer of to.
// Of two such routes to one net, the existing one is kept, unless the moved route is better
// in all respects (lnet-core 8.1). gone are the routes that were removed.
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

// Routes returns all routes. Those of one net are in list order. The caller owns the slice.
func (t *Routing) Routes() []*Route {
	if t == nil {
		return nil
	}
	return slices.Clone(t.all)
}

// To returns the routes to a net in list order. The table owns the slice.
func (t *Routing) To(net lnet.Net) []*Route {
	if t == nil {
		return nil
	}
	return t.nets[net]
}

// Uses reports whether a route was created with nid as its gateway.
func (t *Routing) Uses(nid lnet.NID) bool {
	if t == nil {
		return false
	}
	_, ok := t.nids[nid]
	return ok
}

// gateway reports whether a route uses the peer.
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
