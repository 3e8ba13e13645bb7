package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// LstStatus returns whether the node takes part in tests, and the tests.
func (c *Client) LstStatus(ctx context.Context) (api.LstStatus, error) {
	return call(ctx, c, endpoint.LstStatus, nil)
}

// LstEnable enables selftest on the node.
func (c *Client) LstEnable(ctx context.Context, b api.LstBounds) error {
	return change(ctx, c, endpoint.LstEnable, b)
}

// LstDisable disables selftest on the node.
func (c *Client) LstDisable(ctx context.Context, r api.LstDisable) error {
	return change(ctx, c, endpoint.LstDisable, r)
}
