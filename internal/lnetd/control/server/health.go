package server

import (
	"context"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func (h *handlers) setNIHealth(_ context.Context, r *api.HealthChange) *api.Fault {
	return setHealth(r, h.Backend.SetNIHealth, wording{
		err: node.ErrNotFound, code: api.CodeNIUnknown, text: "cannot find NI",
		remedy: "to list the NIs, use: lnetdctl net show",
	})
}

func (h *handlers) setPeerHealth(_ context.Context, r *api.HealthChange) *api.Fault {
	return setHealth(r, h.Backend.SetPeerHealth, wording{
		err: node.ErrNotFound, code: api.CodePeerUnknown, text: "cannot find peer",
		remedy: "to list the peers, use: lnetdctl peer show",
	})
}

func setHealth(r *api.HealthChange, set func(nid lnet.NID, value int) error, unknown wording) *api.Fault {
	if r.All != r.NID.IsZero() {
		return &api.Fault{
			Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: "either a NID or all is needed",
		}
	}
	if r.Value == nil {
		return invalidRequest("a health value is needed", nil)
	}
	if err := set(r.NID, min(max(*r.Value, 0), node.MaxHealth)); err != nil {
		return describedError("cannot set health", api.CodeRequestInvalid, err, unknown)
	}
	return nil
}
