package rpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/ring"
)

// Config says how a Client shall be; the zero value is a good one.
type Config struct {
	// Counters count calls; nil: nobody does.
	Counters *Counters
	// Wall is the wall clock, which match bits begin with; nil: time.Now.
	Wall func() time.Time
}

// Client makes RPCs from a node. All methods are safe for concurrent use. Two
// clients of one node would give out the same match bits.
type Client struct {
	node     *node.Node
	counters *Counters
	id       atomic.Uint64
	calls    sync.Pool

	mu     sync.Mutex // guards active, closed and idle
	active ring.Ring[Call]
	closed bool
	idle   chan struct{} // closed when the last call ends after Close
}

// New makes a client. Close ends it, before its node is closed.
func New(n *node.Node, c Config) *Client {
	if c.Counters == nil {
		c.Counters = new(Counters)
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	r := &Client{node: n, counters: c.Counters, idle: make(chan struct{})}
	r.id.Store(uint64(c.Wall().Unix()) << 48)
	r.calls.New = func() any { return &blocking{ended: make(chan struct{}, 1)} }
	return r
}

// nextID gives out match bits, never 0 (selftest 1).
func (c *Client) nextID() uint64 {
	for {
		if id := c.id.Add(1); id != 0 {
			return id
		}
	}
}

// Bulk is memory that moves with a call, at most 1 MiB; none if it is empty. It
// belongs to the call until that has ended.
type Bulk struct {
	Bytes []byte
	// Sink says that the server PUTs into it, all of it; else the server may
	// GET from it.
	Sink bool
	// Discard says that a driver need not keep what is put into it.
	Discard bool
}

// blocking is a Call that somebody waits for.
type blocking struct {
	Call
	ended chan struct{}
}

// Ended implements Waiter.
func (b *blocking) Ended(*Call) { b.ended <- struct{}{} }

// Call makes an RPC: it sends q, with IDs of its own, and decodes the answer
// into r, whatever status that has. It blocks until the RPC has ended and the
// node does not use the bulk any more, which after a timeout or an abort is as
// soon as nothing of it is on its way. When ctx's deadline comes the error is an
// ErrTimedOut, when ctx is canceled an ErrAborted; others are those of messages.
// Errno has a number for each. A handler must not call it.
func (c *Client) Call(ctx context.Context, to lnet.ProcessID, q message.Request, r message.Reply, bulk Bulk) error {
	b := c.calls.Get().(*blocking)
	k := &b.Call
	k.To, k.Service, k.Bulk, k.Waiter, k.Timeout = to, q.Service(), bulk, b, 0
	k.SetRequest(q)
	c.Start(k)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			k.expire()
			return
		}
		k.Abort()
	})
	<-b.ended
	reusable := stop() // else that function may still be about to abort
	err := k.Err()
	if err == nil {
		err = r.Decode(k.Reply())
	}
	k.Bulk = Bulk{}
	if reusable && !k.abandoned {
		c.calls.Put(b)
	}
	return err
}

// Close aborts all calls and waits until they have ended, or ctx is done. Calls
// that are started later end at once with ErrClosed.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	active := slices.Collect(c.active.All())
	if len(active) == 0 {
		c.closeIdle()
	}
	c.mu.Unlock()
	for _, k := range active {
		k.abort(ErrClosed)
	}
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) closeIdle() {
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// enter adds a call to the active ones; false if the client is closed.
func (c *Client) enter(k *Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.active.Add(k, &k.links)
	return true
}

// leave takes a call out.
func (c *Client) leave(k *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active.Remove(&k.links)
	if c.closed && c.active.Len() == 0 {
		c.closeIdle()
	}
}

// nodeClosed tells whether the node has closed, so that MDs end without events.
func (c *Client) nodeClosed() bool {
	h, err := c.node.Bind(portals.MD{})
	if err == nil {
		_ = c.node.Unlink(h) // nobody else knows it
		return false
	}
	return errors.Is(err, node.ErrClosed)
}
