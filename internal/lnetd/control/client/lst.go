package client

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// lstCall sends a command.
func lstCall[Reply any](ctx context.Context, c *Client, command string, request any) (Reply, error) {
	var reply Reply
	err := c.call(ctx, api.LstPatience+api.ReplyPatience, http.MethodPost, "/v1/lst/"+command, request, &reply)
	return reply, err
}
