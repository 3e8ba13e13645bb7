package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

func (h *handlers) log(context.Context, query) (api.Log, *api.Fault) { return h.Backend.Log(), nil }

// setLog changes the log level. It does not wait for other changes, because it is needed most when one of
// them hangs.
func (h *handlers) setLog(_ context.Context, r *api.LogChange) (api.Done, *api.Fault) {
	level := strings.ToLower(r.Level)
	if !slices.Contains(api.LogLevels(), level) {
		return api.Done{}, api.Fault{
			Code: api.CodeParameterInvalid, Errno: -int(syscall.EINVAL),
			Text:   fmt.Sprintf("%q is not a log level", r.Level),
			Remedy: "the levels are " + strings.Join(api.LogLevels(), ", "),
		}.Because(nil)
	}
	if err := h.Backend.SetLog(level); err != nil {
		return api.Done{}, describedError("cannot set the log level", api.CodeParameterInvalid, err)
	}
	return api.Done{}, nil
}
