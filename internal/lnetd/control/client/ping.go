package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Ping makes lnetd ping nodes. It returns one result for each, in order.
func (c *Client) Ping(ctx context.Context, r api.PingRequest) ([]api.PingResult, error) {
	return c.results(ctx, "/v1/ping", r, len(r.NIDs), r.Patience())
}

// results sends a request about n targets, each of which may take up to each.
func (c *Client) results(ctx context.Context, path string, request any, n int, each time.Duration) ([]api.PingResult, error) {
	var p api.PingReply
	err := c.call(ctx, api.TargetsPatience(n, each), http.MethodPost, path, request, &p)
	if err == nil && len(p.Results) != n {
		err = c.garbled(fmt.Errorf("%d results for %d targets", len(p.Results), n))
	}
	return p.Results, err
}
