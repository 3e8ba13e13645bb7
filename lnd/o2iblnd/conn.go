package o2iblnd

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
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

// take removes from the batch what concerns the node: the request to disconnect, arrivals, withdrawals and
// completions. Completions go to dst or, if dst is nil, to the outbox. If the keeper is resting, take wakes it.
// c.mu is held.
func (c *conn) take(dst *events) {
	c.i.keeper.wakeResting()
	b := &c.b
	if b.Disconnect {
		b.Disconnect = false
		c.end(b.Failure)
	}
	for k := range b.Arrivals {
		c.inbox = append(c.inbox, c.newRx(b.Arrivals[k]))
		b.Arrivals[k] = nil
	}
	b.Arrivals = b.Arrivals[:0]
	for k, prx := range b.Withdrawn {
		r := prx.Owner.(*rx)
		switch {
		case r.state == rxReporting:
			r.gone = true
		case r.state == rxReported && !r.given:
			r.state = rxGone
			c.emit(peering.Event{Kind: evWithdrawn, Subject: r}, nil)
		}
		b.Withdrawn[k] = nil
	}
	b.Withdrawn = b.Withdrawn[:0]
	for k := range b.Done {
		d := &b.Done[k]
		t := d.Tx.Owner.(*tx)
		c.emit(peering.Event{Kind: evSent, Subject: t, Err: t.done(d)}, dst)
		*d = protocol.Done{}
	}
	b.Done = b.Done[:0]
	for k := range b.Placed {
		p := &b.Placed[k]
		r := p.Rx.Owner.(*rx)
		r.placed = true
		if p.Failure != nil && r.err == nil {
			r.err = c.p.i.failed("receive", c.p.ID.NID, p.Failure)
		}
		switch {
		case r.state == rxReporting: // reportArrivals checks placed afterwards
		case !r.given:
			c.recycle(r)
		default:
			c.emit(peering.Event{Kind: evReceived, Subject: r, Err: r.err}, dst)
		}
		*p = protocol.Placed{}
	}
	b.Placed = b.Placed[:0]
}

// emit adds an event to dst, or to the outbox if dst is nil. If the connection is ending, the event waits until
// the upcalls that report the end have been queued. c.mu is held.
func (c *conn) emit(e peering.Event, dst *events) {
	if e.Kind != evWithdrawn {
		c.ref()
	}
	switch {
	case c.ending && !c.lossReported:
		c.last = append(c.last, e)
	case dst != nil && !c.ending:
		*dst = append(*dst, e)
	default:
		c.i.Out.Put(e)
		c.outboxPending = true
	}
}

// end marks the connection as ending because of f, unless it is already ending. c.mu is held.
func (c *conn) end(f *protocol.Failure) {
	if !c.ending {
		c.ending, c.failure = true, f
		c.dead.Store(true)
	}
}

// unlock posts the batch, unless a worker collects more SENDs, and unlocks c.mu. It then does the work that
// must be done without the lock: if the connection is ending, it removes it from the peer, and it runs the
// outbox. The peer's lock is not held.
func (c *conn) unlock() {
	if c.corks == 0 || len(c.b.Sends) >= maxCorked {
		c.post()
	}
	lose := c.ending && !c.lost
	c.lost = c.lost || lose
	ring := c.outboxPending
	c.outboxPending = false
	c.mu.Unlock()
	if lose {
		c.p.lose(c)
	}
	if ring {
		c.i.Out.Run()
	}
}

// maxCorked is how many SENDs are collected while a worker processes a harvest. If there are more, they are
// posted before the end of the harvest.
const maxCorked = 32

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

// post posts the receives and SENDs of the batch by one call. If the connection is ending, it discards them.
// c.mu is held.
func (c *conn) post() {
	b, w := &c.b, &c.work
	if len(b.Receives)+len(b.Sends) == 0 {
		return
	}
	if c.ending {
		b.Reset()
		return
	}
	w.recvs, w.requests, w.pieces = w.recvs[:0], w.requests[:0], w.pieces[:0]
	for _, n := range b.Receives {
		w.recvs = append(w.recvs, c.recv(n))
	}
	for k := range b.Sends {
		c.prepare(&b.Sends[k])
	}
	if len(b.Sends) > 0 && c.inFlight == 0 {
		c.moved = time.Now()
	}
	c.inFlight += len(b.Sends)
	c.p.sent.Add(uint64(len(b.Sends)))
	b.Reset()
	if _, _, err := c.id.Post(w.recvs, w.requests, w.pieces); err != nil {
		c.m.Failed(-1, err, b)
		c.take(nil)
		b.Reset()
	}
}

// recv returns the work request for receive buffer n.
func (c *conn) recv(n int) verbs.Recv {
	b := &c.recvs[n]
	return verbs.Recv{WRID: wrRecv<<(3*fieldBits) | c.wr | uint64(n), Addr: b.addr(), Len: protocol.MaxMessage, LKey: b.mem.LKey()}
}

