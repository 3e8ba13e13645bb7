package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Configuration returns the node's configuration.
func (c *Client) Configuration(ctx context.Context) (api.Configuration, error) {
	return call(ctx, c, endpoint.Configuration, nil)
}

// ChangeConfiguration changes the configuration according to a document, or returns the changes in
// a dry run.
func (c *Client) ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	return call(ctx, c, endpoint.ChangeConfiguration, r)
}

// Described returns the current state of the entries in a document.
func (c *Client) Described(ctx context.Context, d api.Document) (api.Described, error) {
	return call(ctx, c, endpoint.Described, d)
}

// Errands returns the pings and discoveries in a document.
func (c *Client) Errands(ctx context.Context, d api.Document) ([]api.Errand, error) {
	found, err := call(ctx, c, endpoint.Errands, d)
	return found.Errands, err
}

// SetLNet configures or unconfigures LNet.
func (c *Client) SetLNet(ctx context.Context, r api.LNet) error {
	return change(ctx, c, endpoint.SetLNet, r)
}
