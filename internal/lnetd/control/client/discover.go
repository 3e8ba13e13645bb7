package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Discover makes lnetd discover peers. It returns one result for each NID, in order.
func (c *Client) Discover(ctx context.Context, r api.DiscoverRequest) ([]api.PingResult, error) {
	return results(ctx, c, endpoint.Discover, r, len(r.NIDs), api.PingTimeout)
}
