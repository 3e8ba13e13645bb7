package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Configuration asks for what the node is configured to be.
func (c *Client) Configuration(ctx context.Context) (api.Configuration, error) {
	var all api.Configuration
	err := c.get(ctx, "/v1/configuration", nil, &all)
	return all, err
}

// ChangeConfiguration changes it by a document, or asks what that would do.
func (c *Client) ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	var done api.ConfigurationChanged
	err := c.work(ctx, "/v1/configuration", r, &done)
	return done, err
}

// Described asks for what there is of what a document describes.
func (c *Client) Described(ctx context.Context, d api.Document) (api.Described, error) {
	var found api.Described
	err := c.work(ctx, "/v1/configuration/show", d, &found)
	return found, err
}

// Errands asks for the pings and discoveries in a document.
func (c *Client) Errands(ctx context.Context, d api.Document) ([]api.Errand, error) {
	var found api.Errands
	err := c.work(ctx, "/v1/configuration/errands", d, &found)
	return found.Errands, err
}

// SetLNet configures LNet or ends that.
func (c *Client) SetLNet(ctx context.Context, r api.LNet) error {
	return c.post(ctx, "/v1/lnet", r)
}
