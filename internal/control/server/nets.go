package server

import (
	"context"
	"slices"

	"github.com/lnetd/lnetd/internal/control/api"
)

func (h *handlers) nets(_ context.Context, q query) (list[api.Net], *api.Fault) {
	want, fault := q.net()
	if fault != nil {
		return list[api.Net]{}, fault
	}
	nets := h.Backend.Nets()
	if want != 0 && !slices.ContainsFunc(nets, func(n api.Net) bool { return n.Net == want }) {
		return list[api.Net]{}, &api.Fault{
			Code: api.CodeNetAbsent, Errno: -3, Text: "Network is down",
			Cause:  "the node has no NI on " + want.String(),
			Remedy: "see the nets that it has with: lnetdctl net show",
		}
	}
	return listOf("nets", nets, func(_ int, n *api.Net) (api.Net, bool) { return *n, want == 0 || n.Net == want }), nil
}
