package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Globals returns the node's parameters.
func (c *Client) Globals(ctx context.Context) (api.Globals, error) {
	return call(ctx, c, endpoint.Globals, nil)
}

// SetGlobals changes parameters.
func (c *Client) SetGlobals(ctx context.Context, r api.GlobalsChange) error {
	return change(ctx, c, endpoint.SetGlobals, r)
}
