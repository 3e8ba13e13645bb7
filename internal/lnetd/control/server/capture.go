package server

import (
	"cmp"
	"context"
	"errors"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/capture"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/spelling"
	"github.com/lnetd/lnetd/lnet"
)

func (h *handlers) capture(ctx context.Context, user int, q query) (Stream, *api.Fault) {
	f, err := capture.ParseFilter(capture.Options{
		NIDs: q["nid"], Nets: q["net"], Portals: q["portal"], Types: q["type"],
		Payload: q["payload"], Count: q["count"], Duration: q["duration"],
	})
	if err != nil {
		return nil, api.Fault{
			Code: api.CodeParameterInvalid, Errno: -int(syscall.EINVAL), Text: "the filter is invalid: " + err.Error(),
			Remedy: cmp.Or(spelling.MeantNetType(err), meantMessageType(err), "see lnetdctl help capture"),
		}.Because(err)
	}
	if f.Payload > 0 && !isAdministrator(user) {
		return nil, &api.Fault{
			Code: api.CodeForbidden, Errno: -int(syscall.EPERM), Text: "only root and the user of lnetd may capture payload",
			Remedy: "capture headers only, or run the request as one of them",
		}
	}
	if !h.captures.acquire(user) {
		return nil, &api.Fault{
			Code: api.CodeBusy, Errno: -int(syscall.EBUSY), Text: "too many captures are running",
			Remedy: "end another capture first; a user may run 2, except for root and the user of lnetd, and all together 8",
		}
	}
	context.AfterFunc(ctx, func() { h.captures.release(user) })
	s, err := h.Backend.Capture(ctx, f)
	if err != nil {
		return nil, describedError("cannot capture messages", api.CodeInternal, err)
	}
	return s, nil
}

// meantMessageType returns a question that suggests the message type that was probably meant, if err is that of
// lnet.ParseMsgType. Otherwise it returns "".
func meantMessageType(err error) string {
	option, field := (*capture.OptionError)(nil), (*lnet.FieldError)(nil)
	if !errors.As(err, &option) || option.Option != "type" || !errors.As(err, &field) {
		return ""
	}
	text, _ := field.Value.(string)
	return spelling.DidYouMean(spelling.Nearest(text, []string{"put", "get", "ack", "reply"}))
}
