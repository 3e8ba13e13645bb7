package portals

import (
	"fmt"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Operation is the record of one operation on an MD: an arrived request or
// response, or a request that is made. Its owner embeds it in the record of
// the message, so that it costs no allocation, and may use it again once the
// operation has ended: by Drop, by a false or an error, or by Finish.
//
// The zero value is ready. The owner fills in what the message says before it
// hands the operation to the table, and leaves it alone while the table keeps
// it (Delay).
type Operation struct {
	// Event is what the MD's handler will see. The owner sets the fields that
	// the message tells of, the table those of the MD, and Type, Length and
	// Offset where matching decides them.
	Event Event
	// Owner is the record that the operation belongs to. The table does not
	// look at it.
	Owner any

	// Length is, of an arrived request, how many bytes it asks for: the
	// payload length of a PUT, the sink length of a GET.
	Length int
	// RemoteOffset is the offset that an arrived request names, 0 to 2^32-1.
	RemoteOffset int
	// Handle is where the answer to an arrived request belongs.
	Handle lnet.Handle
	// Aliases are other NIDs of the initiator's peer, whose primary one is
	// Event.Initiator.NID (lnet-core 4.2 step 5). The slice must not be
	// changed while the table keeps the operation.
	Aliases []lnet.NID
	// Gone, if it is not nil and holds true, keeps the operation from being
	// delayed. Who stores true and calls DropDelayed afterwards knows that
	// nothing is left waiting.
	Gone *atomic.Bool

	// Ack is a result of Match: an ACK is due when the PUT is complete.
	Ack bool
	// Departure says, when a request that has left ends, how it did; see Departure.
	Departure Departure

	// Issued is a result of TakeReply and TakeAck: when the request was made,
	// or 0 if it is not tracked, or not any more.
	Issued int64
	// Cause is a result of whatever gives the operation up: Match, Attach,
	// TakeReply and TakeAck.
	Cause Cause

	md       *md
	answered bool       // a request that asked for a response
	next     *Operation // of Operations
}

// Memory is the part of the MD's memory that an accepted or begun operation
// uses. It is empty once the operation has ended.
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
	if length == 0 { // which may be beyond the end
		return memory.Vector{}
	}
	return d.mem.Slice(offset, length)
}

// Handler is that of the MD of a begun operation, nil if it has none or the operation has
// ended.
func (o *Operation) Handler() Handler {
	if o.md == nil {
		return nil
	}
	return o.md.handler
}

// Operations is a FIFO of operations.
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

