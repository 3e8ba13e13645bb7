package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

// holdTimeout is the maximum time for ending a session whose owner, the client of hold_session, has
// disconnected.
const holdTimeout = 30 * time.Second

// ShownSession converts the session of a console to the form of the control interface.
func ShownSession(i *console.SessionInfo) api.LstSession {
	return api.LstSession{
		Name: i.Name, NID: i.NID, Stamp: i.Stamp, Key: api.LstKey(i.Key), Features: i.Features, Timeout: i.Timeout,
		Force: i.Force, Nodes: i.Nodes,
	}
}

func (h *handlers) lstNewSession(ctx context.Context, r *api.LstNewSession) (api.LstSession, *api.Fault) {
	if fault := checkLstTimeout(r.Timeout); fault != nil {
		return api.LstSession{}, fault
	}
	return onConsole(h, "new_session", func(c *console.Console) (api.LstSession, error) {
		s, err := c.NewSession(ctx, console.SessionOptions{
			Key: console.Key(r.Key), Name: r.Name, Timeout: lstSeconds(r.Timeout), Force: r.Force, Features: r.Features,
		})
		if err == nil && ctx.Err() != nil { // the client has disconnected and cannot end the session
			err = context.Cause(ctx)
			_ = c.EndSession(ctx, s.Key) // continues in the background although ctx is done
		}
		return ShownSession(&s), err
	})
}

func checkLstTimeout(n int) *api.Fault {
	if n < 0 || n > api.LstTimeoutMax {
		return invalidRequest(fmt.Sprintf("timeout %d is not within 0 to %d seconds", n, api.LstTimeoutMax), nil)
	}
	return nil
}

// lstSeconds converts the timeout of a command in seconds, limited to the valid range.
func lstSeconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), api.LstTimeoutMax)) * time.Second
}

func (h *handlers) lstEndSession(ctx context.Context, r *api.Lst) (api.Done, *api.Fault) {
	return onConsole(h, "end_session", func(c *console.Console) (api.Done, error) {
		return api.Done{}, c.EndSession(ctx, console.Key(r.Key))
	})
}

func (h *handlers) lstShowSession(context.Context, *api.Done) (api.LstSession, *api.Fault) {
	return onConsole(h, "show_session", func(c *console.Console) (api.LstSession, error) {
		s, err := c.ShowSession()
		return ShownSession(&s), err
	})
}

// lstHoldSession lets a session end with its client. It replies immediately and then stays open until the
// session ends or the client disconnects. If the client disconnects, it ends the session.
func (h *handlers) lstHoldSession(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
	sent, fault := read(endpoint.LstHoldSession, r) // with the default timeout, because the body may be missing
	var c *console.Console
	if fault == nil {
		h.allow(w, time.Time{})
		c, fault = h.console()
	}
	var hold *console.Hold
	if fault == nil {
		var err error
		if hold, err = c.Hold(console.Key(sent.Key)); err != nil {
			fault = lstFault("hold_session", err)
		}
	}
	if fault != nil {
		return nil, fault
	}
	h.reply(w, r, http.StatusOK, api.Done{})
	connectionOf(r).serving() // the client waits for the server, so its connection must not be evicted
	if err := http.NewResponseController(w).Flush(); err != nil {
		h.logger().Debug("cannot flush the reply to hold_session", "err", err)
	}
	select {
	case <-hold.Over():
		return nil, nil
	case <-r.Context().Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), holdTimeout)
	defer cancel()
	if err := hold.End(ctx); err == nil {
		h.logger().Info("selftest: session ended because the program that held it has disconnected")
	}
	return nil, nil
}

func (h *handlers) lstPing(ctx context.Context, r *api.LstPing) (report.Result, *api.Fault) {
	return onConsole(h, "ping", func(c *console.Console) (report.Result, error) {
		return c.Ping(ctx, console.Key(r.Key), console.Target(r.Target), lstSeconds(r.Timeout))
	})
}
