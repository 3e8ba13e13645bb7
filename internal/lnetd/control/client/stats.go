package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Stats returns the node's counters.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	var s api.Stats
	err := c.get(ctx, "/v1/stats", nil, &s)
	return s, err
}

// ResetStats resets the counters of the node, its NIs and its peer NIs.
func (c *Client) ResetStats(ctx context.Context) error {
	return c.post(ctx, "/v1/stats/reset", api.Done{})
}
