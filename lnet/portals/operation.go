package portals

import (
	"fmt"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Operation is the record of one operation on an MD: a request or response that has
// arrived, or a request of this node. The owner embeds it in the record of the message, so
// that it costs no allocation. The owner may reuse it when the operation has ended: by
// Drop, by a result of false, by an error, or by Finish.
//
// The zero value is ready for use. The owner sets the fields that the message determines
// before it passes the operation to the table, and must not use it while the table keeps it
// (Delay).
type Operation struct {
	// Event is passed to the MD's handler. The owner sets the fields that the message
	// determines. The table sets those that describe the MD, and Type, Length and Offset
	// where matching determines them.
	Event Event
	// Owner is the record that the operation belongs to. The table does not use it.
	Owner any

	// Length is the number of bytes that an arrived request asks for: the payload length of
	// a PUT, or the sink length of a GET.
	Length int
	// RemoteOffset is the offset in an arrived request, 0 to 2^32-1.
	RemoteOffset int
	// Handle is the handle to which the response to an arrived request goes.
	Handle lnet.Handle
	// Aliases are further NIDs of the peer whose primary NID is Event.Initiator.NID
	// (lnet-core 4.2 step 5). The slice must not be modified while the table keeps the
	// operation.
	Aliases []lnet.NID
	// Closing, if it is not nil and holds true, prevents the operation from being delayed.
	// After a caller has stored true and then called DropDelayed, no operation with this
	// Closing is waiting.
	Closing *atomic.Bool

	// Ack is set by Match. It reports that an ACK must be sent when the PUT is complete.
	Ack bool
	// Departure is set by the owner before Finish, if the request has left. See Departure.
	Departure Departure

	// Issued is set by BeginReply and BeginAck. It is the time of the request, or 0 if the
	// request is not tracked or no longer tracked.
	Issued int64
	// Cause is set by Match, Attach, BeginReply and BeginAck if they drop the operation.
	Cause Cause

	md            *md
	wantsResponse bool       // the request asked for a response
	next          *Operation // in Operations
}

// Memory returns the part of the MD's memory that an accepted or begun operation uses. It
// is empty when the operation has ended.
func (o *Operation) Memory() memory.Vector {
	d := o.md
	if d == nil {
		return memory.Vector{}
	}
	offset, length := o.Event.Offset, o.Event.Length
	switch o.Event.Type {
	case EventSend:
		return d.mem
	case EventAck:
		return memory.Vector{}
	case EventReply:
		offset = 0
	}
	if length == 0 { // offset may be beyond the end
		return memory.Vector{}
	}
	return d.mem.Slice(offset, length)
}

// Handler returns the handler of the MD of a begun operation. It returns nil if the MD has
// no handler or the operation has ended.
func (o *Operation) Handler() Handler {
	if o.md == nil {
		return nil
	}
	return o.md.handler
}

// Operations is a FIFO queue of operations.
type Operations struct {
	head, tail *Operation
	count      int
}

func (q *Operations) push(o *Operation) {
	o.next = nil
	if q.head == nil {
		q.head = o
	} else {
		q.tail.next = o
	}
	q.tail = o
	q.count++
}

// appendAll moves the operations of o to the end of q.
func (q *Operations) appendAll(o *Operations) {
	switch {
	case o.head == nil:
		return
	case q.head == nil:
		q.head = o.head
	default:
		q.tail.next = o.head
	}
	q.tail = o.tail
	q.count += o.count
	*o = Operations{}
}

// Next removes the oldest operation and returns it, or nil if q is empty.
func (q *Operations) Next() *Operation {
	o := q.head
	if o != nil {
		q.head, o.next = o.next, nil
		q.count--
	}
	return o
}

// Begin describes a request that begins.
type Begin struct {
	// Type is MsgPut or MsgGet.
	Type lnet.MsgType
	// Response reports whether an ACK or a REPLY is requested.
	Response bool
	// Track asks for the response to be tracked. The MD's options TrackResponse and
	// NoTrackResponse take precedence (lnet-core 6.4).
	Track bool
	// Now is the current time. Deadline is the time by which the response is due.
	Now, Deadline int64
	// NextHop is the neighbour that the request is sent to; see SetNextHop.
	NextHop lnet.NID
}

// Begin starts a request from the bound MD h and returns the MD's whole memory (lnet-core
// 6.1, 6.2). It counts one operation of the threshold, and makes o.Event a SEND event;
// Finish ends the operation. If the MD is unknown, attached or used up, the error is
// ErrNotFound and o has ended.
func (t *Table) Begin(h lnet.Handle, o *Operation, b Begin) (memory.Vector, error) {
	d, _ := t.lockBound(h)
	if d == nil {
		return memory.Vector{}, fmt.Errorf("bound MD %s: %w", h, ErrNotFound)
	}
	d.consume()
	o.wantsResponse = b.Response
	if b.Response {
		if d.severalOutstanding = d.severalOutstanding || d.outstanding > 0; d.outstanding == 0 {
			d.departure, d.hasDeparture = Departure{}, false
		}
		d.outstanding++
		if b.Type == lnet.MsgGet {
			d.awaits |= awaitReply
		} else {
			d.awaits |= awaitAck
		}
		if d.tracks(b.Track) {
			t.track(d, &b)
		}
	}
	memory := d.mem
	o.md = d
	e := &o.Event
	e.Type, e.MsgType = EventSend, b.Type
	e.Requested, e.Length = memory.Length, memory.Length
	d.describe(e)
	d.mu.Unlock()
	return memory, nil
}

// Region returns the region of the first byte of the bound MD h. It returns nil if the byte
// is in no region or h is not such an MD.
func (t *Table) Region(h lnet.Handle) *memory.Region {
	d, _ := t.lockBound(h)
	if d == nil {
		return nil
	}
	defer d.mu.Unlock()
	return d.mem.Region()
}

// Aborted reports whether Unlink was called for the MD of o, an operation that has not
// ended. If so, a message that has not left yet must not be sent.
func (t *Table) Aborted(o *Operation) bool {
	d := o.md
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.aborted
}

// lockBound returns the bound MD h, which has operations left, with its mu held. Otherwise it
// returns nil and the cause.
func (t *Table) lockBound(h lnet.Handle) (*md, Cause) {
	d := t.find(h)
	if d == nil {
		return nil, CauseNoMD
	}
	d.mu.Lock()
	var c Cause
	switch {
	case d.handle != h, d.zombie:
		c = CauseNoMD
	case d.portal != nil:
		c = CauseUnsolicited
	case d.threshold == 0:
		c = CauseUsedUp
	default:
		return d, CauseNone
	}
	d.mu.Unlock()
	return nil, c
}

// BeginReply starts the REPLY to a request from h, with the given payload size in bytes
// (lnet-core 5.5). If it returns false, o has ended and the message must be dropped.
// Otherwise the caller puts o.Event.Length bytes into o.Memory() and calls Finish.
//
// Only an MD that a GET was made from accepts a REPLY. A peer that receives a PUT therefore
// cannot write into the memory of the PUT by its handle. Kernels check the handle only.
func (t *Table) BeginReply(h lnet.Handle, o *Operation, payload int) bool {
	d, c := t.lockBound(h)
	if d == nil {
		o.Cause = c
		return false
	}
	length := min(payload, d.mem.Length)
	switch {
	case d.awaits&awaitReply == 0:
		c = CauseUnsolicited
	case payload < 0 || length < payload && d.options&Truncate == 0:
		c = CauseTooLong
	}
	if o.Cause = c; c != CauseNone {
		d.mu.Unlock()
		return false
	}
	o.Event.Type, o.Event.Length = EventReply, length
	d.startOperation(o)
	return true
}

// BeginAck starts the ACK of a PUT from h (lnet-core 5.6). If it returns false, o has ended
// and the message must be dropped. Otherwise the caller calls Finish. Only an MD that a PUT
// with an ACK was made from accepts an ACK.
func (t *Table) BeginAck(h lnet.Handle, o *Operation) bool {
	d, c := t.lockBound(h)
	if d == nil {
		o.Cause = c
		return false
	}
	if d.awaits&awaitAck == 0 {
		d.mu.Unlock()
		o.Cause = CauseUnsolicited
		return false
	}
	o.Event.Type = EventAck
	d.startOperation(o)
	return true
}

// startOperation makes o an operation on d. The caller holds d.mu, and startOperation releases it.
func (d *md) startOperation(o *Operation) {
	d.consume()
	o.Issued = 0
	if d.deadline.Load() != 0 {
		o.Issued = d.issued
	}
	o.wantsResponse = false
	o.md = d
	d.describe(&o.Event)
	d.mu.Unlock()
}

// Finish ends an accepted, taken or begun operation with the result err and delivers
// o.Event (lnet-core 3.4). If err is nil but the MD was unlinked during the operation, the
// event's error is ErrTimedOut.
func (t *Table) Finish(o *Operation, err error) {
	d := o.md
	e := &o.Event
	d.mu.Lock()
	d.refs--
	if err == nil && d.aborted {
		err = ErrTimedOut
	}
	e.Err = err
	if (e.Type == EventAck || e.Type == EventReply) && d.outstanding > 0 {
		d.outstanding--
	}
	if e.Type == EventSend && err == nil && o.wantsResponse {
		d.recordDeparture(o.Departure)
	}
	unlinkable := d.refs == 0 && (d.zombie || d.unlink && d.exhausted())
	if d.deadline.Load() != 0 && (unlinkable || d.answered() || d.refs == 0 && d.threshold < 0) {
		t.untrack(d)
	}
	if unlinkable {
		if !d.zombie {
			t.invalidate(d)
		}
		d.finish()
	}
	e.Unlinked = unlinkable
	o.md = nil
	t.deliver(d, e)
}

const (
	// waitingMax is the number of events waiting for an MD's handler at which requests from
	// peers are dropped.
	waitingMax = 16384
	// drainMax is the number of queued events that one goroutine delivers before it hands
	// the rest over.
	drainMax = 64
)

// queuedEvent is an event that waits for an earlier handler call of its MD to return.
type queuedEvent struct {
	event Event
	next  *queuedEvent
}

// deliver runs d's handler for e. If another goroutine is running the handler, or the
// caller is in it, deliver queues a copy of e instead, so a handler that causes events of
// its own MD does not recurse. The caller holds d.mu, and deliver releases it. If e is its
// last event, d may be recycled when deliver returns.
func (t *Table) deliver(d *md, e *Event) {
	if d.handler == nil {
		last := d.finished
		d.mu.Unlock()
		if last {
			t.freeMD(d)
		}
		return
	}
	if d.draining {
		q := t.events.Get().(*queuedEvent)
		q.event = *e
		if d.events == nil {
			d.events = q
		} else {
			d.eventsTail.next = q
		}
		d.eventsTail = q
		d.waiting++
		d.mu.Unlock()
		return
	}
	d.draining = true
	h := d.handler
	d.mu.Unlock()

	t.drain(d, h, e)
}

// drain runs d's handler h for e, unless e is nil, and then for the queued events. It
// returns when the queue is empty, or after it has handed the rest over. The caller has set
// d.draining, or was handed it. d may be recycled when drain returns. Handlers are called
// from drain only; InHandler depends on that.
//
//go:noinline
func (t *Table) drain(d *md, h Handler, e *Event) {
	if e != nil {
		h.HandleEvent(e)
	}
	for n := 0; ; n++ {
		d.mu.Lock()
		q := d.events
		if q == nil {
			d.draining = false
			last := d.finished
			d.mu.Unlock()
			if last {
				t.freeMD(d)
			}
			return
		}
		if n == drainMax && t.spawn != nil {
			d.mu.Unlock()
			t.spawn(func() { t.drain(d, nil, nil) })
			return
		}
		d.events = q.next
		d.waiting--
		h := d.handler
		d.mu.Unlock()
		h.HandleEvent(&q.event)
		t.freeEvent(q)
	}
}

func (t *Table) freeEvent(q *queuedEvent) {
	*q = queuedEvent{}
	t.events.Put(q)
}
