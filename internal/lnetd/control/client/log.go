package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Log returns the settings of lnetd's log.
func (c *Client) Log(ctx context.Context) (api.Log, error) {
	var l api.Log
	err := c.get(ctx, "/v1/log", nil, &l)
	return l, err
}

// SetLog changes the log level.
func (c *Client) SetLog(ctx context.Context, r api.LogChange) error { return c.post(ctx, "/v1/log", r) }
