package client

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstStatus returns whether selftest is enabled on the node, and its sessions and tests.
func (c *Client) LstStatus(ctx context.Context) (api.LstStatus, error) {
	return call(ctx, c, endpoint.LstStatus, nil)
}

// LstEnable enables selftest on the node.
func (c *Client) LstEnable(ctx context.Context, b api.LstBounds) error {
	return change(ctx, c, endpoint.LstEnable, b)
}

// LstDisable disables selftest on the node.
func (c *Client) LstDisable(ctx context.Context, r api.LstDisable) error {
	return change(ctx, c, endpoint.LstDisable, r)
}

// LstNewSession creates a session.
func (c *Client) LstNewSession(ctx context.Context, r api.LstNewSession) (api.LstSession, error) {
	return call(ctx, c, endpoint.LstNewSession, r)
}

// LstEndSession ends the session.
func (c *Client) LstEndSession(ctx context.Context, key api.LstKey) error {
	return change(ctx, c, endpoint.LstEndSession, api.Lst{Key: key})
}

// LstShowSession returns the session, whatever its key.
func (c *Client) LstShowSession(ctx context.Context) (api.LstSession, error) {
	return call(ctx, c, endpoint.LstShowSession, api.Done{})
}

// LstHoldSession makes the session end with this process: lnetd ends it when the process exits or calls
// release. LstHoldSession returns after lnetd has accepted this.
func (c *Client) LstHoldSession(ctx context.Context, key api.LstKey) (release func(), _ error) {
	resp, err := send(ctx, c, endpoint.LstHoldSession, api.Lst{Key: key})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.read(resp, nil)
	}
	return func() { _ = resp.Body.Close() }, nil
}

// LstPing asks nodes in which session they take part, and returns their answers.
func (c *Client) LstPing(ctx context.Context, r api.LstPing) (report.Result, error) {
	return call(ctx, c, endpoint.LstPing, r)
}

// LstAddGroup creates a group and invites its nodes to the session.
func (c *Client) LstAddGroup(ctx context.Context, r api.LstAddGroup) (report.GroupAddition, error) {
	return call(ctx, c, endpoint.LstAddGroup, r)
}

// LstDeleteGroup deletes a group.
func (c *Client) LstDeleteGroup(ctx context.Context, r api.LstNamed) (report.Result, error) {
	return call(ctx, c, endpoint.LstDeleteGroup, r)
}

// LstUpdateGroup changes a group.
func (c *Client) LstUpdateGroup(ctx context.Context, r api.LstUpdateGroup) (report.GroupChange, error) {
	return call(ctx, c, endpoint.LstUpdateGroup, r)
}

// LstGroups returns the names of the groups.
func (c *Client) LstGroups(ctx context.Context, key api.LstKey) ([]string, error) {
	r, err := call(ctx, c, endpoint.LstGroups, api.Lst{Key: key})
	return r.Names, err
}

// LstGroup returns the description of a group.
func (c *Client) LstGroup(ctx context.Context, r api.LstNamed) (report.GroupInfo, error) {
	return call(ctx, c, endpoint.LstGroup, r)
}

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

// LstStat returns the counters of nodes.
func (c *Client) LstStat(ctx context.Context, r api.LstStat) (report.Sample, error) {
	return call(ctx, c, endpoint.LstStat, r)
}
