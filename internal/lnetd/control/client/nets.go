package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Nets returns the nets, or only the named one if name is not empty.
func (c *Client) Nets(ctx context.Context, name string) ([]api.Net, error) {
	n, err := c.NetsAndWaiting(ctx, name)
	return n.Nets, err
}

// NetsAndWaiting is like Nets, and also returns the NIs that wait for their interface.
func (c *Client) NetsAndWaiting(ctx context.Context, name string) (api.Nets, error) {
	return call(ctx, c, endpoint.Nets, endpoint.Query{"net": name})
}

// AddNet brings NIs up. It returns warnings for the operator.
func (c *Client) AddNet(ctx context.Context, r api.NetAddition) ([]string, error) {
	done, err := call(ctx, c, endpoint.AddNet, r)
	return done.Warnings, err
}

// DeleteNet deletes a net or NIs.
func (c *Client) DeleteNet(ctx context.Context, r api.NetDeletion) error {
	return change(ctx, c, endpoint.DeleteNet, r)
}

// SetNITunables changes tunables of NIs that are up.
func (c *Client) SetNITunables(ctx context.Context, r api.NITunables) error {
	return change(ctx, c, endpoint.SetNITunables, r)
}
