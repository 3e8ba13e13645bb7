package client

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/control/api"
)

// LstStatus asks whether the node takes part in tests, and in which.
func (c *Client) LstStatus(ctx context.Context) (api.LstStatus, error) {
	var s api.LstStatus
	err := c.call(ctx, api.ReplyPatience, http.MethodGet, "/v1/lst", nil, &s)
	return s, err
}

// LstEnable has the node take part in tests.
func (c *Client) LstEnable(ctx context.Context, b api.LstBounds) error {
	_, err := lstCall[api.Done](ctx, c, "enable", b)
	return err
}

// LstDisable ends that.
func (c *Client) LstDisable(ctx context.Context, r api.LstDisable) error {
	_, err := lstCall[api.Done](ctx, c, "disable", r)
	return err
}
