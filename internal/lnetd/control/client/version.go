package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Version returns the version of the daemon.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	var v api.Version
	err := c.get(ctx, "/v1/version", nil, &v)
	return v, err
}
