package metrics

import "github.com/lnetd/lnetd/node"

var (
	routesByState = gaugeFamily("lnet_routes", "Routes to remote nets: up if they can be used, otherwise down.", "state")
	routeUp       = gaugeFamily("lnet_route_up", "1 if a route to a remote net can be used, otherwise 0.", "net", "gateway")
	routesLeftOut = gaugeFamily("lnet_routes_left_out", "Routes without separate series, because there are too many.")
	routingState  = gaugeFamily("lnet_routing_state", "State of routing: 0 disabled, 1 enabled, 2 stopping, 3 starting.")
	routerBuffers = gaugeFamily("lnet_router_buffers",
		"Buffers of the router: all, available (negative if messages wait), min (lowest available so far).", "pool", "kind")
	routerWaiting = gaugeFamily("lnet_router_waiting_messages", "Messages that wait for a router buffer.", "pool")
)

// routesMax is the maximum number of routes with separate time series.
const routesMax = 1000

// routesShown returns the number of routes, counted from the first, that get separate series. Either all or
// no routes to a net get series, unless a single net has more than routesMax. Otherwise a net would seem
// unreachable if the only route that is up were omitted.
func routesShown(routes []node.RouteInfo) int {
	if len(routes) <= routesMax {
		return len(routes)
	}
	for k := routesMax; k > 0; k-- {
		if routes[k].Net != routes[k-1].Net {
			return k
		}
	}
	return routesMax // the first routesMax routes all lead to the same net
}

// pools are the names of the router's buffer pools.
var pools = [...]string{"tiny", "small", "large"}

func collectRoutes(p *page, routes []node.RouteInfo) {
	up, shown := 0, routesShown(routes)
	for k := range routes {
		r := &routes[k]
		if r.Up {
			up++
		}
		if k < shown {
			p.set(routeUp, bit(r.Up), r.Net.String(), r.Gateway.String())
		}
	}
	p.set(routesByState, float64(up), "up")
	p.set(routesByState, float64(len(routes)-up), "down")
	p.set(routesLeftOut, float64(len(routes)-shown))
}

// collectRouter adds the state of routing to the page and, if the node is or has been a router, its router
// buffers. It adds messages that wait for these buffers to w.
func collectRouter(p *page, r node.RoutingInfo, w *waiting) {
	p.set(routingState, float64(r.State))
	if !r.Ever {
		return
	}
	for k, name := range pools {
		of := &r.Pools[k]
		p.set(routerBuffers, float64(of.Buffers), name, "all")
		p.set(routerBuffers, float64(of.Credits), name, "available")
		p.set(routerBuffers, float64(of.MinCredits), name, "min")
		p.set(routerWaiting, float64(max(0, -of.Credits)), name)
		w.routerBuffers += max(0, -of.Credits)
	}
}
