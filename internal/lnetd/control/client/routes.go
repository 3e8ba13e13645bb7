package client

import (
	"context"
	"strconv"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Routes returns the routes that match a filter.
func (c *Client) Routes(ctx context.Context, f api.RouteFilter) ([]api.Route, error) {
	q := endpoint.Query{"net": f.Net, "gateway": f.Gateway}
	if f.Hops >= 0 {
		q["hops"] = strconv.FormatInt(f.Hops, 10)
	}
	if f.Priority >= 0 {
		q["priority"] = strconv.FormatInt(f.Priority, 10)
	}
	r, err := call(ctx, c, endpoint.Routes, q)
	return r.Routes, err
}

// AddRoutes adds routes to a net.
func (c *Client) AddRoutes(ctx context.Context, r api.RouteAddition) error {
	return change(ctx, c, endpoint.AddRoutes, r)
}

// DeleteRoutes deletes routes to a net.
func (c *Client) DeleteRoutes(ctx context.Context, r api.RouteDeletion) error {
	return change(ctx, c, endpoint.DeleteRoutes, r)
}
