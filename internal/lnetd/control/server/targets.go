package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// each calls one for each target, for atOnce targets at a time, and returns all results in order. It continues after
// a target that fails. The function words converts an error of one to a fault for the client. Each call ends after
// timeout, or with the request.
func (h *handlers) each(
	w http.ResponseWriter, r *http.Request, targets []string, atOnce int, timeout time.Duration,
	one func(ctx context.Context, i int) (api.PingResult, error),
	words func(target string, err error) *api.Fault,
) api.PingReply {
	h.allow(w, time.Now().Add(api.TargetsPatience(len(targets), atOnce, timeout)))
	reply := api.PingReply{Results: make([]api.PingResult, len(targets))}
	var calls sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, target := range targets {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			res, err := one(ctx, i)
			if err != nil {
				res = api.PingResult{Error: words(target, err)}
			}
			res.Target = target
			reply.Results[i] = res
		})
	}
	calls.Wait()
	return reply
}

// UnreachableError is the error of a message for which the node has no path. It adds the cause and a remedy
// for the operator to the node's error Err.
type UnreachableError struct {
	Err           error
	Cause, Remedy string
}

func (e *UnreachableError) Error() string { return e.Err.Error() + ": " + e.Cause }

func (e *UnreachableError) Unwrap() error { return e.Err }

func checkTargets(targets []string) *api.Fault {
	switch {
	case len(targets) == 0:
		return invalidRequest("NID targets are needed", nil)
	case len(targets) > api.PingTargetsMax:
		return &api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.E2BIG), Text: "specifies more NIDs than allowed"}
	}
	return nil
}

// targetFault returns the fault of a target that was not pinged or discovered because of err, with lnetctl's
// message (lnetctl 5.5). The action is "ping" or "discover".
func targetFault(code api.Code, action, target string, err error) *api.Fault {
	var f *api.Fault
	if errors.As(err, &f) {
		return f
	}
	errno := Errno(err)
	remedy := targetRemedies[errno]
	if u, ok := errors.AsType[*UnreachableError](err); ok {
		return api.Fault{
			Code: code, Errno: -int(errno), Text: "failed to " + action + " " + target + ": " + api.Strerror(errno), Cause: u.Cause, Remedy: u.Remedy,
		}.Because(err)
	}
	if errno == syscall.ETIMEDOUT {
		errno = syscall.EIO // as in kernels (decisions 30)
	}
	return api.Fault{
		Code:   code,
		Errno:  -int(errno),
		Text:   "failed to " + action + " " + target + ": " + api.Strerror(errno),
		Remedy: remedy,
	}.Because(err)
}

// targetRemedies tells the operator what to do about a target that did not answer, by error number.
var targetRemedies = map[syscall.Errno]string{
	syscall.EHOSTUNREACH: "check that the node is up and that both nodes have an NI on this net",
	syscall.ENETUNREACH:  "check the IP routes to the node",
	syscall.ECONNREFUSED: "check that LNet runs on the node and listens on the port that this node connects to (988 unless configured)",
	syscall.ECONNRESET:   "check that the node has exactly this NID, and that it accepts the source port of this node (accept: secure refuses ports above 1023)",
	syscall.ETIMEDOUT:    "check firewalls between the nodes and the load of the node",
	syscall.EIO:          "the connection was lost, or lnetd is waiting before it reconnects; try again, and see the log of lnetd",
	syscall.EPROTO:       "the node violated the protocol; see the log of lnetd",
}
