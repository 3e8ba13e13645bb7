package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// NUMA returns the NUMA layout of the host.
func (c *Client) NUMA(ctx context.Context) (n api.NUMA, err error) {
	err = c.get(ctx, "/v1/numa", nil, &n)
	return n, err
}
