package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstStat asks nodes for their counters.
func (c *Client) LstStat(ctx context.Context, r api.LstStat) (report.Sample, error) {
	return lstCall[report.Sample](ctx, c, "stat", r)
}
