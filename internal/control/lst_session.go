package control

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstSession describes the console's session.
type LstSession struct {
	Name     string        `json:"name"`
	NID      lnet.NID      `json:"nid"`   // of the console
	Stamp    int64         `json:"stamp"` // milliseconds
	Key      LstKey        `json:"key"`
	Features uint32        `json:"features"`
	Timeout  time.Duration `json:"timeout"`
	Force    bool          `json:"force"`
	Nodes    int           `json:"nodes"`
}

// LstTarget says which nodes are pinged: exactly one of the session's, a group's,
// a batch's clients or servers, or some by NID, which need not be in the session.
type LstTarget struct {
	Session bool     `json:"session,omitempty"`
	Group   string   `json:"group,omitempty"`
	Batch   string   `json:"batch,omitempty"`
	Servers bool     `json:"servers,omitempty"` // of the batch
	Nodes   []string `json:"nodes,omitempty"`   // lists of NIDs
}

// LstNewSession is the body of POST /v1/lst/new_session.
type LstNewSession struct {
	// Key is what later commands name; 0: the console makes one up.
	Key  LstKey `json:"key,omitempty"`
	Name string `json:"name"`
	// Timeout is how long the session lives without commands, in seconds; 0:
	// 300.
	Timeout int `json:"timeout,omitempty"`
	// Force takes the place of a session that there is, here and on the nodes.
	Force bool `json:"force,omitempty"`
	// Features are those of the session; not given: all.
	Features *uint32 `json:"features,omitempty"`
}

// LstPing is the body of POST /v1/lst/ping.
type LstPing struct {
	Key    LstKey    `json:"key"`
	Target LstTarget `json:"target"`
	// Timeout bounds the wait, in seconds; it is held to 3 to 30.
	Timeout int `json:"timeout,omitempty"`
}

// holdPatience bounds the end of a session whose owner has gone.
const holdPatience = 30 * time.Second

// LstNewSession makes a session.
func (c *Client) LstNewSession(ctx context.Context, r LstNewSession) (LstSession, error) {
	return lstCall[LstSession](ctx, c, "new_session", r)
}

// LstEndSession ends the session.
func (c *Client) LstEndSession(ctx context.Context, key LstKey) error {
	_, err := lstCall[Done](ctx, c, "end_session", Lst{Key: key})
	return err
}

// LstShowSession describes the session, whatever its key.
func (c *Client) LstShowSession(ctx context.Context) (LstSession, error) {
	return lstCall[LstSession](ctx, c, "show_session", Done{})
}

// LstHoldSession ties the session to this process: when it is gone, or has called
// release, lnetd ends the session if there still is one. It returns at once.
func (c *Client) LstHoldSession(ctx context.Context, key LstKey) (release func(), _ error) {
	resp, err := c.send(ctx, http.MethodPost, "/v1/lst/hold_session", Lst{Key: key})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.read(resp, nil)
	}
	return func() { _ = resp.Body.Close() }, nil
}

// LstPing asks nodes for their sessions.
func (c *Client) LstPing(ctx context.Context, r LstPing) (report.Result, error) {
	return lstCall[report.Result](ctx, c, "ping", r)
}

// ShownSession is the console's session as the interface shows it.
func ShownSession(i *console.SessionInfo) LstSession {
	return LstSession{
		Name: i.Name, NID: i.NID, Stamp: i.Stamp, Key: LstKey(i.Key), Features: i.Features, Timeout: i.Timeout,
		Force: i.Force, Nodes: i.Nodes,
	}
}

func (h *handlers) lstNewSession(ctx context.Context, r *LstNewSession) (LstSession, *Fault) {
	if fault := checkLstTimeout(r.Timeout); fault != nil {
		return LstSession{}, fault
	}
	return onConsole(h, "new_session", func(c *console.Console) (LstSession, error) {
		s, err := c.NewSession(ctx, console.SessionOptions{
			Key: console.Key(r.Key), Name: r.Name, Timeout: lstSeconds(r.Timeout), Force: r.Force, Features: r.Features,
		})
		if err == nil && ctx.Err() != nil { // who asked has gone: nobody would end it
			err = context.Cause(ctx)
			_ = c.EndSession(ctx, s.Key) // goes on by itself
		}
		return ShownSession(&s), err
	})
}

// LstTimeoutMax is the longest time that a command takes, in seconds.
const LstTimeoutMax = math.MaxInt32

func checkLstTimeout(n int) *Fault {
	if n < 0 || n > LstTimeoutMax {
		return invalidRequest(fmt.Sprintf("timeout %d is not within 0 to %d seconds", n, LstTimeoutMax), nil)
	}
	return nil
}

// lstSeconds is the patience of a command that has bounds of its own.
func lstSeconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), LstTimeoutMax)) * time.Second
}

func (h *handlers) lstEndSession(ctx context.Context, r *Lst) (Done, *Fault) {
	return onConsole(h, "end_session", func(c *console.Console) (Done, error) {
		return Done{}, c.EndSession(ctx, console.Key(r.Key))
	})
}

func (h *handlers) lstShowSession(context.Context, *Done) (LstSession, *Fault) {
	return onConsole(h, "show_session", func(c *console.Console) (LstSession, error) {
		s, err := c.ShowSession()
		return ShownSession(&s), err
	})
}

// lstHoldSession answers at once, and stays until the session has ended, or the
// client has gone; then it ends the session.
func (h *handlers) lstHoldSession(w http.ResponseWriter, r *http.Request) (any, *Fault) {
	var request Lst
	fault := decode(r.Body, &request) // within the usual bounds: there may be none
	var c *console.Console
	if fault == nil {
		h.allow(w, time.Time{})
		c, fault = h.console()
	}
	var hold *console.Hold
	if fault == nil {
		var err error
		if hold, err = c.Hold(console.Key(request.Key)); err != nil {
			fault = lstFault("hold_session", err)
		}
	}
	if fault != nil {
		return nil, fault
	}
	h.reply(w, r, http.StatusOK, Done{})
	connectionOf(r).serving() // it is no fault of the client's that nothing happens
	if err := http.NewResponseController(w).Flush(); err != nil {
		h.logger().Debug("flush", "err", err)
	}
	select {
	case <-hold.Over():
		return nil, nil
	case <-r.Context().Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), holdPatience)
	defer cancel()
	if err := hold.End(ctx); err == nil {
		h.logger().Info("selftest: session ended, since who held it has gone")
	}
	return nil, nil
}

func (h *handlers) lstPing(ctx context.Context, r *LstPing) (report.Result, *Fault) {
	return onConsole(h, "ping", func(c *console.Console) (report.Result, error) {
		return c.Ping(ctx, console.Key(r.Key), console.Target(r.Target), lstSeconds(r.Timeout))
	})
}
