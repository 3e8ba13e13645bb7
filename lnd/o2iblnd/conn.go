package o2iblnd

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/peering"
)

// conn is one connection, from the beginning of the attempt until its memory is freed. It consists of a queue
// pair and the protocol's state machine.
type conn struct {
	i       *Interface
	p       *peer
	id      verbs.ID
	ours    bool                 // this node opens or has opened the connection
	request protocol.Message     // this node's connection request, if ours is set
	session protocol.Session     // set when the connection is accepted or established
	begun   time.Time            // when the attempt began
	call    *peering.Call[*peer] // this node's attempt while it is in progress; only the keeper uses it
	source  netip.AddrPort       // the peer's address, for an inbound connection
	// newcomer is the entry of an inbound connection in Driver.halfOpen.
	newcomer *peering.Newcomer[*conn]
	up       bool        // the connection was established; only the goroutine of the event channel uses it
	dead     atomic.Bool // the connection has ended or is about to end

	// The following fields are set before this node asks the CM (connection manager) to connect or accept.
	dev     *device
	q       *queue
	entries int     // number of entries of q that are reserved for the connection
	place   uint32  // index of the connection in q.conns
	wr      uint64  // the generation and the place, as in the IDs of the connection's work requests
	recvs   []block // receive buffers
	slots   []block // send buffers
	inline  int     // number of bytes that the queue pair copies when they are posted

	mu            sync.Mutex     // guards the fields below
	m             *protocol.Conn // state machine; nil until the queue pair has been created
	b             protocol.Batch // actions of the state machine that are still to be executed
	refs          int            // number of users of the connection's memory; at 0 the memory has been freed
	corks         int            // while it is not 0, SENDs are collected
	changed       bool           // the harvest that the worker is processing concerns the connection
	inbox         []*rx          // arrivals that are still to be passed to the node
	reporting     bool           // a goroutine is passing the inbox to the node
	spare         []*rx          // records for later arrivals
	outboxPending bool           // an event was added to the interface's outbox, which is still to be run
	last          events         // events that follow the report of the connection's end (emit)

	ending       bool               // the connection has to be disconnected
	failure      *protocol.Failure  // why the connection is ending
	decision     *protocol.Decision // the next step after a rejected attempt
	lost         bool               // peer.lose has been called or is about to be called
	detached     bool               // Disconnect was called before the connection was established; guarded by the lock of p
	lossReported bool               // peer.lose has queued its events

	inFlight    int       // posted SENDs that have not completed
	awaited     []bool    // by the number of the send buffer: the SEND that uses it is one of those in queue.awaited
	awaiting    int       // how many of them are
	completions uint64    // number of completions without an error
	probedAt    uint64    // value of completions at the time of the probe
	moved       time.Time // when a SEND last completed, or was posted while no other was in flight

	work struct { // scratch space for posting
		recvs    []verbs.Recv
		requests []verbs.Request
		pieces   []verbs.Piece
	}
}

// settings returns the options for the connection's state machine.
func (c *conn) settings() protocol.Options {
	d, o := &c.i.driver.config, c.i.options.Load()
	return protocol.Options{
		Flow:    o.flow(c.i.depth()),
		Timeout: c.i.Timeout(), Keepalive: keepalive(d.Keepalive),
		Gather: c.gather(), SendQueue: c.sendQueue(), Checksum: d.Checksum, Check: d.Check,
		Number: uint16(c.i.numbers.Add(1)),
	}
}

func keepalive(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

func (c *conn) gather() int { return min(c.i.driver.config.WrqSge, c.dev.attr.MaxPieces) }

// sendQueue returns the number of work requests that the connection's queue pair has room for. The transfer of
// a payload with one fragment takes two or a few work requests. Transfers that need more than there is room for
// are posted in parts.
func (c *conn) sendQueue() int { return min(max(8*c.i.depth(), 64), c.dev.attr.MaxWR) }

// ref and unref count the users of the connection's memory; the last unref frees it. ref does nothing if the
// memory has been freed. c.mu is held for ref, and must not be held for unref.
func (c *conn) ref() {
	if c.refs > 0 {
		c.refs++
	}
}

// hold keeps the connection's memory until unref. It returns false if the memory has already been freed.
func (c *conn) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ref()
	return c.refs > 0
}

func (c *conn) unref() {
	c.mu.Lock()
	free := false
	if c.refs > 0 {
		c.refs--
		free = c.refs == 0
	}
	c.mu.Unlock()
	if free {
		c.free()
	}
}

// free frees the connection's memory, when its queue pair has been destroyed and the last user has called
// unref.
func (c *conn) free() {
	c.leaveHalfOpen()
	if !c.ours {
		c.i.CallerLeft(c.source.Addr())
	}
	if c.q != nil {
		c.q.leave(c)
		c.q.releaseEntries(c.entries)
	}
	if c.dev != nil {
		for _, list := range [...][]block{c.recvs, c.slots} {
			for _, b := range list {
				c.dev.local.release(b)
			}
		}
		c.recvs, c.slots = nil, nil
		c.dev.release()
	}
	c.i.Group.Done()
}

// leaveHalfOpen removes an inbound connection from Driver.halfOpen. It does nothing for a connection of this
// node.
func (c *conn) leaveHalfOpen() {
	if !c.ours {
		_ = c.i.driver.halfOpen.Leave(c.newcomer) // an evicted connection has already been closed
	}
}

// end marks the connection as ending because of f, unless it is already ending. c.mu is held.
func (c *conn) end(f *protocol.Failure) {
	if !c.ending {
		c.ending, c.failure = true, f
		c.dead.Store(true)
	}
}

// close ends the connection because of f. It does nothing if the connection is already ending.
func (c *conn) close(f *protocol.Failure) { c.closeFor(f, nil) }

// closeFor is close for a rejected attempt. d is what the protocol decides to do next.
func (c *conn) closeFor(f *protocol.Failure, d *protocol.Decision) {
	c.mu.Lock()
	if c.decision == nil && !c.ending {
		c.decision = d
	}
	if c.m == nil {
		c.end(f)
	} else {
		c.m.Close(f, &c.b)
		c.take(nil)
	}
	c.unlock()
}

// tick passes the current time to the state machine, which ends the connection after a timeout. It also closes
// an inbound connection that was not established in time.
func (c *conn) tick(now time.Time) {
	c.mu.Lock()
	if c.m == nil || c.ending {
		c.mu.Unlock()
		return
	}
	c.m.SetTimeout(c.i.Timeout())
	c.m.Tick(now, &c.b)
	if c.m.State() == protocol.PassiveWait && now.Sub(c.begun) > protocol.ConnectTimeout(c.i.Timeout()) {
		c.m.Close(&protocol.Failure{Health: protocol.NetworkTimeout, Errno: syscall.ETIMEDOUT, Err: errSlow}, &c.b)
	}
	c.take(nil)
	c.unlock()
}

// destroy destroys the queue pair of a connection that has ended. The device then no longer accesses any
// memory, so destroy completes the remaining messages. Only the keeper calls it.
func (c *conn) destroy() {
	if c.id != nil {
		c.id.Destroy()
	}
	c.mu.Lock()
	if c.m != nil {
		c.m.Flushed(&c.b)
		c.take(nil)
	}
	c.unlock()
	c.unref()
}

// alive returns when the peer last gave a sign of life on the connection, or the zero time.
func (c *conn) alive() (at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		at = c.m.Alive()
	}
	return at
}

func deviceFailure(err error) *protocol.Failure {
	return &protocol.Failure{Health: protocol.LocalDropped, Errno: syscall.EIO, Err: err}
}
