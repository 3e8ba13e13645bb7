package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Clients returns the clients for which lnetd hosts transfer machines.
func (c *Client) Clients(ctx context.Context) (api.Clients, error) {
	return call(ctx, c, endpoint.Clients, nil)
}

// DropClient disconnects a client. It does not wait until the client's operations have ended.
func (c *Client) DropClient(ctx context.Context, id uint64) error {
	return change(ctx, c, endpoint.DropClient, api.ClientDrop{ID: id})
}
