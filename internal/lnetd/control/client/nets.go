package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Nets returns the nets, or only the named one if name is not empty.
func (c *Client) Nets(ctx context.Context, name string) ([]api.Net, error) {
	n, err := c.NetsAndWaiting(ctx, name)
	return n.Nets, err
}

// NetsAndWaiting is like Nets, and also returns the NIs that wait for their interface.
func (c *Client) NetsAndWaiting(ctx context.Context, name string) (api.Nets, error) {
	var n api.Nets
	err := c.get(ctx, "/v1/nets", parameters{"net": name}, &n)
	return n, err
}

// AddNet brings NIs up. It returns warnings for the operator.
func (c *Client) AddNet(ctx context.Context, r api.NetAddition) ([]string, error) {
	var done api.NetAdded
	err := c.exchange(ctx, "/v1/nets", r, &done)
	return done.Warnings, err
}

// DeleteNet deletes a net or NIs.
func (c *Client) DeleteNet(ctx context.Context, r api.NetDeletion) error {
	return c.remove(ctx, "/v1/nets", r)
}

// SetNITunables changes tunables of NIs that are up.
func (c *Client) SetNITunables(ctx context.Context, r api.NITunables) error {
	return c.post(ctx, "/v1/nets/tunables", r)
}
