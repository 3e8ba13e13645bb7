package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lnetd/lnetd/node"
)

var (
	routesDesc       = desc("routes", "Routes to remote nets, by whether they may be used.", "state")
	routingStateDesc = desc("routing_state", "The node as a router: 0 disabled, 1 enabled, 2 stopping, 3 starting.")
	buffersDesc      = desc("router_buffers",
		"Buffers of a router: all, available (below 0: messages wait), min (the lowest available ever).", "pool", "kind")
)

// pools are the names of a router's pools.
var pools = [...]string{"tiny", "small", "large"}

func collectRoutes(ch chan<- prometheus.Metric, routes []node.RouteInfo) {
	up := 0
	for k := range routes {
		if routes[k].Up {
			up++
		}
	}
	gauge(ch, routesDesc, up, "up")
	gauge(ch, routesDesc, len(routes)-up, "down")
}

// collectRouter shows the pools of a node that is or was a router.
func collectRouter(ch chan<- prometheus.Metric, r node.RoutingInfo) {
	gauge(ch, routingStateDesc, int(r.State))
	if !r.Ever {
		return
	}
	for k, name := range pools {
		gauge(ch, buffersDesc, r.Pools[k].Buffers, name, "all")
		gauge(ch, buffersDesc, r.Pools[k].Credits, name, "available")
		gauge(ch, buffersDesc, r.Pools[k].MinCredits, name, "min")
	}
}
