package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Version asks who the daemon is.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	var v api.Version
	err := c.get(ctx, "/v1/version", nil, &v)
	return v, err
}
