package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// RouteGatewaysMax is the maximum number of gateways in one request.
const RouteGatewaysMax = 256

// Routes is the reply to GET /v1/routes.
type Routes struct {
	Routes []Route `json:"routes"`
}

// Route is a route to a remote net.
type Route struct {
	Net     lnet.Net `json:"net"`
	Gateway lnet.NID `json:"gateway"`
	// Hops is 1 to 255, or 0 if it was not set.
	Hops uint32 `json:"hops"`
	// Priority is 0 for the most preferred.
	Priority uint32 `json:"priority"`
	// Up reports whether the route is used.
	Up bool `json:"up"`
	// SingleHop reports whether the gateway itself is on the net.
	SingleHop bool `json:"single_hop"`
}

// RouteAddition is the body of POST /v1/routes. It adds a route through each of the gateways, all
// or none.
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

// RouteFilter selects routes. Fields without a value match all routes.
type RouteFilter struct {
	Net, Gateway string
	// Hops and Priority are compared unless negative. Hops of 0 selects routes without hops.
	Hops, Priority int64
}

// AllRoutes matches all routes.
var AllRoutes = RouteFilter{Hops: -1, Priority: -1}
