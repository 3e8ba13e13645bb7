package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func (h *handlers) routes(_ context.Context, q query) (list[api.Routes, api.Route], *api.Fault) {
	net, fault := q.net()
	if fault != nil {
		return list[api.Routes, api.Route]{}, fault
	}
	gateway, fault := q.nid("gateway")
	if fault != nil {
		return list[api.Routes, api.Route]{}, fault
	}
	hops, byHops, fault := q.number("hops")
	if fault != nil {
		return list[api.Routes, api.Route]{}, fault
	}
	priority, byPriority, fault := q.number("priority")
	if fault != nil {
		return list[api.Routes, api.Route]{}, fault
	}
	return listOf[api.Routes](h.Backend.Routes(), func(_ int, r *api.Route) (api.Route, bool) {
		return *r, (net == 0 || r.Net == net) && (gateway.IsZero() || r.Gateway == gateway) &&
			(!byHops || r.Hops == hops) && (!byPriority || r.Priority == priority)
	}), nil
}

func (h *handlers) addRoutes(ctx context.Context, r *api.RouteAddition) *api.Fault {
	gateways, fault := checkRoutes(r.Net, r.Gateways)
	switch {
	case fault != nil:
		return fault
	case r.Hops > lnet.HopsMax:
		return invalidRequest("invalid hop count must be between 1 and 255", fmt.Errorf("the requested number of hops is %d", r.Hops))
	case int64(r.Priority) > api.PriorityRange.Max:
		return invalidRequest("invalid priority", fmt.Errorf("the requested priority is %d", r.Priority))
	}
	for k, gateway := range gateways {
		err := h.Backend.AddRoute(ctx, api.Route{Net: r.Net, Gateway: gateway, Hops: r.Hops, Priority: r.Priority})
		if err == nil {
			continue
		}
		for _, added := range gateways[:k] {
			h.undo("add routes", h.Backend.DeleteRoute(context.WithoutCancel(ctx), r.Net, added))
		}
		return describedError("cannot add route", api.CodeRouteRefused, fmt.Errorf("gateway %s: %w", gateway, err), routeWords...)
	}
	return nil
}

var routeWords = []wording{
	{
		err: node.ErrExists, code: api.CodeRouteRefused, text: "Route already exists or the specified network is local",
		remedy: "to list the routes, use: lnetdctl route show; to list the local nets, use: lnetdctl net show",
	}, {
		err: node.ErrUnreachable, code: api.CodeRouteRefused, text: "No interface configured on the same net as gateway",
		remedy: "use a NID of the gateway that is on a net of this node; to list these nets, use: lnetdctl net show",
	}, {
		err: node.ErrInvalid, code: api.CodeRouteRefused, text: "invalid settings for route creation",
		remedy: "the gateway must be another node, and must not be on the destination net of the route",
	},
}

func (h *handlers) deleteRoutes(ctx context.Context, r *api.RouteDeletion) *api.Fault {
	gateways, fault := checkRoutes(r.Net, r.Gateways)
	if fault != nil {
		return fault
	}
	gone := make([]api.Route, 0, len(gateways))
	all := h.Backend.Routes()
	for _, gateway := range gateways {
		k := slices.IndexFunc(all, func(o api.Route) bool { return o.Net == r.Net && o.Gateway == gateway })
		if k < 0 {
			return deletedRoute(fmt.Errorf("no route to %s through %s: %w", r.Net, gateway, node.ErrNotFound))
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

func deletedRoute(err error) *api.Fault {
	return describedError("failed to delete route", api.CodeRouteRefused, err, wording{
		err: node.ErrNotFound, code: api.CodeRouteUnknown, text: "failed to delete route",
		remedy: "to list the routes, use: lnetdctl route show",
	})
}

// undo logs the error err of reverting a part of a failed change. It does nothing if err is nil.
func (h *handlers) undo(what string, err error) {
	if err != nil {
		h.logger().Error("a failed change of routes could not be undone completely; some of its routes remain added or deleted", "change", what, "err", err)
	}
}

// checkRoutes returns the gateways of a request without duplicates, or a fault if the net or a gateway is
// missing or there are too many gateways.
func checkRoutes(net lnet.Net, gateways []lnet.NID) ([]lnet.NID, *api.Fault) {
	switch {
	case net == 0 || len(gateways) == 0:
		return nil, invalidRequest("a route needs a net and a gateway", nil)
	case len(gateways) > api.RouteGatewaysMax:
		return nil, &api.Fault{
			Code: api.CodeRequestInvalid, Errno: -int(syscall.E2BIG), Text: "specifies more NIDs than allowed",
			Remedy: "give at most " + strconv.Itoa(api.RouteGatewaysMax) + " gateways at once",
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
