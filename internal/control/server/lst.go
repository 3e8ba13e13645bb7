package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/selftest/console"
)

// Selftest is LNet selftest in the daemon. Its methods may be called from many
// goroutines at once.
type Selftest interface {
	// Status says whether the node takes part, with what, and in what.
	Status() api.LstStatus
	// Enable has it take part; what of b is 0 is as configured. EALREADY: it
	// does.
	Enable(b api.LstBounds) error
	// Disable ends that; ctx bounds the wait. EBUSY: it takes part in a session,
	// or has one as a console, and force is not set. ENODEV: not enabled.
	Disable(ctx context.Context, force bool) error
	// Console is the node's; ENODEV: not enabled.
	Console() (*console.Console, error)
}

// lst are the handlers of lst's commands. They wait for other nodes, each as long
// as it takes, and one does not keep the other waiting but where the console does.
func (h *handlers) lst() map[string]handler {
	return map[string]handler{
		"POST /v1/lst/enable":       act(h, h.lstEnable),
		"POST /v1/lst/disable":      act(h, h.lstDisable),
		"POST /v1/lst/new_session":  act(h, h.lstNewSession),
		"POST /v1/lst/end_session":  act(h, h.lstEndSession),
		"POST /v1/lst/show_session": act(h, h.lstShowSession),
		"POST /v1/lst/ping":         act(h, h.lstPing),
		"POST /v1/lst/add_group":    act(h, h.lstAddGroup),
		"POST /v1/lst/del_group":    act(h, h.lstDeleteGroup),
		"POST /v1/lst/update_group": act(h, h.lstUpdateGroup),
		"POST /v1/lst/list_groups":  act(h, h.lstGroups),
		"POST /v1/lst/list_group":   act(h, h.lstGroup),
		"POST /v1/lst/add_batch":    act(h, h.lstAddBatch),
		"POST /v1/lst/add_test":     act(h, h.lstAddTest),
		"POST /v1/lst/run":          act(h, h.lstRun),
		"POST /v1/lst/stop":         act(h, h.lstStop),
		"POST /v1/lst/query":        act(h, h.lstQuery),
		"POST /v1/lst/list_batches": act(h, h.lstBatches),
		"POST /v1/lst/list_batch":   act(h, h.lstBatch),
		"POST /v1/lst/stat":         act(h, h.lstStat),
	}
}

// holds is the request that stays until its client or the session has gone.
func (h *handlers) holds() map[string]handler {
	return map[string]handler{"POST /v1/lst/hold_session": h.lstHoldSession}
}

// act makes a handler of a command that may wait for other nodes and has a reply.
// It ends when the client goes away.
func act[Request, Reply any](
	h *handlers, do func(ctx context.Context, r *Request) (Reply, *api.Fault),
) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		var request Request
		var reply Reply
		fault := decode(r.Body, &request) // within the usual bounds: there may be none
		if fault == nil {
			h.allow(w, time.Now().Add(api.LstPatience+api.ReplyPatience))
			ctx, cancel := context.WithTimeout(r.Context(), api.LstPatience)
			defer cancel()
			reply, fault = do(ctx, &request)
		}
		return answered(reply, fault)
	}
}

// allow lets a request take until a time, or without end; the default bounds are
// for short ones.
func (h *handlers) allow(w http.ResponseWriter, until time.Time) {
	rc := http.NewResponseController(w)
	if err := errors.Join(rc.SetReadDeadline(until), rc.SetWriteDeadline(until)); err != nil {
		h.logger().Debug("extend deadlines", "err", err)
	}
}

// console is the node's.
func (h *handlers) console() (*console.Console, *api.Fault) {
	c, err := h.Backend.Selftest().Console()
	if err != nil {
		return nil, lstFault("console", err)
	}
	return c, nil
}

// onConsole does a command on the console.
func onConsole[Reply any](
	h *handlers, command string, do func(c *console.Console) (Reply, error),
) (reply Reply, _ *api.Fault) {
	c, fault := h.console()
	if fault != nil {
		return reply, fault
	}
	reply, err := do(c)
	if err != nil {
		return reply, lstFault(command, err)
	}
	return reply, nil
}

// lstFault is an error of a command as a Fault.
func lstFault(command string, err error) *api.Fault {
	if f := (*api.Fault)(nil); errors.As(err, &f) {
		return f
	}
	errno := Errno(err)
	f := api.Fault{Errno: -int(errno), Code: api.CodeLstRefused, Text: fmt.Sprintf("%s: %s", command, api.Strerror(errno))}
	if w, ok := lstWords[errno]; ok {
		f.Code, f.Remedy = w.code, w.remedy
	}
	if f.Code == api.CodeLstDisabled {
		f.Text = "LNet selftest is not enabled on this node"
	}
	e := (*console.Error)(nil)
	if !errors.As(err, &e) {
		return f.Because(err)
	}
	f.Subject = e.Name
	if e.Name != "" {
		f.Text = fmt.Sprintf("%s: %s %s: %s", command, e.What, e.Name, api.Strerror(errno))
	}
	out := f.Because(err)
	out.Cause = e.Reason // where there is none the text says it all
	return out
}

// lstWords are the kinds of errors by their numbers.
var lstWords = map[syscall.Errno]struct {
	code   api.Code
	remedy string
}{
	syscall.ENODEV: {api.CodeLstDisabled, "enable it with: lnetdctl lst enable"},
	syscall.ESRCH:  {api.CodeLstNoSession, "make a session with: lst new_session"},
	syscall.EACCES: {api.CodeLstKey, "export LST_SESSION as it was when the session was made; lst show_session tells its KEY"},
	syscall.ENOENT: {api.CodeLstUnknown, "see what there is with: lst list_group, lst list_batch"},
	syscall.EEXIST: {api.CodeLstExists, ""},
	syscall.EINVAL: {api.CodeLstInvalid, ""},
	syscall.EBUSY:  {api.CodeLstBusy, ""},
	syscall.ENETDOWN: {
		api.CodeLstNotActive, "all nodes concerned have to be active: see lst list_group --all, and lst update_group --refresh",
	},
}
