package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/selftest/console"
)

// LNet selftest (selftest 7, 8): each command of lst is a POST of its name below
// /v1/lst, with the session's key in the body. Replies are
// what a console tells: values of package report.

// LstPatience bounds a command of lst with all that it waits for: two
// transactions of 30 s and what leads to them.
const LstPatience = 2 * time.Minute

// Selftest is LNet selftest in the daemon. Its methods may be called from many
// goroutines at once.
type Selftest interface {
	// Status says whether the node takes part, with what, and in what.
	Status() LstStatus
	// Enable has it take part; what of b is 0 is as configured. EALREADY: it
	// does.
	Enable(b LstBounds) error
	// Disable ends that; ctx bounds the wait. EBUSY: it takes part in a session,
	// or has one as a console, and force is not set. ENODEV: not enabled.
	Disable(ctx context.Context, force bool) error
	// Console is the node's; ENODEV: not enabled.
	Console() (*console.Console, error)
}

// LstKey is the key of a session; 0 is none.
type LstKey int64

// Lst is the body of commands that need nothing but the key.
type Lst struct {
	Key LstKey `json:"key"`
}

// LstNamed is the body of commands about a group or a batch; without a name, of
// those that list all.
type LstNamed struct {
	Key  LstKey `json:"key"`
	Name string `json:"name,omitempty"`
}

// LstNames is a list of groups or batches.
type LstNames struct {
	Names []string `json:"names"`
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
	h *handlers, do func(ctx context.Context, r *Request) (Reply, *Fault),
) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, *Fault) {
		var request Request
		var reply Reply
		fault := decode(r.Body, &request) // within the usual bounds: there may be none
		if fault == nil {
			h.allow(w, time.Now().Add(LstPatience+ReplyPatience))
			ctx, cancel := context.WithTimeout(r.Context(), LstPatience)
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

// lstCall sends a command.
func lstCall[Reply any](ctx context.Context, c *Client, command string, request any) (Reply, error) {
	var reply Reply
	err := c.call(ctx, LstPatience+ReplyPatience, http.MethodPost, "/v1/lst/"+command, request, &reply)
	return reply, err
}

// console is the node's.
func (h *handlers) console() (*console.Console, *Fault) {
	c, err := h.Backend.Selftest().Console()
	if err != nil {
		return nil, lstFault("console", err)
	}
	return c, nil
}

// onConsole does a command on the console.
func onConsole[Reply any](
	h *handlers, command string, do func(c *console.Console) (Reply, error),
) (reply Reply, _ *Fault) {
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
func lstFault(command string, err error) *Fault {
	if f := (*Fault)(nil); errors.As(err, &f) {
		return f
	}
	errno := EngineErrno(err)
	f := Fault{Errno: -int(errno), Code: CodeLstRefused, Text: fmt.Sprintf("%s: %s", command, Strerror(errno))}
	if w, ok := lstWords[errno]; ok {
		f.Code, f.Remedy = w.code, w.remedy
	}
	if f.Code == CodeLstDisabled {
		f.Text = "LNet selftest is not enabled on this node"
	}
	e := (*console.Error)(nil)
	if !errors.As(err, &e) {
		return f.Because(err)
	}
	f.Subject = e.Name
	if e.Name != "" {
		f.Text = fmt.Sprintf("%s: %s %s: %s", command, e.What, e.Name, Strerror(errno))
	}
	out := f.Because(err)
	out.Cause = e.Reason // where there is none the text says it all
	return out
}

// lstWords are the kinds of errors by their numbers.
var lstWords = map[syscall.Errno]struct {
	code   Code
	remedy string
}{
	syscall.ENODEV: {CodeLstDisabled, "enable it with: lnetdctl lst enable"},
	syscall.ESRCH:  {CodeLstNoSession, "make a session with: lst new_session"},
	syscall.EACCES: {CodeLstKey, "export LST_SESSION as it was when the session was made; lst show_session tells its KEY"},
	syscall.ENOENT: {CodeLstUnknown, "see what there is with: lst list_group, lst list_batch"},
	syscall.EEXIST: {CodeLstExists, ""},
	syscall.EINVAL: {CodeLstInvalid, ""},
	syscall.EBUSY:  {CodeLstBusy, ""},
	syscall.ENETDOWN: {
		CodeLstNotActive, "all nodes concerned have to be active: see lst list_group --all, and lst update_group --refresh",
	},
}
