package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Nets asks for the nets, or, with a name, for one.
func (c *Client) Nets(ctx context.Context, name string) ([]api.Net, error) {
	var n api.Nets
	err := c.get(ctx, "/v1/nets", parameters{"net": name}, &n)
	return n.Nets, err
}