// prepare builds the work requests of a chain: RDMA WRITEs and the SEND that follows them.
func (c *conn) prepare(s *protocol.Send) {
	b, w := &c.b, &c.work
	for k := range s.Writes {
		wr := &b.Writes[s.First+k]
		r := verbs.Request{
			WRID: wrWrite<<(3*fieldBits) | c.wr, Remote: wr.Addr, RKey: wr.Key,
			First: uint16(len(w.pieces)), Count: uint16(wr.Pieces), Op: verbs.RDMAWrite,
		}
		for _, piece := range b.Pieces[wr.First : wr.First+wr.Pieces] {
			w.pieces = append(w.pieces, verbs.Piece{Addr: piece.Addr, Len: piece.Length, LKey: piece.Key})
		}
		if s.Part && k == s.Writes-1 {
			r.WRID, r.Flags = wrSend<<(3*fieldBits)|c.wr|uint64(s.Slot), verbs.FlagSignalled
		}
		w.requests = append(w.requests, r)
	}
	if s.Part {
		return
	}
	head := b.Head(s)
	buffer, n := &c.slots[s.Slot], len(head)
	if s.Payload != nil {
		t := s.Payload.Owner.(*tx)
		buffer, n = &t.buffer, len(head)+t.m.Payload.Length
	}
	bytes := buffer.bytes()[:n]
	copy(bytes, head)
	if v := c.i.driver.config.Checksum; v != protocol.NoChecksum && s.Payload != nil {
		protocol.Seal(bytes, byteOrder, v)
	}
	w.pieces = append(w.pieces, verbs.Piece{Addr: buffer.addr(), Len: uint32(n), LKey: buffer.mem.LKey()})
	w.requests = append(w.requests, verbs.Request{
		WRID: wrSend<<(3*fieldBits) | c.wr | uint64(s.Slot), First: uint16(len(w.pieces) - 1), Count: 1,
		Op: verbs.Send, Flags: verbs.FlagSignalled,
	})
}

// completion processes a completion of one of the connection's work requests. The worker of the completion
// queue calls it. b is the harvest.
func (c *conn) completion(now time.Time, wc *verbs.Completion, b *batch) {
	c.mu.Lock()
	if c.m == nil || c.refs == 0 {
		c.mu.Unlock()
		return
	}
	if !c.changed {
		c.changed = true
		c.corks++
		c.refs++
		b.touched = append(b.touched, c)
	}
	number := int(wc.WRID & fieldMask)
	kind := wc.WRID >> (3 * fieldBits)
	early := false
	switch {
	case c.ending:
	case wc.Status != verbs.Success:
		if kind != wrSend {
			number = -1
		}
		c.m.Failed(number, completionError(wc), &c.b)
	case kind == wrRecv:
		c.completions++
		data := c.recvs[number].bytes()[:wc.Bytes]
		c.i.counters.received(data)
		early = c.m.State() == protocol.PassiveWait
		c.m.Received(now, number, data, &c.b)
	case kind == wrSend:
		c.inFlight--
		c.completions++
		c.moved = now
		c.m.Completed(now, number, &c.b)
	}
	c.take(&b.events)
	arrived := len(c.inbox) > 0
	c.unlock()
	if early {
		_ = c.id.Established() // fails only if the connection is already established or has ended
	}
	for k := range b.events {
		c.i.make(&b.events[k])
		b.events[k] = peering.Event{}
	}
	b.events = b.events[:0]
	if arrived {
		c.reportArrivals()
	}
}

func completionError(wc *verbs.Completion) error {
	if wc.Vendor != 0 {
		return fmt.Errorf("%w (vendor error %#x)", statusError(wc.Status), wc.Vendor)
	}
	return statusError(wc.Status)
}

type statusError verbs.Status

func (s statusError) Error() string { return verbs.Status(s).String() }

// uncork posts the SENDs that were collected while the worker processed its harvest.
func (c *conn) uncork() {
	c.mu.Lock()
	c.changed = false
	c.corks--
	c.unlock()
	c.unref()
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

// submit sends m on the connection. It returns false if the connection has ended. In that case it has not used
// m, and the caller tries another connection. If no registered memory is available, m waits for it.
func (c *conn) submit(m *lnd.Tx) bool {
	if c.dead.Load() || !c.hold() { // t keeps this reference, because it uses the device's memory
		return false
	}
	t, err := c.newTx(m)
	if err != nil {
		t.drop()
		ended := c.dead.Load()
		c.unref()
		if !ended {
			c.i.prepareFailed(m, err)
		}
		return !ended
	}
	now := time.Now()
	c.mu.Lock()
	if c.ending || c.m.State() != protocol.Established {
		c.mu.Unlock()
		t.drop()
		c.unref()
		return false
	}
	c.m.SetTimeout(c.i.Timeout()) // the timeout may have changed since the last tick
	t.submit(now)
	c.take(nil)
	c.unlock()
	return true
}
