package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Explain returns the path that a message to a NID would take, and why. The source and the portal
// may be empty.
func (c *Client) Explain(ctx context.Context, nid, source, portal string) (api.Explanation, error) {
	var e api.Explanation
	err := c.get(ctx, "/v1/explain", parameters{"nid": nid, "source": source, "portal": portal}, &e)
	return e, err
}
