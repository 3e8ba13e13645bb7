package server

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

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
	return api.Done{}, h.serialized(ctx, endpoint.LstEnable.Info, func() *api.Fault {
		if err := h.Backend.Selftest().Enable(*b); err != nil {
			return lstFault("enable", err)
		}
		return nil
	})
}

func (h *handlers) lstDisable(ctx context.Context, r *api.LstDisable) (api.Done, *api.Fault) {
	return api.Done{}, h.serialized(ctx, endpoint.LstDisable.Info, func() *api.Fault {
		if err := h.Backend.Selftest().Disable(ctx, r.Force); err != nil {
			return lstFault("disable", err)
		}
		return nil
	})
}
