package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Version returns the version of the daemon.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	return call(ctx, c, endpoint.Version, nil)
}
