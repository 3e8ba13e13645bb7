package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Selection returns the typed rules, filtered by type and ID. An empty string matches all.
func (c *Client) Selection(ctx context.Context, kind, id string) ([]api.SelectionRule, error) {
	s, err := call(ctx, c, endpoint.Selection, endpoint.Query{"type": kind, "id": id})
	return s.Rules, err
}

// AddSelection adds a typed rule.
func (c *Client) AddSelection(ctx context.Context, r api.SelectionRule) error {
	return change(ctx, c, endpoint.AddSelection, r)
}

// DeleteSelection deletes a typed rule.
func (c *Client) DeleteSelection(ctx context.Context, r api.SelectionRule) error {
	return change(ctx, c, endpoint.DeleteSelection, r)
}
