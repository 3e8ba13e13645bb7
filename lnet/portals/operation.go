package portals

import (
	"fmt"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Operation is the record of one operation on an MD: a request or response that has
// arrived, or a request of this node. The owner of an operation, the caller of the table,
// embeds it in its own record of the message, which avoids an allocation. It may reuse the
// operation when that has ended: when a method returned Drop, false or an error, or when
// Finish was called.
//
// The zero value is ready for use. Before the owner passes the operation to the table, it
// sets the fields that the message determines. It must not use the operation while the
// table keeps it (Delay).
type Operation struct {
	// Event is the event that the MD's handler receives. The owner sets the fields that the
	// message determines. The table sets those that describe the MD, and sets Type, Length
	// and Offset if they result from matching.
	Event Event
	// Owner is the owner's record of the message. The table does not use it.
	Owner any

	// Length is the number of bytes that an arrived request asks for: the payload length of
	// a PUT, or the sink length of a GET.
	Length int
	// RemoteOffset is the offset in an arrived request, 0 to 2^32-1.
	RemoteOffset int
	// Handle is the handle in an arrived request, to which the response is addressed.
	Handle lnet.Handle
	// Aliases are further NIDs of the peer with the primary NID Event.Initiator.NID; an entry
	// matches if it has any of them (lnet-core 4.2 step 5). The slice must not be modified
	// while the table keeps the operation.
	Aliases []lnet.NID
	// Closing, if it is not nil and holds true, prevents the operation from waiting on a lazy
	// portal. The owner can store true and then call DropDelayed; after that, no operation
	// with this Closing is waiting.
	Closing *atomic.Bool

	// Ack is set by Match. It reports whether an ACK must be sent when the PUT is complete.
	Ack bool
	// Departure describes how the request was sent. The owner sets it before Finish if the
	// request was sent.
	Departure Departure

	// Issued is set by BeginReply and BeginAck. It is Begin.Now of the request, or 0 if the
	// response is not tracked or no longer tracked.
	Issued int64
	// Cause is the reason if Match, Attach, BeginReply or BeginAck drops the operation.
	Cause Cause

	md            *md
	wantsResponse bool       // the request of this node asked for an ACK or REPLY
	next          *Operation // used by Operations
}

// Memory returns the part of the MD's memory that the operation uses. It is empty when the
// operation has ended.
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

// Handler returns the handler of the operation's MD. It returns nil if the MD has no
// handler or the operation has ended.
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

// Next removes the oldest operation and returns it. It returns nil if q is empty.
func (q *Operations) Next() *Operation {
	o := q.head
	if o != nil {
		q.head, o.next = o.next, nil
		q.count--
	}
	return o
}

// Begin describes a request that starts.
type Begin struct {
	// Type is MsgPut or MsgGet.
	Type lnet.MsgType
	// Response reports whether the request asks for an ACK or a REPLY.
	Response bool
	// Track requests that the response is tracked. The MD's options TrackResponse and
	// NoTrackResponse take precedence (lnet-core 6.4).
	Track bool
	// Now is the current time. Deadline is the time by which the response is due.
	Now, Deadline int64
	// NextHop is the neighbour to which the request is sent. SetNextHop changes it.
	NextHop lnet.NID
}

// Begin starts a request from the bound MD h and returns the MD's whole memory (lnet-core
// 6.1, 6.2). It counts one operation of the threshold and makes o.Event a SEND event. The
// caller must end the operation with Finish. If the MD is unknown, attached or used up,
// the error is ErrNotFound, and o has ended.
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

// Region returns the memory region that contains the first byte of the bound MD h. It
// returns nil if that byte is in no region, or if h is no bound MD with operations left.
func (t *Table) Region(h lnet.Handle) *memory.Region {
	d, _ := t.lockBound(h)
	if d == nil {
		return nil
	}
	defer d.mu.Unlock()
	return d.mem.Region()
}

// Aborted reports whether Unlink was called for the MD of o. o must not have ended. If
// Aborted returns true, a message that was not sent yet must not be sent.
func (t *Table) Aborted(o *Operation) bool {
	d := o.md
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.aborted
}

// lockBound returns the bound MD h with its mu held. If h is no bound MD or is used up, it
// returns nil and the reason.
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

// BeginReply starts the REPLY to a request from the MD h, with a payload of the given
// number of bytes (lnet-core 5.5). If it returns true, the caller puts o.Event.Length
// bytes into o.Memory() and calls Finish. If it returns false, o has ended and the caller
// must drop the message.
//
// Only an MD from which a GET was made accepts a REPLY. Otherwise a peer that receives a
// PUT could use the handle in it to write into the memory of the PUT. Kernels check only
// the handle.
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

// BeginAck starts the ACK of a PUT from the MD h (lnet-core 5.6). If it returns true, the
// caller calls Finish. If it returns false, o has ended and the caller must drop the
// message. Only an MD from which a PUT with an ACK was made accepts an ACK.
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

// startOperation makes o an operation on d. The caller must hold d.mu; startOperation
// releases it.
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

// Finish ends an operation with the result err and delivers o.Event (lnet-core 3.4). The
// operation must have been accepted by Match or Attach, or started by Begin, BeginReply or
// BeginAck. If err is nil but Unlink was called during the operation, the event's error is
// ErrTimedOut.
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
	// waitingMax is the number of waiting events for an MD's handler from which requests of
	// peers to the MD are dropped.
	waitingMax = 16384
	// drainMax is the number of queued events that one goroutine delivers before it passes
	// the rest to another one.
	drainMax = 64
)

// queuedEvent is an event that waits until the handler has returned from earlier events of
// its MD.
type queuedEvent struct {
	event Event
	next  *queuedEvent
}

// deliver calls d's handler for e. If another goroutine is running the handler, or the
// handler itself is the caller, deliver only queues a copy of e. So a handler that causes
// further events of the same MD does not recurse. The caller must hold d.mu; deliver
// releases it. If e is the last event, d may have been recycled when deliver returns.
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

// drain calls d's handler h for e, unless e is nil, and then for the queued events. It
// returns when the queue is empty, or when it has passed the rest of the queue to another
// goroutine. d.draining must be set. d may have been recycled when drain returns. Handlers
// must be called from drain only, because InHandler depends on that.
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
