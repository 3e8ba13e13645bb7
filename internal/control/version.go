package control

import (
	"context"

	"github.com/lnetd/lnetd/internal/control/api"
)

func (h *handlers) version(context.Context, query) (api.Version, *api.Fault) {
	return h.Backend.Version(), nil
}

// Version asks who the daemon is.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	var v api.Version
	err := c.get(ctx, "/v1/version", nil, &v)
	return v, err
}
