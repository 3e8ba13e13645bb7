package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Discover makes lnetd discover peers. It returns one result for each NID, in order.
func (c *Client) Discover(ctx context.Context, r api.DiscoverRequest) ([]api.PingResult, error) {
	return c.results(ctx, "/v1/discover", r, len(r.NIDs), api.PingTimeout)
}
