package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Faults returns the fault rules of a kind.
func (c *Client) Faults(ctx context.Context, kind string) ([]api.FaultRule, error) {
	f, err := call(ctx, c, endpoint.Faults, endpoint.Query{"kind": kind})
	return f.Rules, err
}

// AddFault adds a fault rule.
func (c *Client) AddFault(ctx context.Context, r api.FaultRule) error {
	return change(ctx, c, endpoint.AddFault, r)
}

// DeleteFaults deletes fault rules.
func (c *Client) DeleteFaults(ctx context.Context, r api.FaultDeletion) error {
	return change(ctx, c, endpoint.DeleteFaults, r)
}

// ResetFaults resets the counters of all fault rules.
func (c *Client) ResetFaults(ctx context.Context) error {
	return change(ctx, c, endpoint.ResetFaults, api.Done{})
}
