package client

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstNewSession makes a session.
func (c *Client) LstNewSession(ctx context.Context, r api.LstNewSession) (api.LstSession, error) {
	return lstCall[api.LstSession](ctx, c, "new_session", r)
}

// LstEndSession ends the session.
func (c *Client) LstEndSession(ctx context.Context, key api.LstKey) error {
	_, err := lstCall[api.Done](ctx, c, "end_session", api.Lst{Key: key})
	return err
}

// LstShowSession describes the session, whatever its key.
func (c *Client) LstShowSession(ctx context.Context) (api.LstSession, error) {
	return lstCall[api.LstSession](ctx, c, "show_session", api.Done{})
}

// LstHoldSession ties the session to this process: when it is gone, or has called
// release, lnetd ends the session if there still is one. It returns at once.
func (c *Client) LstHoldSession(ctx context.Context, key api.LstKey) (release func(), _ error) {
	resp, err := c.send(ctx, http.MethodPost, "/v1/lst/hold_session", api.Lst{Key: key})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.read(resp, nil)
	}
	return func() { _ = resp.Body.Close() }, nil
}

// LstPing asks nodes for their sessions.
func (c *Client) LstPing(ctx context.Context, r api.LstPing) (report.Result, error) {
	return lstCall[report.Result](ctx, c, "ping", r)
}
