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

// Config holds the parameters of a Console. The zero value means the defaults.
type Config struct {
	// Latencies returns the RPC durations of the client tests of a node since they were added, or false if
	// they are unknown. Consoles need it because the protocol does not transfer durations. If it is nil, only
	// the durations of the console's own node are known.
	Latencies func(nid lnet.NID) (latency.Histogram, bool)
	// Wall is the wall clock, used for session stamps. If it is nil, time.Now is used.
	Wall func() time.Time
	// Logger receives messages for operators. If it is nil, they are discarded.
	Logger *slog.Logger
}

// Key identifies a session in commands. lst takes it from LST_SESSION. 0 means no key.
type Key int64

// Console is the console of one node. All methods are safe for concurrent use. Only one command at a time
// changes the session; others wait. When the context of a command is canceled, the command aborts its RPCs
// and returns the cause.
type Console struct {
	Config

	node   *node.Node
	agent  *selftest.Agent
	client *rpc.Client

	ctx    context.Context // parent of the contexts of sessions; Close cancels it
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	closed  bool
	session *session // nil if there is no session
	batches uint64   // ID of the last batch that was added in any session
	stamp   int64    // stamp of the last session
}

// New returns the console of a node on which agent a is enabled. The console answers the JOIN requests that
// the agent receives. Close the console before the agent.
func New(n *node.Node, a *selftest.Agent, c Config) *Console {
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	o := &Console{Config: c, node: n, agent: a, client: a.Client()}
	if o.Latencies == nil {
		o.Latencies = o.localLatencies
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	a.SetJoin(o.join)
	return o
}

// Close ends the session on its nodes, including all commands, and waits until it has ended. If ctx is done
// before that, Close returns its cause, and no more requests are sent to nodes that have not answered. Close
// may be called again.
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

// localLatencies is the default of Config.Latencies. It returns false if nid does not belong to this node.
func (c *Console) localLatencies(nid lnet.NID) (h latency.Histogram, ok bool) {
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

// name returns the NID of this node that is part of the console's session IDs.
func (c *Console) name() (message.NID4, error) {
	for _, i := range c.node.NIs() {
		if n, ok := message.NID4Of(i.NID); ok && !i.NID.IsLoopback() {
			return n, nil
		}
	}
	return 0, refuse(syscall.EADDRNOTAVAIL, "session", "", "this node has no NID with a 4-byte address, which a session needs")
}

// command is a command of a session that is being executed.
type command struct {
	*session
	ctx     context.Context // done when the caller's context or the session ends
	console *Console
	release func() // releases ctx
	holds   bool   // the command holds session.slot
	paused  bool   // pause was called: the session may end before the command
}

// begin begins a command of the session with this key. The session is not removed until command.end is
// called. If the session is to end before that, the command's ctx is canceled. begin returns an error if
// there is no such session.
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
		return nil, refuse(syscall.EACCES, "session", "", "the session has another key than %d", key)
	}
	s.enter()
	merged, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errEnding) })
	return &command{session: s, ctx: merged, console: c, release: func() {
		stop()
		cancel(nil)
	}}, nil
}

// beginChange is like begin, but for a command that changes the session. It acquires session.slot, for which it
// waits until no other such command is running.
func (c *Console) beginChange(ctx context.Context, key Key) (*command, error) {
	x, err := c.begin(ctx, key)
	if err != nil {
		return nil, err
	}
	select {
	case x.slot <- struct{}{}:
		x.holds = true
	case <-x.ctx.Done():
	}
	if err := stopped(x.ctx); err != nil { // check again, because select may have acquired the slot although ctx is done
		x.end()
		return nil, err
	}
	return x, nil
}

// end ends the command and releases session.slot if the command holds it.
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

// pause permits the session to end before the command does. Until resume returns, the command must not
// access the session. Only a command that does not hold session.slot may call pause.
func (x *command) pause() {
	x.paused = true
	x.work.Done()
}

// resume reverts pause. If it returns an error, the session is ending, and the command must end without
// accessing the session.
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

// withSession calls f with the session that has this key. It holds c.mu during the call, and sends no RPCs.
func (c *Console) withSession(key Key, f func(s *session) error) error {
	x, err := c.begin(context.Background(), key)
	if err != nil {
		return err
	}
	defer x.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	return f(x.session)
}
