package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// NUMA returns the NUMA layout of the host.
func (c *Client) NUMA(ctx context.Context) (api.NUMA, error) {
	return call(ctx, c, endpoint.NUMA, nil)
}
