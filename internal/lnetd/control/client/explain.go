package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Explain returns the path that a message to a NID would take, and why. The source and the portal
// may be empty.
func (c *Client) Explain(ctx context.Context, nid, source, portal string) (api.Explanation, error) {
	return call(ctx, c, endpoint.Explain, endpoint.Query{"nid": nid, "source": source, "portal": portal})
}
