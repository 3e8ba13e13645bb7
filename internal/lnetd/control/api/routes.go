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
	// Hops is the configured number of hops, 1 to 255. It is 0 if not configured.
	Hops uint32 `json:"hops"`
	// Priority is the priority of the route. A route with a smaller number is preferred.
	Priority uint32 `json:"priority"`
	// Up reports whether the route can be used, because its gateway is up.
	Up bool `json:"up"`
	// SingleHop reports whether the gateway itself has an NI on the route's net.
	SingleHop bool `json:"single_hop"`
}

// RouteAddition is the body of POST /v1/routes. It adds a route to Net through each of the gateways, all or
// none.
type RouteAddition struct {
	Net      lnet.Net   `json:"net"`
	Gateways []lnet.NID `json:"gateways,omitempty"`
	Hops     uint32     `json:"hops,omitempty"`
	Priority uint32     `json:"priority,omitempty"`
}

// RouteDeletion is the body of DELETE /v1/routes. It deletes the routes to Net through the gateways, all or
// none.
type RouteDeletion struct {
	Net      lnet.Net   `json:"net"`
	Gateways []lnet.NID `json:"gateways,omitempty"`
}

// RouteFilter selects routes to list. An empty Net or Gateway matches all routes.
type RouteFilter struct {
	Net, Gateway string
	// A negative Hops or Priority matches all routes. Hops 0 selects routes for which no number of
	// hops is configured.
	Hops, Priority int64
}

// AllRoutes matches all routes.
var AllRoutes = RouteFilter{Hops: -1, Priority: -1}
