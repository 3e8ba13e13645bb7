package selection

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// Routing is the route table at one time. The nil table has no routes.
type Routing struct {
	// all is in the order in which nets came, each net's in list order.
	all      []*Route
	nets     map[lnet.Net][]*Route
	gateways map[*PeerNI]struct{}
	nids     map[lnet.NID]struct{} // of gateways
}

// NewRouting makes a table in which the routes of each net keep their order.
// Whoever adds a route puts it at a random place among those of its net, so
// that nodes spread over routers (lnet-core 8.1).
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

// With is the table with one more route, at a place among those of its net: 0
// is the front; what is beyond the end is the end.
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

// WithAll is the table with more routes, each at a place among the n of its net that place
// chooses, 0 to n, as With has it. It costs what one route costs.
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

// Without is the table without the routes for which match is true, which are gone.
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

// Rebound is the table in which each route leads through the peer NI that has its
// gateway's NID now. find knows it; nil: it is the one that the route has.
func (t *Routing) Rebound(find func(lnet.NID) *PeerNI) *Routing {
	routes := t.Routes()
	for k, r := range routes {
		if p := find(r.Gateway.NID); p != nil && p != r.Gateway {
			routes[k] = r.Through(p)
		}
	}
	return NewRouting(routes)
}

// Moved is the table in which the routes through the NID from lead through to, in the
// places that they had. same says of another route that it leads through to's peer too: of two
// such routes to a net that stays which was there, unless the moved one has the
// better figures (lnet-core 8.1); the other one is gone.
func (t *Routing) Moved(from lnet.NID, to *PeerNI, same func(*Route) bool) (next *Routing, gone []*Route) {
	next = t
	for _, r := range t.Routes() {
		if r.Gateway.NID != from {
			continue
		}
		moved, at := r.Through(to), slices.Index(next.To(r.Net), r)
		next = next.without(r)
		if k := slices.IndexFunc(next.To(r.Net), same); k >= 0 {
			other := next.To(r.Net)[k]
			if !moved.beats(other) {
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

// Routes are all routes; those of one net are in list order. The caller owns
// the list.
func (t *Routing) Routes() []*Route {
	if t == nil {
		return nil
	}
	return slices.Clone(t.all)
}

// To are the routes to a net, in list order. The list belongs to the table.
func (t *Routing) To(net lnet.Net) []*Route {
	if t == nil {
		return nil
	}
	return t.nets[net]
}

// Uses tells whether a route was made with the NID as gateway.
func (t *Routing) Uses(nid lnet.NID) bool {
	if t == nil {
		return false
	}
	_, ok := t.nids[nid]
	return ok
}

// gateway tells whether a route uses the peer.
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
