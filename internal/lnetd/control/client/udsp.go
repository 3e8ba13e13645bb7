package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// UDSP returns the user policies, or only the one at index if index is not empty.
func (c *Client) UDSP(ctx context.Context, index string) ([]api.UDSPRule, error) {
	var u api.UDSP
	err := c.get(ctx, "/v1/udsp", parameters{"idx": index}, &u)
	return u.Rules, err
}

// AddUDSP adds a user policy.
func (c *Client) AddUDSP(ctx context.Context, r api.UDSPRule) error {
	return c.post(ctx, "/v1/udsp", r)
}

// DeleteUDSP deletes user policies.
func (c *Client) DeleteUDSP(ctx context.Context, r api.UDSPDeletion) error {
	return c.remove(ctx, "/v1/udsp", r)
}
