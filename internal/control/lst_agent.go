package control

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/internal/control/api"
)

// LstStatus asks whether the node takes part in tests, and in which.
func (c *Client) LstStatus(ctx context.Context) (api.LstStatus, error) {
	var s api.LstStatus
	err := c.call(ctx, api.ReplyPatience, http.MethodGet, "/v1/lst", nil, &s)
	return s, err
}

// LstEnable has the node take part in tests.
func (c *Client) LstEnable(ctx context.Context, b api.LstBounds) error {
	_, err := lstCall[api.Done](ctx, c, "enable", b)
	return err
}

// LstDisable ends that.
func (c *Client) LstDisable(ctx context.Context, r api.LstDisable) error {
	_, err := lstCall[api.Done](ctx, c, "disable", r)
	return err
}

func (h *handlers) lstStatus(context.Context, query) (api.LstStatus, *api.Fault) {
	return h.Backend.Selftest().Status(), nil
}

func (h *handlers) lstEnable(ctx context.Context, b *api.LstBounds) (api.Done, *api.Fault) {
	switch {
	case b.Memory != 0 && (b.Memory < api.LstMemoryMin || b.Memory > api.LstMemoryMax):
		return api.Done{}, invalidRequest("memory is not within 2 MiB to 1 TiB", nil)
	case b.SessionTimeout < 0 || b.SessionTimeout > api.LstSessionTimeoutMax:
		return api.Done{}, invalidRequest("session_timeout is not within 1 to 86400 seconds", nil)
	case b.Units < 0 || b.Units > api.LstUnitsMax:
		return api.Done{}, invalidRequest("units is not within 1 to 16777216", nil)
	}
	return api.Done{}, h.inTurn(ctx, func() *api.Fault {
		if err := h.Backend.Selftest().Enable(*b); err != nil {
			return lstFault("enable", err)
		}
		return nil
	})
}

func (h *handlers) lstDisable(ctx context.Context, r *api.LstDisable) (api.Done, *api.Fault) {
	return api.Done{}, h.inTurn(ctx, func() *api.Fault {
		if err := h.Backend.Selftest().Disable(ctx, r.Force); err != nil {
			return lstFault("disable", err)
		}
		return nil
	})
}
