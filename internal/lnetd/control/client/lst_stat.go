package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstStat returns the counters of nodes.
func (c *Client) LstStat(ctx context.Context, r api.LstStat) (report.Sample, error) {
	return call(ctx, c, endpoint.LstStat, r)
}
