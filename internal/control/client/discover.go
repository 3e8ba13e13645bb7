package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Discover has the daemon discover peers and returns one result for each, in
// order.
func (c *Client) Discover(ctx context.Context, r api.DiscoverRequest) ([]api.PingResult, error) {
	return c.results(ctx, "/v1/discover", r, len(r.NIDs), api.PingTimeout)
}
