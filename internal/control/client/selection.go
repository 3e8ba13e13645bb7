package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Selection asks for the typed rules: of a type unless that is empty, and with
// an ID unless that is empty.
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
