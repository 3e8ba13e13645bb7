package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// RouteGatewaysMax bounds the gateways that one request names.
const RouteGatewaysMax = 256

// Routes is the reply to GET /v1/routes.
type Routes struct {
	Routes []Route `json:"routes"`
}

// Route is a way to a net that the node is not on.
type Route struct {
	Net     lnet.Net `json:"net"`
	Gateway lnet.NID `json:"gateway"`
	// Hops is 1 to 255, 0 if nobody said.
	Hops uint32 `json:"hops"`
	// Priority is 0 for the best.
	Priority uint32 `json:"priority"`
	// Up tells whether the route is used.
	Up bool `json:"up"`
	// SingleHop tells whether the gateway itself is on the net.
	SingleHop bool `json:"single_hop"`
}

// RouteAddition is the body of POST /v1/routes: a route by each of the
// gateways, all of them or none.
type RouteAddition struct {
	Net      lnet.Net   `json:"net"`
	Gateways []lnet.NID `json:"gateways,omitempty"`
	Hops     uint32     `json:"hops,omitempty"`
	Priority uint32     `json:"priority,omitempty"`
}

// RouteDeletion is the body of DELETE /v1/routes, like a RouteAddition.
type RouteDeletion struct {
	Net      lnet.Net   `json:"net"`
	Gateways []lnet.NID `json:"gateways,omitempty"`
}

// RouteFilter says which routes are asked for. Fields without a value do not
// restrict.
type RouteFilter struct {
	Net, Gateway string
	// Hops and Priority restrict if they are not negative; no hops is 0.
	Hops, Priority int64
}

// AllRoutes is the filter that lets all routes pass.
var AllRoutes = RouteFilter{Hops: -1, Priority: -1}
