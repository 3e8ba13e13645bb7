package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Selection returns the typed rules, filtered by type and ID. An empty string matches all.
func (c *Client) Selection(ctx context.Context, kind, id string) ([]api.SelectionRule, error) {
	var s api.Selection
	err := c.get(ctx, "/v1/selection", parameters{"type": kind, "id": id}, &s)
	return s.Rules, err
}

// AddSelection adds a typed rule.
func (c *Client) AddSelection(ctx context.Context, r api.SelectionRule) error {
	return c.post(ctx, "/v1/selection", r)
}

// DeleteSelection deletes a typed rule.
func (c *Client) DeleteSelection(ctx context.Context, r api.SelectionRule) error {
	return c.remove(ctx, "/v1/selection", r)
}
