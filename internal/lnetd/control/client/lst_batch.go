package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstAddBatch creates a batch.
func (c *Client) LstAddBatch(ctx context.Context, r api.LstNamed) error {
	return change(ctx, c, endpoint.LstAddBatch, r)
}

// LstAddTest adds a test to a batch.
func (c *Client) LstAddTest(ctx context.Context, r api.LstTest) (report.TestAddition, error) {
	return call(ctx, c, endpoint.LstAddTest, r)
}

// LstRun starts a batch.
func (c *Client) LstRun(ctx context.Context, r api.LstRun) (report.Result, error) {
	return call(ctx, c, endpoint.LstRun, r)
}

// LstStop asks the clients of a batch to stop. LstQuery reports which of them still run.
func (c *Client) LstStop(ctx context.Context, r api.LstStop) (report.Result, error) {
	return call(ctx, c, endpoint.LstStop, r)
}

// LstQuery returns the nodes that still run a batch or a test.
func (c *Client) LstQuery(ctx context.Context, r api.LstQuery) (report.QueryResult, error) {
	return call(ctx, c, endpoint.LstQuery, r)
}

// LstBatches returns the names of the batches.
func (c *Client) LstBatches(ctx context.Context, key api.LstKey) ([]string, error) {
	r, err := call(ctx, c, endpoint.LstBatches, api.Lst{Key: key})
	return r.Names, err
}

// LstBatch returns the description of a batch.
func (c *Client) LstBatch(ctx context.Context, r api.LstNamed) (report.BatchInfo, error) {
	return call(ctx, c, endpoint.LstBatch, r)
}
