package simulation

import (
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// opKind is the kind of an operation.
type opKind uint8

const (
	opPlain opKind = iota // a PUT without acknowledgement
	opAcked               // a PUT with acknowledgement
	opFetch               // a GET
)

func (k opKind) String() string { return [...]string{"put", "put+ack", "get"}[k] }

// operation is one PUT or GET: its intended effect and its outcome.
type operation struct {
	number uint32 // low half of the match bits
	kind   opKind
	from   *life // set by launch
	to     *member
	target lnet.NID
	source lnet.NID // zero: any
	portal uint32
	tag    uint32 // the high half of the match bits
	offset int    // offset at the target
	length int
	stream stream // of a PUT's payload
	pieces int    // number of pieces of its memory
	// entry is the MD that must match the operation. If it is nil, any permanent MD of the portal may.
	entry *descriptor
	// never is set if no MD may match the operation.
	never bool
	// A GET must return contentLen bytes of the stream content, which begin at offset contentFrom.
	content     stream
	contentFrom int
	contentLen  int

	untracked bool          // MD option NoTrackResponse
	threshold int           // threshold of the MD; 0: as many operations as it needs, so that it unlinks itself
	linger    bool          // the program unlinks the MD after giveUp, and not when the operation is complete
	giveUp    time.Duration // delay after which the program unlinks the MD; 0: never
	late      time.Duration // delay after which the entry is posted
	response  *operation    // a PUT that the target's handler sends back, or nil
	answered  func()        // called by the target's handler, or nil

	// The following fields are guarded by world.mu.

	md     *descriptor
	handle lnet.Handle
	began  time.Duration
	sendBy time.Duration // deadline of the SEND event
	endBy  time.Duration // deadline of the MD's last event; 0: none

	refused   error // error of Put, Get or Bind
	sends     int
	sendErr   error
	delivered int // PUT or GET events at the target without an error
	broken    int // PUT or GET events at the target with an error
	takenLen  int
	takenAt   time.Duration
	acks      int
	replies   int
	stale     int  // number of answers to an operation of a former life with the same cookie
	expired   bool // the response tracker unlinked the MD
}

func (o *operation) String() string {
	return fmt.Sprintf("op %d (%v %v -> %v %v, portal %d, tag %d, offset %d, length %d)",
		o.number, o.kind, o.from, o.to, o.target, o.portal, o.tag, o.offset, o.length)
}

// bits returns the match bits.
func (o *operation) bits() uint64 { return uint64(o.tag)<<32 | uint64(o.number) }

// hdrData returns the header data of a PUT.
func (o *operation) hdrData() uint64 { return ^o.bits() }

// newOperation creates an operation with the next number. w.mu is not held.
func (w *world) newOperation(k opKind, to *member, target lnet.NID) *operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := &operation{kind: k, to: to, target: target, pieces: 1, number: uint32(len(w.ops) + 1)}
	w.ops = append(w.ops, o)
	o.stream = stream(w.seed<<32 | uint64(o.number))
	return o
}

// operationOf returns the operation with these match bits. w.mu is held.
func (w *world) operationOf(bits uint64) *operation {
	k := uint32(bits)
	if k == 0 || int(k) > len(w.ops) || w.ops[k-1].bits() != bits {
		return nil
	}
	return w.ops[k-1]
}

// launch sends o from the node: it binds an MD and calls Put or Get. It may be called by a handler. w.mu
// is not held.
func (l *life) launch(o *operation) {
	w := l.member.w
	d, h, err := l.bind(o)
	if err != nil {
		w.refuse(l, o, err)
		return
	}
	w.mu.Lock()
	o.from, o.handle, o.began = l, h, w.since()
	waits := time.Duration(0)
	if !o.target.IsLoopback() {
		waits = w.discoverWithin()
	}
	o.sendBy = o.began + w.sendWithin() + waits
	o.endBy = o.sendBy
	switch {
	case o.giveUp > 0:
		o.endBy = max(o.endBy, o.began+o.giveUp+w.driverWithin()+w.slack()+waits)
	case o.kind != opPlain:
		o.endBy = max(o.endBy, o.began+w.responseWithin()+waits)
	}
	o.md = d
	if w.byHandle[h] != nil {
		w.result.Faults[FaultDuplicateCookie]++
	}
	w.byHandle[h] = append(w.byHandle[h], o)
	w.result.Operations++
	w.mu.Unlock()
	w.addf("%v begins, md %d.%d", o, h.Interface, h.Object)

	to := lnet.ProcessID{NID: o.target, PID: lnet.PIDLustre}
	if o.kind == opFetch {
		err = l.node.Get(h, to, node.GetOptions{
			Source: o.source, Portal: o.portal, MatchBits: o.bits(), Offset: uint32(o.offset),
		})
	} else {
		err = l.node.Put(h, to, node.PutOptions{
			Source: o.source, Portal: o.portal, MatchBits: o.bits(), Offset: uint32(o.offset),
			HdrData: o.hdrData(), Ack: o.kind == opAcked,
		})
	}
	if err != nil {
		w.refuse(l, o, err)
		l.unlink(d)
		return
	}
	if o.giveUp > 0 {
		w.after(o.giveUp, func() { l.unlink(d) })
	}
}

// refuse records that Bind, Put or Get returned an error. That is a violation unless the node is
// closing.
func (w *world) refuse(l *life, o *operation, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.from, o.refused = l, err
	w.result.Refused++
	w.addf("%v refused: %v", o, err)
	if !l.ending {
		w.violate("%v: refused: %v", o, err)
	}
	if o.sends > 0 {
		w.violate("%v: refused, but there was an event", o)
	}
}

