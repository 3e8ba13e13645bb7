package client

import (
	"context"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Ping makes lnetd ping nodes. It returns one result for each NID of the request, in order.
func (c *Client) Ping(ctx context.Context, r api.PingRequest) ([]api.PingResult, error) {
	return results(ctx, c, endpoint.Ping, r, api.TargetsPatience(len(r.NIDs), api.PingsAtOnce, r.Patience()), len(r.NIDs))
}

// results sends a request about n targets and returns one result for each.
func results[Request any](
	ctx context.Context, c *Client, e endpoint.Endpoint[Request, api.PingReply], r Request, patience time.Duration, n int,
) ([]api.PingResult, error) {
	p, err := callWithin(ctx, c, patience, e, r)
	if err == nil && len(p.Results) != n {
		err = c.garbled(fmt.Errorf("lnetd returned %d results for %d targets", len(p.Results), n))
	}
	return p.Results, err
}

// Discover makes lnetd discover peers. It returns one result for each NID, in order.
func (c *Client) Discover(ctx context.Context, r api.DiscoverRequest) ([]api.PingResult, error) {
	return results(ctx, c, endpoint.Discover, r, api.TargetsPatience(len(r.NIDs), 1, api.PingTimeout), len(r.NIDs))
}
