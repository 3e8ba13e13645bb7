package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Routing returns the state of forwarding and the router buffers.
func (c *Client) Routing(ctx context.Context) (api.Routing, error) {
	return call(ctx, c, endpoint.Routing, nil)
}

// SetRouting enables or disables forwarding, or changes the router buffers.
func (c *Client) SetRouting(ctx context.Context, r api.RoutingChange) error {
	return change(ctx, c, endpoint.SetRouting, r)
}
