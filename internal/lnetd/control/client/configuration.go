package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Configuration returns the node's configuration.
func (c *Client) Configuration(ctx context.Context) (api.Configuration, error) {
	var all api.Configuration
	err := c.get(ctx, "/v1/configuration", nil, &all)
	return all, err
}

// ChangeConfiguration changes the configuration according to a document, or returns the changes in
// a dry run.
func (c *Client) ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	var done api.ConfigurationChanged
	err := c.work(ctx, "/v1/configuration", r, &done)
	return done, err
}

// Described returns the current state of the entries in a document.
func (c *Client) Described(ctx context.Context, d api.Document) (api.Described, error) {
	var found api.Described
	err := c.work(ctx, "/v1/configuration/show", d, &found)
	return found, err
}

// Errands returns the pings and discoveries in a document.
func (c *Client) Errands(ctx context.Context, d api.Document) ([]api.Errand, error) {
	var found api.Errands
	err := c.work(ctx, "/v1/configuration/errands", d, &found)
	return found.Errands, err
}

// SetLNet configures or unconfigures LNet.
func (c *Client) SetLNet(ctx context.Context, r api.LNet) error {
	return c.post(ctx, "/v1/lnet", r)
}
