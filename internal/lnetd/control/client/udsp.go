package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// UDSP returns the user policies, or only the one at index if index is not empty.
func (c *Client) UDSP(ctx context.Context, index string) ([]api.UDSPRule, error) {
	u, err := call(ctx, c, endpoint.UDSP, endpoint.Query{"idx": index})
	return u.Rules, err
}

// AddUDSP adds a user policy.
func (c *Client) AddUDSP(ctx context.Context, r api.UDSPRule) error {
	return change(ctx, c, endpoint.AddUDSP, r)
}

// DeleteUDSP deletes user policies.
func (c *Client) DeleteUDSP(ctx context.Context, r api.UDSPDeletion) error {
	return change(ctx, c, endpoint.DeleteUDSP, r)
}
