package selection

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Route is a route to a remote net (lnet-core 8.1).
type Route struct {
	// Net, Gateway, Priority and Hops must not change. Priority 0 is the best. Hops is 1 to
	// 255, or 0 if it is unknown, which counts as 1. Gateway is the peer NI with which the
	// route was created; messages may use any NID of the peer to which it belongs.
	Net      lnet.Net
	Gateway  *PeerNI
	Priority uint32
	Hops     uint32

	// Up is the last known state of the route. It decides whether the route is usable if
	// discovery is off for the gateway (lnet-core 8.2).
	Up atomic.Bool
	// SingleHop reports whether the gateway's ping info has a NID on the remote net.
	SingleHop atomic.Bool

	turn atomic.Uint64
}

// Init initializes r as a usable route. If check_routers_before_use is set, the caller
// must then set Up to false.
func (r *Route) Init(net lnet.Net, gateway *PeerNI, priority, hops uint32) {
	r.Net, r.Gateway, r.Priority, r.Hops = net, gateway, priority, hops
	r.Up.Store(true)
}

// Turn returns the number of the last message through r, counted over all messages to the
// remote net.
func (r *Route) Turn() uint64 { return r.turn.Load() }

// HopCount returns the number of hops, or 1 if it is unknown.
func (r *Route) HopCount() uint32 { return max(r.Hops, 1) }

// Alive reports whether messages may use the route, with the settings in v (lnet-core
// 8.2).
func (r *Route) Alive(v *View) bool { return r.unusableReason(v) == "" }

// unusableReason returns the reason why the route is not usable in v, or "" if it is
// usable.
func (r *Route) unusableReason(v *View) string {
	gateway := r.Gateway.peer.Load()
	switch {
	case gateway == nil:
		return "gateway unknown"
	case gateway.Removed:
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

// Through returns a copy of the route that leads through another peer NI.
func (r *Route) Through(gateway *PeerNI) *Route {
	moved := &Route{}
	moved.Init(r.Net, gateway, r.Priority, r.Hops)
	moved.Up.Store(r.Up.Load())
	moved.SingleHop.Store(r.SingleHop.Load())
	return moved
}

// dominates reports whether r has both a better priority and fewer hops than o. If only
// one of two routes can be kept, a route that dominates the other one is kept (lnet-core
// 8.1).
func (r *Route) dominates(o *Route) bool {
	return r.Priority < o.Priority && r.HopCount() < o.HopCount()
}
