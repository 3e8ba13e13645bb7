package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/selftest/console"
)

// Selftest is LNet selftest in the daemon. Its methods are safe for concurrent use.
type Selftest interface {
	// Status returns whether selftest is enabled, its limits, the sessions of this node, and counters.
	Status() api.LstStatus
	// Enable enables selftest with the limits b. For a field of b that is 0, the configured limit
	// applies. It returns EALREADY if selftest is enabled.
	Enable(b api.LstBounds) error
	// Disable disables selftest and ends sessions. It returns ENODEV if selftest is not enabled. If the
	// node takes part in a session or controls one, it returns EBUSY unless force is set. If ctx ends
	// while Disable waits, it returns an error.
	Disable(ctx context.Context, force bool) error
	// Console returns the node's console, or ENODEV if selftest is not enabled.
	Console() (*console.Console, error)
}

// lst returns the operations for the commands of lst. They may wait for other nodes. They run
// concurrently, except where the console serializes them.
func (h *handlers) lst() []operation {
	return []operation{
		act(h, endpoint.LstEnable, h.lstEnable),
		act(h, endpoint.LstDisable, h.lstDisable),
		act(h, endpoint.LstNewSession, h.lstNewSession),
		act(h, endpoint.LstEndSession, h.lstEndSession),
		act(h, endpoint.LstShowSession, h.lstShowSession),
		act(h, endpoint.LstPing, h.lstPing),
		act(h, endpoint.LstAddGroup, h.lstAddGroup),
		act(h, endpoint.LstDeleteGroup, h.lstDeleteGroup),
		act(h, endpoint.LstUpdateGroup, h.lstUpdateGroup),
		act(h, endpoint.LstGroups, h.lstGroups),
		act(h, endpoint.LstGroup, h.lstGroup),
		act(h, endpoint.LstAddBatch, h.lstAddBatch),
		act(h, endpoint.LstAddTest, h.lstAddTest),
		act(h, endpoint.LstRun, h.lstRun),
		act(h, endpoint.LstStop, h.lstStop),
		act(h, endpoint.LstQuery, h.lstQuery),
		act(h, endpoint.LstBatches, h.lstBatches),
		act(h, endpoint.LstBatch, h.lstBatch),
		act(h, endpoint.LstStat, h.lstStat),
	}
}

// holds returns the operation whose requests stay open until the client disconnects or the session ends.
func (h *handlers) holds() []operation {
	return []operation{{Info: endpoint.LstHoldSession.Info, do: h.lstHoldSession}}
}

// act returns the operation for a command of lst, which do performs and which may wait for other nodes.
// The context of do ends when the client disconnects.
func act[Request, Reply any](
	h *handlers, e endpoint.Endpoint[Request, Reply], do func(ctx context.Context, r *Request) (Reply, *api.Fault),
) operation {
	// The body is read before the timeout is extended, because the client may never send it.
	return handle(e, func(w http.ResponseWriter, r *http.Request, sent *Request) (Reply, *api.Fault) {
		h.allow(w, time.Now().Add(e.Patience))
		ctx, cancel := context.WithTimeout(r.Context(), api.LstPatience)
		defer cancel()
		return do(ctx, sent)
	})
}

// allow sets the time until which a request may take, or removes the limit if until is zero. It is for
// requests that take longer than the default limit of the server.
func (h *handlers) allow(w http.ResponseWriter, until time.Time) {
	rc := http.NewResponseController(w)
	if err := errors.Join(rc.SetReadDeadline(until), rc.SetWriteDeadline(until)); err != nil {
		h.logger().Debug("cannot set the deadlines of a control request", "err", err)
	}
}

// console returns the selftest console of this node, or a fault if selftest is not enabled.
func (h *handlers) console() (*console.Console, *api.Fault) {
	c, err := h.Backend.Selftest().Console()
	if err != nil {
		return nil, lstFault("console", err)
	}
	return c, nil
}

// onConsole calls do, which performs a command of lst, with the selftest console of this node.
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

// lstFault converts the error of a command of lst to a Fault.
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

// lstWords holds the codes and remedies of the errors that commands of lst return, by error number.
var lstWords = map[syscall.Errno]struct {
	code   api.Code
	remedy string
}{
	syscall.ENODEV: {api.CodeLstDisabled, "enable it with: lnetdctl lst enable"},
	syscall.ESRCH:  {api.CodeLstNoSession, "create a session with: lst new_session"},
	syscall.EACCES: {api.CodeLstKey, "set LST_SESSION to the key of the session; lst show_session prints it as KEY"},
	syscall.ENOENT: {api.CodeLstUnknown, "to list groups and batches, use: lst list_group, lst list_batch"},
	syscall.EEXIST: {api.CodeLstExists, ""},
	syscall.EINVAL: {api.CodeLstInvalid, ""},
	syscall.EBUSY:  {api.CodeLstBusy, ""},
	syscall.ENETDOWN: {
		api.CodeLstNotActive, "all nodes of the groups must be active: see lst list_group --all, and lst update_group --refresh",
	},
}
