package server

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

func (h *handlers) clients(context.Context, query) (api.Clients, *api.Fault) {
	all := h.Backend.Clients()
	all.Clients = listed(all.Clients)
	return all, nil
}

func (h *handlers) dropClient(_ context.Context, r *api.ClientDrop) *api.Fault {
	err := h.Backend.DropClient(r.ID)
	if errors.Is(err, syscall.ENOENT) {
		return api.Fault{
			Code: api.CodeClientUnknown, Errno: -int(syscall.ENOENT),
			Text: fmt.Sprintf("client %d does not exist", r.ID), Remedy: "to list the clients, use: lnetdctl clients",
		}.Because(err)
	}
	if err != nil {
		return describedError("the client cannot be disconnected", api.CodeInternal, err)
	}
	return nil
}
