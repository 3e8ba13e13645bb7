package control

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
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
	Gateways []lnet.NID `json:"gateways"`
	Hops     uint32     `json:"hops,omitempty"`
	Priority uint32     `json:"priority,omitempty"`
}

// RouteDeletion is the body of DELETE /v1/routes, like a RouteAddition.
type RouteDeletion struct {
	Net      lnet.Net   `json:"net"`
	Gateways []lnet.NID `json:"gateways"`
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

// Routes asks for the routes that pass a filter.
func (c *Client) Routes(ctx context.Context, f RouteFilter) ([]Route, error) {
	q := parameters{"net": f.Net, "gateway": f.Gateway}
	if f.Hops >= 0 {
		q["hops"] = strconv.FormatInt(f.Hops, 10)
	}
	if f.Priority >= 0 {
		q["priority"] = strconv.FormatInt(f.Priority, 10)
	}
	var r Routes
	err := c.get(ctx, "/v1/routes", q, &r)
	return r.Routes, err
}

// AddRoutes adds routes to a net.
func (c *Client) AddRoutes(ctx context.Context, r RouteAddition) error {
	return c.post(ctx, "/v1/routes", r)
}

// DeleteRoutes deletes routes to a net.
func (c *Client) DeleteRoutes(ctx context.Context, r RouteDeletion) error {
	return c.remove(ctx, "/v1/routes", r)
}

func (h *handlers) routes(_ context.Context, q query) (list[Route], *Fault) {
	net, fault := q.net()
	if fault != nil {
		return list[Route]{}, fault
	}
	gateway, fault := q.nid("gateway")
	if fault != nil {
		return list[Route]{}, fault
	}
	hops, byHops, fault := q.number("hops")
	if fault != nil {
		return list[Route]{}, fault
	}
	priority, byPriority, fault := q.number("priority")
	if fault != nil {
		return list[Route]{}, fault
	}
	return listOf("routes", h.Backend.Routes(), func(_ int, r *Route) (Route, bool) {
		return *r, (net == 0 || r.Net == net) && (gateway.IsZero() || r.Gateway == gateway) &&
			(!byHops || r.Hops == hops) && (!byPriority || r.Priority == priority)
	}), nil
}

func (h *handlers) addRoutes(ctx context.Context, r *RouteAddition) *Fault {
	gateways, fault := checkRoutes(r.Net, r.Gateways)
	switch {
	case fault != nil:
		return fault
	case r.Hops > lnet.HopsMax:
		return invalidRequest("invalid hop count must be between 1 and 255", fmt.Errorf("hops %d", r.Hops))
	case r.Priority > math.MaxInt32:
		return invalidRequest("invalid priority", fmt.Errorf("priority %d", r.Priority))
	}
	for k, gateway := range gateways {
		err := h.Backend.AddRoute(ctx, Route{Net: r.Net, Gateway: gateway, Hops: r.Hops, Priority: r.Priority})
		if err == nil {
			continue
		}
		for _, added := range gateways[:k] {
			h.undo("add routes", h.Backend.DeleteRoute(context.WithoutCancel(ctx), r.Net, added))
		}
		return worded("cannot add route", CodeRouteRefused, fmt.Errorf("gateway %s: %w", gateway, err), routeWords...)
	}
	return nil
}

var routeWords = []wording{
	{
		err: node.ErrExists, code: CodeRouteRefused, text: "Route already exists or the specified network is local",
		remedy: "see the routes with: lnetdctl route show, and the local nets with: lnetdctl net show",
	}, {
		err: node.ErrUnreachable, code: CodeRouteRefused, text: "No interface configured on the same net as gateway",
		remedy: "name a NID of the gateway that is on a net of this node; see those with: lnetdctl net show",
	}, {
		err: node.ErrInvalid, code: CodeRouteRefused, text: "invalid settings for route creation",
		remedy: "the gateway must be another node, and not on the net that the route leads to",
	},
}

func (h *handlers) deleteRoutes(ctx context.Context, r *RouteDeletion) *Fault {
	gateways, fault := checkRoutes(r.Net, r.Gateways)
	if fault != nil {
		return fault
	}
	gone := make([]Route, 0, len(gateways))
	all := h.Backend.Routes()
	for _, gateway := range gateways {
		k := slices.IndexFunc(all, func(o Route) bool { return o.Net == r.Net && o.Gateway == gateway })
		if k < 0 {
			return deletedRoute(fmt.Errorf("no route to %s by %s: %w", r.Net, gateway, node.ErrNotFound))
		}
		gone = append(gone, all[k])
	}
	for k, route := range gone {
		err := h.Backend.DeleteRoute(ctx, route.Net, route.Gateway)
		if err == nil {
			continue
		}
		for _, deleted := range gone[:k] {
			h.undo("delete routes", h.Backend.AddRoute(context.WithoutCancel(ctx), deleted))
		}
		return deletedRoute(err)
	}
	return nil
}

func deletedRoute(err error) *Fault {
	return worded("failed to delete route", CodeRouteRefused, err, wording{
		err: node.ErrNotFound, code: CodeRouteUnknown, text: "failed to delete route",
		remedy: "see the routes with: lnetdctl route show",
	})
}

// undo reports that part of a refused change could not be taken back.
func (h *handlers) undo(what string, err error) {
	if err != nil {
		h.logger().Error("take back what a refused change had done", "change", what, "err", err)
	}
}

// checkRoutes returns the gateways, each once.
func checkRoutes(net lnet.Net, gateways []lnet.NID) ([]lnet.NID, *Fault) {
	switch {
	case net == 0 || len(gateways) == 0:
		return nil, invalidRequest("a route needs a net and a gateway", nil)
	case len(gateways) > RouteGatewaysMax:
		return nil, &Fault{
			Code: CodeRequestInvalid, Errno: -int(syscall.E2BIG), Text: "specifies more NIDs than allowed",
			Remedy: "name at most " + strconv.Itoa(RouteGatewaysMax) + " gateways at once",
		}
	}
	var once []lnet.NID
	for _, gateway := range gateways {
		if gateway.IsZero() {
			return nil, invalidRequest("a gateway is empty", nil)
		}
		if !slices.Contains(once, gateway) {
			once = append(once, gateway)
		}
	}
	return once, nil
}
