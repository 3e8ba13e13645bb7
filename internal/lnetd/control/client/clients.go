package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Clients returns the clients for which lnetd hosts transfer machines.
func (c *Client) Clients(ctx context.Context) (api.Clients, error) {
	var all api.Clients
	err := c.get(ctx, "/v1/clients", nil, &all)
	return all, err
}

// DropClient disconnects a client. It does not wait until the client's operations have ended.
func (c *Client) DropClient(ctx context.Context, id uint64) error {
	return c.remove(ctx, "/v1/clients", api.ClientDrop{ID: id})
}
