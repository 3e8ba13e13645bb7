package client

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// LstStatus returns whether the node takes part in tests, and the tests.
func (c *Client) LstStatus(ctx context.Context) (api.LstStatus, error) {
	var s api.LstStatus
	err := c.call(ctx, api.ReplyPatience, http.MethodGet, "/v1/lst", nil, &s)
	return s, err
}

// LstEnable enables selftest on the node.
func (c *Client) LstEnable(ctx context.Context, b api.LstBounds) error {
	_, err := lstCall[api.Done](ctx, c, "enable", b)
	return err
}

// LstDisable disables selftest on the node.
func (c *Client) LstDisable(ctx context.Context, r api.LstDisable) error {
	_, err := lstCall[api.Done](ctx, c, "disable", r)
	return err
}
