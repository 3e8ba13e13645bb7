package server

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

func (h *handlers) version(context.Context, query) (api.Version, *api.Fault) {
	return h.Backend.Version(), nil
}
