package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// SetNIHealth sets the health of a local NI, or of all NIs except 0@lo.
func (c *Client) SetNIHealth(ctx context.Context, r api.HealthChange) error {
	return change(ctx, c, endpoint.SetNIHealth, r)
}

// SetPeerHealth sets the health of a peer NI, or of all.
func (c *Client) SetPeerHealth(ctx context.Context, r api.HealthChange) error {
	return change(ctx, c, endpoint.SetPeerHealth, r)
}
