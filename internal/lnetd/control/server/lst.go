package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/console"
)

// Selftest is LNet selftest in the daemon. Its methods are safe for concurrent use.
type Selftest interface {
	// Status returns whether selftest is enabled, its limits, and its session.
	Status() api.LstStatus
	// Enable enables selftest. Fields of b that are 0 take the configured values. It returns
	// EALREADY if selftest is enabled.
	Enable(b api.LstBounds) error
	// Disable disables selftest; ctx limits the wait. It returns ENODEV if selftest is not enabled.
	// Without force, it returns EBUSY if the node takes part in a session or controls one.
	Disable(ctx context.Context, force bool) error
	// Console returns the node's console, or ENODEV if selftest is not enabled.
	Console() (*console.Console, error)
}

// lst returns the handlers of lst's commands. They wait for other nodes as long as needed. They run
// concurrently, except where the console serializes them.
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

// holds returns the request that stays open until its client disconnects or the session ends.
func (h *handlers) holds() map[string]handler {
	return map[string]handler{"POST /v1/lst/hold_session": h.lstHoldSession}
}

// act returns a handler for a command that may wait for other nodes. The command is cancelled when
// the client disconnects.
func act[Request, Reply any](
	h *handlers, do func(ctx context.Context, r *Request) (Reply, *api.Fault),
) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
		var request Request
		var reply Reply
		fault := decode(r.Body, &request) // with the default timeout, because the body may be missing
		if fault == nil {
			h.allow(w, time.Now().Add(api.LstPatience+api.ReplyPatience))
			ctx, cancel := context.WithTimeout(r.Context(), api.LstPatience)
			defer cancel()
			reply, fault = do(ctx, &request)
		}
		return answered(reply, fault)
	}
}

// allow sets the deadline of a request, or removes it if until is zero. The default deadlines are
// for short requests.
func (h *handlers) allow(w http.ResponseWriter, until time.Time) {
	rc := http.NewResponseController(w)
	if err := errors.Join(rc.SetReadDeadline(until), rc.SetWriteDeadline(until)); err != nil {
		h.logger().Debug("extend deadlines", "err", err)
	}
}

// console returns the node's console.
func (h *handlers) console() (*console.Console, *api.Fault) {
	c, err := h.Backend.Selftest().Console()
	if err != nil {
		return nil, lstFault("console", err)
	}
	return c, nil
}

// onConsole runs a command on the console.
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

// lstFault converts an error of a command to a Fault.
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
	out.Cause = e.Reason // if it is empty, the text says everything
	return out
}

// lstWords maps error numbers to codes and remedies.
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
