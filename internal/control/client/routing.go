package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Routing asks whether the daemon forwards, and with what.
func (c *Client) Routing(ctx context.Context) (api.Routing, error) {
	var r api.Routing
	err := c.get(ctx, "/v1/routing", nil, &r)
	return r, err
}

// SetRouting has the daemon forward or not, or changes its buffers.
func (c *Client) SetRouting(ctx context.Context, r api.RoutingChange) error {
	return c.post(ctx, "/v1/routing", r)
}
