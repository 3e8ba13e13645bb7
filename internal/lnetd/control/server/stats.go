package server

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

func (h *handlers) stats(context.Context, query) (api.Stats, *api.Fault) {
	return h.Backend.Stats(), nil
}

func (h *handlers) resetStats(context.Context, *api.Done) *api.Fault {
	h.Backend.ResetCounters()
	return nil
}
