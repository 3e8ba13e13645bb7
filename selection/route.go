package selection

import (
	"slices"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Route is a way to a remote net (lnet-core 8.1).
type Route struct {
	// Net, Gateway, Priority (0 is best) and Hops (1 to 255; 0: undefined, which
	// counts as 1) do not change. Gateway is the NID that the route was made
	// with; whichever peer it belongs to is the gateway.
	Net      lnet.Net
	Gateway  *PeerNI
	Priority uint32
	Hops     uint32

	// Up is the cached aliveness: it holds as long as the gateway cannot be
	// asked (lnet-core 8.2).
	Up atomic.Bool
	// SingleHop says that the gateway was seen to be on the remote net.
	SingleHop atomic.Bool

	turn atomic.Uint64
}

// Init makes r usable until something else is known. With
// check_routers_before_use the caller sets Up to false.
func (r *Route) Init(net lnet.Net, gateway *PeerNI, priority, hops uint32) {
	r.Net, r.Gateway, r.Priority, r.Hops = net, gateway, priority, hops
	r.Up.Store(true)
}

// Turn is the place of the last message by r in the order of all that went to
// its net.
func (r *Route) Turn() uint64 { return r.turn.Load() }

// HopCount is the number of hops that counts: 1 if it is undefined.
func (r *Route) HopCount() uint32 { return max(r.Hops, 1) }

// Alive tells whether v may use the route (lnet-core 8.2).
func (r *Route) Alive(v *View) bool { return r.obstacle(v) == "" }

// obstacle says why the route cannot be used, if so.
func (r *Route) obstacle(v *View) string {
	gateway := r.Gateway.peer.Load()
	switch {
	case gateway == nil:
		return "gateway unknown"
	case gateway.Dead:
		return "gateway dead"
	case v.DiscoveryOff || !gateway.MultiRail || gateway.NoDiscovery:
		if !r.Up.Load() {
			return "route down"
		}
	case !gateway.UpOn(r.Gateway.NID.Net()):
		return "gateway down on the local net"
	case !v.AsymmetricRoutes && (r.Hops == 1 || r.SingleHop.Load()) && !gateway.UpOn(r.Net):
		return "gateway down on the remote net"
	case !gateway.RoutingEnabled:
		return "routing disabled on the gateway"
	}
	return ""
}

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

// Without is the table without a route.
func (t *Routing) Without(r *Route) *Routing {
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
