package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Globals returns the node's parameters.
func (c *Client) Globals(ctx context.Context) (api.Globals, error) {
	var g api.Globals
	err := c.get(ctx, "/v1/globals", nil, &g)
	return g, err
}

// SetGlobals changes parameters.
func (c *Client) SetGlobals(ctx context.Context, r api.GlobalsChange) error {
	return c.post(ctx, "/v1/globals", r)
}
