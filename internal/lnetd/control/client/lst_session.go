package client

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/selftest/report"
)

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

// LstHoldSession ties the session to this process. lnetd ends the session when the process exits or
// calls release. LstHoldSession does not block.
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

// LstPing asks nodes which session they take part in.
func (c *Client) LstPing(ctx context.Context, r api.LstPing) (report.Result, error) {
	return call(ctx, c, endpoint.LstPing, r)
}
