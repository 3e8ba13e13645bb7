package selection

import "github.com/lnetd/lnetd/lnet"

// routeCriteria are the values by which routes are compared (selection 5.5).
type routeCriteria struct {
	route     *Route
	gateway   *PeerNI
	trouble   Trouble
	preferred bool
	priority  uint32
	hops      uint32
	health    int32
	queued    int64
	credits   int64
	turn      uint64
}

// better reports whether f is better than g, and which criterion decides that. If all
// values are equal, it returns true, so that the last of equal routes is chosen.
func (f *routeCriteria) better(g *routeCriteria) (bool, Criterion) {
	switch {
	case f.trouble != g.trouble:
		return f.trouble < g.trouble, ByGatewayTrouble
	case f.preferred != g.preferred:
		return f.preferred, ByPreferredRouter
	case f.priority != g.priority:
		return f.priority < g.priority, ByRoutePriority
	case f.hops != g.hops:
		return f.hops < g.hops, ByHops
	case f.health != g.health:
		return f.health > g.health, ByGatewayHealth
	case f.queued != g.queued:
		return f.queued < g.queued, ByGatewayQueue
	case f.credits != g.credits:
		return f.credits > g.credits, ByGatewayCredits
	case f.turn != g.turn:
		return f.turn < g.turn, ByRouteTurn
	}
	return true, ByOrder
}

// routeChoice is a route, the chosen NI of its gateway, and the turn that Decision.Commit
// gives to the route.
type routeChoice struct {
	route   *Route
	gateway *PeerNI
	turn    uint64
}

// bestRoute chooses the best of the routes to a net, for a message to final. If on is not
// nil, the gateway must have a NID on that local net. The route in the result is nil if no
// route is usable.
func (c *chooser) bestRoute(to lnet.Net, final *PeerNI, on *Net) routeChoice {
	var best routeCriteria
	turn := uint64(0)
	preferred := final.routers.Load()
	for _, r := range c.v.Routing.To(to) {
		if why := r.unusableReason(c.v); why != "" {
			c.t.excludeRoute(r, why)
			continue
		}
		peer := r.Gateway.peer.Load()
		if peer == final.peer.Load() { // a gateway accepts messages for one of its NIDs only on the net of that NID
			c.t.excludeRoute(r, "the gateway is the destination itself")
			continue
		}
		if c.r.From != nil && peer == c.r.From.peer.Load() { // the message would go back
			c.t.excludeRoute(r, "the message came from there")
			continue
		}
		gateway := c.bestGatewayNI(peer, on)
		if gateway == nil {
			c.t.excludeRoute(r, "gateway not on the net of the source")
			continue
		}
		f := routeCriteria{
			route: r, gateway: gateway, trouble: c.trouble(gateway, nil),
			preferred: preferred.has(peer.Primary), priority: r.Priority, hops: r.HopCount(),
			health: gateway.Health.Load(), queued: gateway.Queued.Load(), credits: gateway.Credits.Load(),
			turn: r.turn.Load(),
		}
		turn = max(turn, f.turn)
		if c.t != nil {
			c.t.routes = append(c.t.routes, f)
		}
		if best.route == nil {
			best = f
		} else if better, _ := f.better(&best); better {
			best = f
		}
	}
	if c.t != nil {
		c.t.endRoutes(to)
	}
	return routeChoice{route: best.route, gateway: best.gateway, turn: turn + 1}
}
