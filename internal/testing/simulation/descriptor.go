package simulation

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// descriptor is an MD, and what the checker records about it. It is the handler of its MD.
type descriptor struct {
	w      *world
	owner  *life
	name   string
	memory *region

	// For MDs on a portal.
	portal    uint32
	options   portals.MDOptions
	maxSize   int
	only      *operation // the only operation that may match the MD; nil: any operation with its tag
	content   stream     // the data that GETs read from the memory
	tag       uint32
	postNext  func()      // called after the last event, to post the next MD
	inHandler atomic.Bool // HandleEvent is running

	// Guarded by world.mu.
	op       *operation // the operation that a bound MD belongs to; nil for an MD on a portal
	handle   lnet.Handle
	taken    []span // ranges that events report as written
	next     int    // offset for the next PUT to portalSlots
	unlinked bool   // the program called Unlink
	ended    bool   // the last event has come
	failed   bool   // Attach or Bind failed
}

// span is a range of bytes.
type span struct{ off, n int }

func (d *descriptor) String() string {
	return fmt.Sprintf("%v's %s (md %d)", d.owner, d.name, d.handle.Object)
}

// newDescriptor creates a descriptor with memory r. It sets the memory, the handler and the user pointer
// in md.
func (l *life) newDescriptor(name string, r *region, md *portals.MD) *descriptor {
	w := l.member.w
	d := &descriptor{w: w, owner: l, name: name, memory: r, options: md.Options, maxSize: md.MaxSize}
	r.describe(md)
	md.Handler = d
	md.UserPtr = d
	w.mu.Lock()
	w.descriptors = append(w.descriptors, d)
	w.mu.Unlock()
	return d
}

// attach posts the MD on a portal. It reports whether that succeeded; an error is a violation unless the
// node is closing.
func (l *life) attach(d *descriptor, e portals.Entry, md portals.MD) bool {
	w := l.member.w
	d.portal, d.tag = e.Portal, uint32(e.MatchBits>>32)
	h, err := l.node.Attach(e, md)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		d.failed = true
		if !l.ending {
			w.violate("%v: attach: %v", d, err)
		}
		return false
	}
	d.setHandle(h)
	return true
}

// bind creates and binds the MD from which o is sent, or into which o fetches.
func (l *life) bind(o *operation) (*descriptor, lnet.Handle, error) {
	w := l.member.w
	md := portals.MD{Unlink: true, Threshold: 1}
	switch {
	case o.threshold != 0:
		md.Threshold = o.threshold
	case o.kind != opPlain:
		md.Threshold = 2
	}
	if o.untracked {
		md.Options |= portals.NoTrackResponse
	}
	r := w.memory.region(o.length, o.pieces)
	if o.kind != opFetch {
		r.fill(o.stream)
	}
	d := l.newDescriptor(o.kind.String(), r, &md)
	d.op = o
	h, err := l.node.Bind(md)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		d.failed = true
		return d, h, err
	}
	d.setHandle(h)
	return d, h, nil
}

// setHandle stores the MD's handle. It records a violation if the MD had another handle, or if the
// node's interface cookie differs from that of earlier handles. w.mu is held.
func (d *descriptor) setHandle(h lnet.Handle) {
	if d.handle != (lnet.Handle{}) && d.handle != h {
		d.w.violate("%v: event for md %v", d, h)
	}
	d.handle = h
	switch l := d.owner; l.cookie {
	case h.Interface:
	case 0:
		l.cookie = h.Interface
	default:
		d.w.violate("%v: cookie %#x, was %#x", d, h.Interface, l.cookie)
	}
}

// HandleEvent implements portals.Handler.
func (d *descriptor) HandleEvent(e *portals.Event) {
	if d.inHandler.Swap(true) {
		d.w.violate("%v: two handler calls at once", d)
	}
	d.w.mu.Lock()
	next := d.event(e)
	d.w.mu.Unlock()
	d.inHandler.Store(false)
	if next != nil {
		next()
	}
}

