package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Routing returns the state of forwarding and the router buffers.
func (c *Client) Routing(ctx context.Context) (api.Routing, error) {
	var r api.Routing
	err := c.get(ctx, "/v1/routing", nil, &r)
	return r, err
}

// SetRouting enables or disables forwarding, or changes the router buffers.
func (c *Client) SetRouting(ctx context.Context, r api.RoutingChange) error {
	return c.post(ctx, "/v1/routing", r)
}
