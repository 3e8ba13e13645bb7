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

// Config holds the parameters of a Client. The zero value means the defaults.
type Config struct {
	// Counters counts the RPCs of the client. If it is nil, they are not counted.
	Counters *Counters
	// Wall is the wall clock. The match bits of replies and bulks begin with a value that depends on the
	// time. If Wall is nil, time.Now is used.
	Wall func() time.Time
}

// Client makes RPCs from a node. All methods are safe for concurrent use. A node must not have two clients,
// because they would assign the same match bits.
type Client struct {
	node     *node.Node
	counters *Counters
	id       atomic.Uint64
	calls    sync.Pool

	mu     sync.Mutex // guards active, closed and idle
	active ring.Ring[Call]
	closed bool
	idle   chan struct{} // closed when, after Close, the last RPC has ended
}

// New returns a client of a node. Close it before the node.
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

// nextID returns match bits that were not used before and are not 0 (selftest 1).
func (c *Client) nextID() uint64 {
	for {
		if id := c.id.Add(1); id != 0 {
			return id
		}
	}
}

// Bulk is memory whose data a call transfers, up to 1 MiB. If it is empty, there is no transfer. The memory
// belongs to the call until the call has ended.
type Bulk struct {
	Bytes []byte
	// Sink means that the server PUTs data into Bytes and must fill all of it. If Sink is not set, the server
	// may GET data from Bytes.
	Sink bool
	// Discard permits the driver to discard received data instead of storing it in Bytes.
	Discard bool
}

// blocking is a Call that a goroutine waits for.
type blocking struct {
	Call
	ended chan struct{}
}

// Ended implements Waiter.
func (b *blocking) Ended(*Call) { b.ended <- struct{}{} }

// Call makes an RPC: it sends q with new match bits and decodes the reply into r, whatever the status of the
// reply is. It blocks until the RPC has ended and the node no longer uses the bulk. After a timeout or an
// abort it returns as soon as no part of the bulk is being transferred. It returns ErrTimedOut if ctx's
// deadline passes, ErrAborted if ctx is canceled, and the errors of package message. Errno converts all
// errors to numbers. An event handler must not call Call.
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
	// If stop returns false, its function has been started. It could abort the next call that uses b.
	reusable := stop()
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

// Close aborts all RPCs and waits until they have ended or ctx is done. An RPC that is started later ends
// immediately with ErrClosed.
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

// enter adds a call to the calls in progress. It returns false if the client is closed.
func (c *Client) enter(k *Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.active.Add(k, &k.links)
	return true
}

// leave removes a call from the calls in progress.
func (c *Client) leave(k *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active.Remove(&k.links)
	if c.closed && c.active.Len() == 0 {
		c.closeIdle()
	}
}

// nodeClosed reports whether the node has been closed. MDs of a closed node end without events.
func (c *Client) nodeClosed() bool {
	h, err := c.node.Bind(portals.MD{})
	if err == nil {
		_ = c.node.Unlink(h) // cannot fail: the MD is not used
		return false
	}
	return errors.Is(err, node.ErrClosed)
}
