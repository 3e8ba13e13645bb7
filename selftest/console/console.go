package console

import (
	"context"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// Config says how a Console shall be; the zero value is a good one.
type Config struct {
	// Latencies tells the times of RPCs of a node's clients, since their tests
	// were added; false if nobody knows. The protocol has no way to ask for them.
	// nil: those of the console's own node alone.
	Latencies func(nid lnet.NID) (latency.Histogram, bool)
	// Wall is the wall clock, for stamps of sessions; nil: time.Now.
	Wall func() time.Time
	// Logger receives what an operator should see; nil discards.
	Logger *slog.Logger
}

// Key is what the commands of a session must know: LST_SESSION. 0 is none.
type Key int64

// Console is one node's console. All methods are safe for concurrent use.
// Commands wait for each other where they change the session; when their
// context is canceled they abort their RPCs and return its cause.
type Console struct {
	Config

	node   *node.Node
	agent  *selftest.Agent
	client *rpc.Client

	ctx    context.Context // of sessions; done when Close gives up
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex // guards the rest
	closed  bool
	session *session // nil: none
	batches uint64   // IDs given out, over all sessions
	stamp   int64    // of the last session
}

// New makes the console of a node with an agent. From now on it answers the JOIN
// requests that the agent gets. Close ends it, before the agent is closed.
func New(n *node.Node, a *selftest.Agent, c Config) *Console {
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	o := &Console{Config: c, node: n, agent: a, client: a.Client()}
	if o.Latencies == nil {
		o.Latencies = o.own
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	a.SetJoin(o.join)
	return o
}

// Close ends the session on its nodes, all commands included, and waits for
// that; when ctx is done before, nodes that have not answered are left to
// themselves and Close returns its cause. It may be called again.
func (c *Console) Close(ctx context.Context) error {
	c.agent.SetJoin(nil)
	c.mu.Lock()
	c.closed = true
	s := c.session
	if s != nil {
		c.endLocked(s)
	}
	c.mu.Unlock()
	var err error
	if s != nil {
		select {
		case <-s.ended:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	c.cancel()
	c.work.Wait()
	return err
}

// own are the latencies of this node's clients.
func (c *Console) own(nid lnet.NID) (h latency.Histogram, ok bool) {
	mine := false
	for _, i := range c.node.NIs() {
		mine = mine || i.NID == nid
	}
	if !mine {
		return h, false
	}
	s, ok := c.agent.Session()
	if !ok {
		return h, false
	}
	for _, b := range s.Batches {
		for _, t := range b.Tests {
			if t.Client {
				h.Merge(&t.Latency)
			}
		}
	}
	return h, true
}

// name is the NID that sessions of this console are named by.
func (c *Console) name() (message.NID4, error) {
	for _, i := range c.node.NIs() {
		if n, ok := message.NID4Of(i.NID); ok && !i.NID.IsLoopback() {
			return n, nil
		}
	}
	return 0, refuse(syscall.EADDRNOTAVAIL, "session", "", "this node has no NID with a short address to name a session by")
}

// command is a command of a session that is being carried out.
type command struct {
	*session
	ctx     context.Context // ends with the caller's or the session
	console *Console
	release func()
	holds   bool // the slot
	paused  bool // the session's end does not wait for it
}

// begin begins a command. The session lasts until end is called, unless it is
// ended, which ends ctx.
func (c *Console) begin(ctx context.Context, key Key) (*command, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.session
	switch {
	case c.closed:
		return nil, errClosed
	case s == nil:
		return nil, errNone
	case s.ending:
		return nil, errEnding
	case s.key != key:
		return nil, refuse(syscall.EACCES, "session", "", "key %d is not its key", key)
	}
	s.enter()
	merged, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errEnding) })
	return &command{session: s, ctx: merged, console: c, release: func() {
		stop()
		cancel(nil)
	}}, nil
}

// change begins a command that changes the session: it waits for others.
func (c *Console) change(ctx context.Context, key Key) (*command, error) {
	x, err := c.begin(ctx, key)
	if err != nil {
		return nil, err
	}
	select {
	case x.slot <- struct{}{}:
		x.holds = true
	case <-x.ctx.Done():
	}
	if err := stopped(x.ctx); err != nil { // both may have been ready
		x.end()
		return nil, err
	}
	return x, nil
}

// end ends the command.
func (x *command) end() {
	x.release()
	if x.holds {
		<-x.slot
	}
	x.console.mu.Lock()
	defer x.console.mu.Unlock()
	x.commands--
	x.last = time.Now()
	if !x.paused {
		x.work.Done()
	}
}

// pause lets the session end before the command does. Until it has called resume
// the command must leave the session alone, and it must not hold the slot.
func (x *command) pause() {
	x.paused = true
	x.work.Done()
}

// resume undoes pause, or tells that the session is ending: then nothing is left
// for the command but to end.
func (x *command) resume() error {
	x.console.mu.Lock()
	defer x.console.mu.Unlock()
	if x.ending {
		return errEnding
	}
	x.paused = false
	x.work.Add(1)
	return nil
}

// view calls f with the session's state, without a transaction.
func (c *Console) view(key Key, f func(s *session) error) error {
	x, err := c.begin(context.Background(), key)
	if err != nil {
		return err
	}
	defer x.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	return f(x.session)
}