// event checks an event. The caller must call the returned function, if it is not nil, after it has
// released w.mu, which it holds now.
func (d *descriptor) event(e *portals.Event) func() {
	w := d.w
	w.addf("%v: %v of %d of %d bytes at %d, bits %#x, from %v, unlinked %t, err %v",
		d, e.Type, e.Length, e.Requested, e.Offset, e.MatchBits, e.Source.NID, e.Unlinked, e.Err)
	d.setHandle(e.MD)
	if e.UserPtr != d {
		w.violate("%v: event %v has another's user pointer", d, e.Type)
	}
	if d.ended {
		w.violate("%v: event %v after the last", d, e.Type)
	}
	if d.owner.closed {
		w.violate("%v: event %v after the node's end", d, e.Type)
	}
	var next func()
	o := d.op
	switch {
	case e.Type == portals.EventUnlink:
		if !e.Unlinked || e.Err != nil && !errors.Is(e.Err, node.ErrRestarted) {
			w.violate("%v: event %+v", d, *e)
		}
		if o != nil && !d.unlinked {
			o.expired = true
			w.result.Expired++
			if o.complete() {
				w.violate("%v: unlinked as overdue, but it was answered", o)
			}
		}
	case e.Type == portals.EventSend && o != nil:
		o.sent(d, e)
	case e.Type == portals.EventAck && o != nil:
		o.acked(d, e)
	case e.Type == portals.EventReply && o != nil:
		o.replied(d, e)
	case (e.Type == portals.EventPut || e.Type == portals.EventGet) && o == nil:
		next = d.request(e)
	default:
		w.violate("%v: event %v", d, e.Type)
	}
	if o != nil && !e.Unlinked && (o.sendErr != nil || o.threshold != 0 && !o.linger && o.complete()) {
		next = func() { d.owner.unlink(d) }
	}
	if e.Unlinked {
		d.ended = true
		if o != nil && w.since() > o.endBy {
			w.violate("%v: ended %v after its deadline", o, w.since()-o.endBy)
		}
		if d.postNext != nil && !d.unlinked && !w.stopped {
			return both(next, d.postNext)
		}
	}
	return next
}

func both(f, g func()) func() {
	if f == nil {
		return g
	}
	return func() { f(); g() }
}

// request checks and counts a PUT or GET event, and returns a function to call without w.mu, or nil.
// w.mu is held.
func (d *descriptor) request(e *portals.Event) func() {
	w := d.w
	o := w.operationOf(e.MatchBits)
	if o == nil {
		w.violate("%v: %v of no known operation, match bits %#x", d, e.Type, e.MatchBits)
		return nil
	}
	if err := d.mayTake(o, e); err != nil {
		w.violate("%v took %v: %v; event %+v", d, o, err, *e)
		return nil
	}
	if o.delivered+o.broken > 0 {
		w.violate("%v took %v, which was delivered before: %d times, %d times in part", d, o, o.delivered, o.broken)
	}
	for _, s := range d.taken {
		if o.kind != opFetch && s.off < e.Offset+e.Length && e.Offset < s.off+s.n {
			w.violate("%v took %v at %d+%d, where %d+%d was taken", d, o, e.Offset, e.Length, s.off, s.n)
		}
	}
	if o.kind != opFetch {
		d.taken = append(d.taken, span{e.Offset, e.Length})
	}
	// An MD that the program has unlinked reports no success, even if the operation succeeded (lnet-core
	// 2.2).
	if e.Err != nil && (!d.unlinked || !errors.Is(e.Err, node.ErrTimedOut)) {
		o.broken++
		w.result.Broken++
		return nil
	}
	o.delivered++
	o.takenLen = e.Length
	o.takenAt = w.since()
	if e.Length < o.length {
		w.result.Truncated++
	}
	if o.kind == opFetch {
		w.result.Gets++
	} else {
		w.result.Puts++
		if err := d.memory.checkStream(e.Offset, e.Length, o.stream, 0); err != nil {
			w.violate("%v took %v: %v", d, o, err)
		}
	}
	if f := o.answered; f != nil {
		return f
	}
	if r := o.response; r != nil && !w.stopped {
		return func() { d.owner.launch(r) }
	}
	return nil
}

