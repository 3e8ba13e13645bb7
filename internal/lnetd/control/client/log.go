package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Log returns the settings of lnetd's log.
func (c *Client) Log(ctx context.Context) (api.Log, error) {
	return call(ctx, c, endpoint.Log, nil)
}

// SetLog changes the log level.
func (c *Client) SetLog(ctx context.Context, r api.LogChange) error {
	return change(ctx, c, endpoint.SetLog, r)
}