// join moves the operations of another queue to the end of this one.
func (q *Operations) join(o *Operations) {
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

// Next takes the oldest operation out and returns it, or nil if there is none.
func (q *Operations) Next() *Operation {
	o := q.head
	if o != nil {
		q.head, o.next = o.next, nil
		q.count--
	}
	return o
}

// Begin says what kind of request begins.
type Begin struct {
	// Type is MsgPut or MsgGet.
	Type lnet.MsgType
	// Response says that an ACK or a REPLY is asked for.
	Response bool
	// Track says that such a response is to be watched. The MD's options
	// TrackResponse and NoTrackResponse have the last word (lnet-core 6.4).
	Track bool
	// Now is the time, and Deadline until when the response must have come.
	Now, Deadline int64
	// Hop is the neighbour that the request goes to; see Rehop.
	Hop lnet.NID
}

// Begin starts a request from the bound MD h, whose whole memory it returns
// (lnet-core 6.1, 6.2). It takes one operation off the threshold. o's event
// becomes a SEND event as far as the MD and Begin tell; Finish ends it. The
// error is ErrNotFound if the MD is unknown, attached or used up; o has ended
// then.
func (t *Table) Begin(h lnet.Handle, o *Operation, b Begin) (memory.Vector, error) {
	d, _ := t.claim(h)
	if d == nil {
		return memory.Vector{}, fmt.Errorf("descriptor %s: %w", h, ErrNotFound)
	}
	d.spend()
	o.answered = b.Response
	if b.Response {
		if d.several = d.several || d.due > 0; d.due == 0 {
			d.departure, d.departed = Departure{}, false
		}
		d.due++
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

// Region returns the region of the first byte of the bound MD that h names, nil if there is none.
func (t *Table) Region(h lnet.Handle) *memory.Region {
	d, _ := t.claim(h)
	if d == nil {
		return nil
	}
	defer d.mu.Unlock()
	return d.mem.Region()
}

// Aborted tells whether Unlink was called for the MD of o, an operation that
// has not ended. A message that has not left by then must not.
func (t *Table) Aborted(o *Operation) bool {
	d := o.md
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.aborted
}

// claim returns the bound MD that h names and that has operations left, with
// its mu held; nil and why if there is none.
func (t *Table) claim(h lnet.Handle) (*md, Cause) {
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
		c = CauseUnasked
	case d.threshold == 0:
		c = CauseUsedUp
	default:
		return d, CauseNone
	}
	d.mu.Unlock()
	return nil, c
}

// TakeReply starts an arrived REPLY to the request that h names, with that
// many bytes of payload (lnet-core 5.5). If it returns false the message must
// be dropped, and o has ended. Else o.Event.Length bytes are wanted, in
// o.Memory(), and Finish ends o.
//
// Only an MD that a GET was made from takes a REPLY, though the handle be
// right: a peer that is sent a PUT cannot write into its memory. Kernels go by
// the handle alone.
func (t *Table) TakeReply(h lnet.Handle, o *Operation, payload int) bool {
	d, c := t.claim(h)
	if d == nil {
		o.Cause = c
		return false
	}
	length := min(payload, d.mem.Length)
	switch {
	case d.awaits&awaitReply == 0:
		c = CauseUnasked
	case payload < 0 || length < payload && d.options&Truncate == 0:
		c = CauseTooLong
	}
	if o.Cause = c; c != CauseNone {
		d.mu.Unlock()
		return false
	}
	o.Event.Type, o.Event.Length = EventReply, length
	d.take(o)
	return true
}

// TakeAck starts an arrived ACK of the PUT that h names (lnet-core 5.6). If it
// returns false the message must be dropped, and o has ended; else Finish ends
// it. Only an MD that a PUT with an ACK was made from takes an ACK.
func (t *Table) TakeAck(h lnet.Handle, o *Operation) bool {
	d, c := t.claim(h)
	if d == nil {
		o.Cause = c
		return false
	}
	if d.awaits&awaitAck == 0 {
		d.mu.Unlock()
		o.Cause = CauseUnasked
		return false
	}
	o.Event.Type = EventAck
	d.take(o)
	return true
}

// take makes o an operation on d. d.mu is held on entry and released.
func (d *md) take(o *Operation) {
	d.spend()
	o.Issued = 0
	if d.deadline.Load() != 0 {
		o.Issued = d.issued
	}
	o.answered = false
	o.md = d
	d.describe(&o.Event)
	d.mu.Unlock()
}

// Finish ends an accepted, taken or begun operation with its outcome, and
// delivers o.Event (lnet-core 3.4). An operation on an MD that was unlinked
// meanwhile ends with ErrTimedOut instead of nil.
func (t *Table) Finish(o *Operation, err error) {
	d := o.md
	e := &o.Event
	d.mu.Lock()
	d.refs--
	if err == nil && d.aborted {
		err = ErrTimedOut
	}
	e.Err = err
	if (e.Type == EventAck || e.Type == EventReply) && d.due > 0 {
		d.due--
	}
	if e.Type == EventSend && err == nil && o.answered {
		d.depart(o.Departure)
	}
	unlinkable := d.refs == 0 && (d.zombie || d.unlink && d.exhausted())
	if d.deadline.Load() != 0 && (unlinkable || d.answered() || d.refs == 0 && d.threshold < 0) {
		t.untrack(d)
	}
	if unlinkable {
		if !d.zombie {
			t.retire(d)
		}
		d.finish()
	}
	e.Unlinked = unlinkable
	o.md = nil
	t.deliver(d, e)
}

const (
	// waitingMax is how many events may wait for an MD's handler before
	// strangers can add no more.
	waitingMax = 16384
	// drainMax is how many events a goroutine delivers that were left to it,
	// before it hands the rest over.
	drainMax = 64
)

// queuedEvent is an event that waits for an earlier handler call of its MD to
// return.
type queuedEvent struct {
	event Event
	next  *queuedEvent
}

// deliver runs d's handler for e, or leaves a copy of e to whoever is running
// it at the moment. So a handler that makes further events of its MD does not
// recurse. d.mu is held on entry and released; d may be gone afterwards if e
// is its last event.
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

// drain runs d's handler h for e, if that is not nil, and then for the events that
// wait, until there are none or it is time to hand over. The caller is the one who
// set d.draining, or was handed it; d may be gone afterwards. Handlers run nowhere
// else, by which InHandler knows them.
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