// unlink unlinks the MD unless it has ended or the node is closing. w.mu is not held.
func (l *life) unlink(d *descriptor) {
	w := l.member.w
	w.mu.Lock()
	if d.ended || l.ending {
		w.mu.Unlock()
		return
	}
	d.unlinked = true
	h := d.handle
	w.mu.Unlock()
	if err := l.node.Unlink(h); err != nil && !errors.Is(err, node.ErrNotFound) {
		w.violate("%v: unlink: %v", d, err)
	}
}

// sent checks and counts a SEND event. w.mu is held.
func (o *operation) sent(d *descriptor, e *portals.Event) {
	w, now := d.w, d.w.since()
	o.sends++
	o.sendErr = e.Err
	if o.sends > 1 {
		w.violate("%v: %d SEND events", o, o.sends)
	}
	if now > o.sendBy {
		w.violate("%v: SEND event %v after its deadline, err %v", o, now-o.sendBy, e.Err)
	}
	if e.MsgType != o.msgType() || e.Target.NID != o.target || e.Portal != o.portal ||
		e.MatchBits != o.bits() || e.Requested != o.length || e.Length != o.length || e.Offset != o.offset {
		w.violate("%v: SEND event %+v", o, *e)
	}
	if e.Err == nil {
		w.result.Sent++
	} else {
		w.result.SendFailed++
	}
}

// msgType returns the type of the request's message.
func (o *operation) msgType() lnet.MsgType {
	if o.kind == opFetch {
		return lnet.MsgGet
	}
	return lnet.MsgPut
}

// acked checks and counts an ACK event. It counts the ACK of a former life's operation as stale. w.mu is
// held.
func (o *operation) acked(d *descriptor, e *portals.Event) {
	w := d.w
	if e.Err != nil { // the ACK came after the MD was unlinked
		return
	}
	if e.MatchBits != o.bits() {
		for _, other := range w.byHandle[o.handle] {
			if other != o && other.kind == opAcked && e.MatchBits == other.bits() {
				o.stale++
				w.result.Faults[FaultStaleAnswer]++
				return
			}
		}
		if e.MatchBits == lnet.PingMatchBits && d.owner.restart != restartNew { // the ACK of a push that the former life sent
			o.stale++
			w.result.Faults[FaultStaleAnswer]++
			return
		}
		w.violate("%v: ACK event for match bits %#x", o, e.MatchBits)
		return
	}
	o.acks++
	w.result.Acks++
	switch {
	case o.kind != opAcked:
		w.violate("%v: an ACK, but the operation did not ask for one", o)
	case o.acks > 1:
		w.violate("%v: %d ACK events", o, o.acks)
	case o.delivered > 0 && e.Length != o.takenLen:
		w.violate("%v: ACK of %d bytes, %d were taken", o, e.Length, o.takenLen)
	}
}

// replied checks and counts a REPLY event. It counts the answer to a former life's request as stale.
// w.mu is held.
func (o *operation) replied(d *descriptor, e *portals.Event) {
	w := d.w
	if e.Length > 0 {
		d.taken = append(d.taken, span{0, e.Length})
	}
	if e.Err != nil {
		return
	}
	if err := o.answers(d, e); err != nil {
		for _, other := range w.byHandle[o.handle] {
			if other != o && other.kind == opFetch && other.answers(d, e) == nil {
				o.stale++
				w.result.Faults[FaultStaleAnswer]++
				return
			}
		}
		if d.holdsOldPing(e.Length) || d.holdsOldFetch(e.Length) {
			o.stale++
			w.result.Faults[FaultStaleAnswer]++
			return
		}
		w.violate("%v: REPLY event: %v", o, err)
		return
	}
	o.replies++
	w.result.Replies++
	if o.replies > 1 {
		w.violate("%v: %d REPLY events", o, o.replies)
	}
}

// holdsOldPing reports whether the first n bytes are the answer to a ping that a former life with the
// same cookie sent. Nodes send pings without a request by the program.
func (d *descriptor) holdsOldPing(n int) bool {
	if d.owner.restart == restartNew {
		return false
	}
	b := make([]byte, 0, n)
	d.memory.each(0, n, func(piece []byte, _ int) bool { b = append(b, piece...); return true })
	_, err := lnet.DecodePingInfo(b, lnet.InterfacesMax)
	return err == nil
}

// holdsOldFetch reports whether the first n bytes are data that a transfer machine of a former life with the
// same cookie fetched.
func (d *descriptor) holdsOldFetch(n int) bool {
	if d.owner.restart == restartNew || n < payloadMin {
		return false
	}
	c := d.w.payloadOf(d.memory.word())
	return c != nil && c.passive && d.memory.checkStream(0, n, c.stream, 0) == nil
}

// answers returns an error if the REPLY event e is not the answer to this operation.
func (o *operation) answers(d *descriptor, e *portals.Event) error {
	switch {
	case o.kind != opFetch:
		return errors.New("the operation requests no data")
	case o.never:
		return errors.New("no node can have answered")
	case e.Length != o.contentLen || e.Requested != o.contentLen:
		return fmt.Errorf("%d of %d bytes, not %d", e.Length, e.Requested, o.contentLen)
	}
	return d.memory.checkStream(0, o.contentLen, o.content, o.contentFrom)
}

// finished reports whether all events of the operation have come: its last event has come, its call
// failed, or its node was closed. w.mu is held.
func (o *operation) finished() bool {
	return o.refused != nil || o.from == nil || o.from.closed || o.sends > 0 && o.md.ended
}

// complete reports whether the SEND event and the answer, if any, have come. w.mu is held.
func (o *operation) complete() bool {
	switch o.kind {
	case opAcked:
		return o.sends > 0 && o.acks+o.stale > 0
	case opFetch:
		return o.sends > 0 && o.replies+o.stale > 0
	}
	return o.sends > 0
}