// mayTake returns an error if operation o must not match this MD, or if event e does not describe o.
func (d *descriptor) mayTake(o *operation, e *portals.Event) error {
	if o.from == nil {
		return errors.New("was never made")
	}
	w, from := d.w, o.from.member
	fromNID := func(nid lnet.NID) bool {
		if o.target.IsLoopback() {
			return nid.IsLoopback()
		}
		return from.has(nid)
	}
	switch {
	case o.never:
		return errors.New("nothing may take it")
	case o.to != d.owner.member:
		return errors.New("meant for another node")
	case o.portal != d.portal || e.Portal != d.portal:
		return errors.New("wrong portal")
	case o.entry != d && (o.entry != nil || d.only != nil):
		return errors.New("meant for another descriptor")
	case o.tag != d.tag:
		return errors.New("wrong tag")
	case (e.Type == portals.EventGet) != (o.kind == opFetch) || e.MsgType != o.msgType():
		return errors.New("wrong type")
	case e.Type == portals.EventPut && e.HdrData != o.hdrData():
		return errors.New("wrong hdr_data")
	case !fromNID(e.Source.NID) || !fromNID(e.Initiator.NID) || !fromNID(e.Sender) && !w.isRouterNID(e.Sender):
		return errors.New("wrong source")
	case !o.target.IsLoopback() && !o.to.has(e.Target.NID):
		return errors.New("wrong target")
	case e.Initiator.PID != lnet.PIDLustre || e.Source.PID != lnet.PIDLustre:
		return errors.New("wrong PID")
	}
	requested := o.length
	if e.Type == portals.EventGet {
		requested = 0
	}
	if e.Requested != requested {
		return fmt.Errorf("rlength %d, not %d", e.Requested, requested)
	}
	return d.mayHold(o, e)
}

// mayHold returns an error if offset and length of the event are not those that lnet-core 4.2
// prescribes.
func (d *descriptor) mayHold(o *operation, e *portals.Event) error {
	offset := e.Offset
	if d.options&portals.ManageRemote != 0 {
		offset = o.offset
	}
	room := max(0, d.memory.n-offset)
	if d.options&portals.MaxSize != 0 {
		room = min(room, d.maxSize)
	}
	want := min(o.length, room)
	switch {
	case offset != e.Offset:
		return fmt.Errorf("offset %d, not %d", e.Offset, offset)
	case o.length > room && d.options&portals.Truncate == 0:
		return fmt.Errorf("%d bytes where there is room for %d", o.length, room)
	case e.Length != want:
		return fmt.Errorf("mlength %d, not %d", e.Length, want)
	}
	return nil
}

// check records a violation if the memory has changed, apart from what events reported. It is called at
// the end of the scenario.
func (d *descriptor) check() {
	w := d.w
	if err := d.memory.checkGuards(); err != nil {
		w.violate("%v: %v", d, err)
	}
	if o := d.op; o != nil && o.kind != opFetch {
		if err := d.memory.checkStream(0, d.memory.n, o.stream, 0); err != nil {
			w.violate("%v: the source of %v has changed: %v", d, o, err)
		}
		return
	}
	if d.options&portals.OpGet != 0 {
		if err := d.memory.checkStream(0, d.memory.n, d.content, 0); err != nil {
			w.violate("%v: content has changed: %v", d, err)
		}
		return
	}
	err := d.checkUntaken(d.memory.checkBlank)
	if err != nil && d.mayHoldAnswer() && d.checkUntaken(d.holdsAnswer) == nil {
		return
	}
	if err != nil {
		w.violate("%v: beside what was taken, %v", d, err)
	}
}

// mayHoldAnswer reports whether the memory of a GET may contain the answer although no REPLY event
// reported it. Over RDMA the peer writes the answer directly to the memory, even if the MD was unlinked
// before or received the answer to an operation of a former life instead.
func (d *descriptor) mayHoldAnswer() bool {
	o := d.op
	return d.w.verbs.rails != nil && o != nil && !o.never && o.replies == 0
}

// holdsAnswer returns an error unless the n bytes at offset at are the answer, as far as it reaches, and
// unchanged bytes after it.
func (d *descriptor) holdsAnswer(at, n int) error {
	o := d.op
	inside := min(max(o.contentLen-at, 0), n)
	return errors.Join(d.memory.checkStream(at, inside, o.content, o.contentFrom+at), d.memory.checkBlank(at+inside, n-inside))
}

// checkUntaken calls check for each range that no event reports as written, and returns the first error.
// Reported ranges may overlap, because an MD may receive the answer to an operation of a former life and
// its own answer.
func (d *descriptor) checkUntaken(check func(at, n int) error) error {
	for at := 0; at < d.memory.n; {
		end, next := at, d.memory.n // end of the current range; start of the next taken one
		for _, s := range d.taken {
			switch {
			case s.off <= at:
				end = max(end, s.off+s.n)
			case s.n > 0:
				next = min(next, s.off)
			}
		}
		if end > at {
			at = end
			continue
		}
		if err := check(at, next-at); err != nil {
			return err
		}
		at = next
	}
	return nil
}
