package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Stats returns the node's counters.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	return call(ctx, c, endpoint.Stats, nil)
}

// ResetStats resets the counters of the node, its NIs and its peer NIs.
func (c *Client) ResetStats(ctx context.Context) error {
	return change(ctx, c, endpoint.ResetStats, api.Done{})
}
