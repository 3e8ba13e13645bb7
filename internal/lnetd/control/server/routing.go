package server

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

func (h *handlers) routing(context.Context, query) (api.Routing, *api.Fault) {
	r := h.Backend.Routing()
	r.CPTs = listed(r.CPTs)
	return r, nil
}

func (h *handlers) setRouting(ctx context.Context, r *api.RoutingChange) *api.Fault {
	b := api.Buffers{Tiny: -1, Small: -1, Large: -1}
	given := false
	for _, n := range []struct{ from, to *int }{{r.Tiny, &b.Tiny}, {r.Small, &b.Small}, {r.Large, &b.Large}} {
		if n.from == nil {
			continue
		}
		given = true
		if *n.from < -1 || *n.from > node.BuffersMax {
			return &api.Fault{
				Code: api.CodeParameterInvalid, Errno: -int(syscall.ERANGE),
				Text: "tiny, small and large must be >= 0", Remedy: fmt.Sprintf("valid values: -1 to %d; -1 keeps the number, 0 means the default", node.BuffersMax),
			}
		}
		*n.to = *n.from
	}
	if given == (r.Enabled != nil) {
		return invalidRequest("either enabled or numbers of buffers are needed", nil)
	}
	if given {
		if err := h.Backend.SetBuffers(ctx, b); err != nil {
			return describedError("cannot configure buffers", api.CodeRoutingRefused, err)
		}
		return nil
	}
	err := h.Backend.SetRouting(ctx, *r.Enabled)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, node.ErrBusy):
		return describedError("cannot configure routing", api.CodeRoutingRefused, err, wording{
			err: node.ErrBusy, code: api.CodeRoutingRefused,
			remedy: "routing is still stopping: wait until lnetdctl routing show prints enable: 0",
		})
	}
	return describedError("cannot configure routing", api.CodeRoutingRefused, err)
}
