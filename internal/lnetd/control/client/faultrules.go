package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Faults returns the fault rules of a kind.
func (c *Client) Faults(ctx context.Context, kind string) ([]api.FaultRule, error) {
	var f api.FaultRules
	err := c.get(ctx, "/v1/faults", parameters{"kind": kind}, &f)
	return f.Rules, err
}

// AddFault adds a fault rule.
func (c *Client) AddFault(ctx context.Context, r api.FaultRule) error {
	return c.post(ctx, "/v1/faults", r)
}

// DeleteFaults deletes fault rules.
func (c *Client) DeleteFaults(ctx context.Context, r api.FaultDeletion) error {
	return c.remove(ctx, "/v1/faults", r)
}

// ResetFaults resets the counters of all fault rules.
func (c *Client) ResetFaults(ctx context.Context) error {
	return c.post(ctx, "/v1/faults/reset", api.Done{})
}
