package selection

import (
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

// Through is the route as it is through another peer NI.
func (r *Route) Through(gateway *PeerNI) *Route {
	moved := &Route{}
	moved.Init(r.Net, gateway, r.Priority, r.Hops)
	moved.Up.Store(r.Up.Load())
	moved.SingleHop.Store(r.SingleHop.Load())
	return moved
}

// beats tells whether the route has the better figures in all respects, so that it
// stays where one of two must go (lnet-core 8.1).
func (r *Route) beats(o *Route) bool { return r.Priority < o.Priority && r.HopCount() < o.HopCount() }
