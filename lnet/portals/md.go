package portals

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// MDOptions are the options of a memory descriptor (lnet-core 2.2).
type MDOptions uint32

// The values are those of lnet-core 2.2.
const (
	// OpPut allows PUTs to use the MD, and OpGet allows GETs. An attached MD has at least one
	// of them, and a bound MD has neither.
	OpPut MDOptions = 0x0001
	OpGet MDOptions = 0x0002
	// ManageRemote makes requests use the offset that they contain, instead of the MD's own
	// offset.
	ManageRemote MDOptions = 0x0004
	// Truncate shortens a request that is longer than the remaining memory. Without it, such
	// a request is dropped.
	Truncate MDOptions = 0x0010
	// AckDisable suppresses the ACKs to PUTs into the MD.
	AckDisable MDOptions = 0x0020
	// MaxSize means that MD.MaxSize is used.
	MaxSize MDOptions = 0x0080
	// TrackResponse turns response tracking on for requests from the MD, and NoTrackResponse
	// turns it off, whatever the node's parameter is. If both are set, NoTrackResponse
	// applies.
	TrackResponse   MDOptions = 0x0400
	NoTrackResponse MDOptions = 0x0800
	// Discard allows a driver to discard payload. No driver of lnetd does.
	Discard MDOptions = 0x4000
)

const mdOptionsKnown = OpPut | OpGet | ManageRemote | Truncate | AckDisable | MaxSize |
	TrackResponse | NoTrackResponse | Discard

// Unlimited is the threshold of an MD that accepts any number of operations.
const Unlimited = -1

// MD describes memory for messages (lnet-core 2.2). The memory must stay valid until the
// handler has received the event with Unlinked set. If an MD is unlinked while operations
// are under way, the last of them delivers that event.
//
// Unlink may return while a driver still reads or writes the memory, so a program without
// a handler cannot find out when this ends. It can then reuse the memory only when the
// table is closed and every operation has ended, which is the case after the node that
// owns the table was closed.
//
// The zero MD accepts no operation; see Threshold.
type MD struct {
	// Memory is the memory, in at most 256 segments. The list of segments must not change
	// while the MD exists. If a segment belongs to a released region, the error matches
	// ErrInvalid and memory.ErrReleased. For a single unregistered slice, Bytes can be set
	// instead, which avoids allocating a list of segments. At most one of the two may be set.
	// If neither is set, the MD has no memory.
	Memory memory.Vector
	Bytes  []byte
	// Threshold is the number of operations that the MD accepts, or Unlimited.
	//
	// If it is 0, for example because it was not set, the MD ACCEPTS NO OPERATION. It is
	// valid and has a handle, but is used up from the start: no request matches it, and none
	// can be made from it. It exists until Table.Unlink, even if the field Unlink is set.
	//
	// A GET, and a PUT with an ACK, count as two operations: one for the SEND, and one for
	// the REPLY or ACK. If the threshold is Unlimited, responses are not tracked (lnet-core
	// 6.4), so no event reports that a response did not arrive.
	Threshold int
	// Unlink unlinks the MD automatically when it is used up: when Threshold operations have
	// begun, or with the option MaxSize, when less than MaxSize bytes of memory remain.
	Unlink bool
	// MaxSize is the maximum size of one request in bytes. It is used if the option MaxSize
	// is set.
	MaxSize int
	// Options is a combination of the options above.
	Options MDOptions
	// Handler is called for every event, including the last. If it is nil, events are
	// discarded.
	Handler Handler
	// UserPtr is returned in every event.
	UserPtr any
}

// md is an MD in the table, with the match entry by which it is attached. The fields that
// a match reads come first and are adjacent: with a million entries, each access to
// another cache line has to read main memory.
type md struct {
	indexEntry indexEntry // guarded by portal.mu

	mu sync.Mutex

	// Guarded by mu.
	offset             int
	threshold          int
	refs               int   // operations under way
	awaits             uint8 // kinds of responses that requests have asked for: awaitAck, awaitReply
	zombie             bool  // it was unlinked, and can no longer be found by its handle
	aborted            bool  // it was unlinked by Unlink, and not automatically
	finished           bool  // the last event is queued, or was delivered
	draining           bool  // a goroutine is running the handler, or is about to
	severalOutstanding bool  // more than one response has been outstanding at once

	// Constant while the MD is linked. handle and portal change under mu.
	unlink  bool
	options MDOptions
	maxSize int
	handle  lnet.Handle
	mem     memory.Vector
	segment [1]memory.Segment // backs mem for MD.Bytes
	userPtr any
	handler Handler
	portal  *portal // nil if bound
	claim   *Claim  // guarded by portal.mu; nil if none
	chain   *md     // guarded by handleShard.mu

	// Guarded by mu.
	events       *queuedEvent // events that wait for the handler, oldest first
	eventsTail   *queuedEvent
	waiting      int          // number of events in this queue
	outstanding  int          // responses that are outstanding
	deadline     atomic.Int64 // deadline of the tracked response, or 0; scans read it without mu
	issued       int64        // when the request was made
	nextHop      lnet.NID     // neighbour to which that request was sent
	departure    Departure    // departure of all outstanding requests, or zero if they differ
	hasDeparture bool         // departure is set
}

// Bits of md.awaits. An ACK or REPLY is accepted only if a request from the MD has asked
// for it.
const (
	awaitAck = 1 << iota
	awaitReply
)

// exhausted reports whether the MD is used up, so that it can accept no further operation.
// d.mu must be held.
func (d *md) exhausted() bool {
	return d.threshold == 0 || d.options&MaxSize != 0 && (d.offset < 0 || d.offset > d.mem.Length-d.maxSize)
}

// remaining returns the number of bytes from offset to the end of the memory. It returns 0
// if offset is beyond the end, or is negative because it overflowed a 32-bit int
// (lnet-core 4.2, quirk).
func (d *md) remaining(offset int) int {
	if offset < 0 || offset > d.mem.Length {
		return 0
	}
	return d.mem.Length - offset
}

// maxLength returns the maximum number of bytes of a request at offset (lnet-core 4.2 step
// 7). With ManageRemote, offset plus MaxSize may be beyond the end of the memory. Kernels
// then write past the end; the result of maxLength never exceeds the memory.
func (d *md) maxLength(offset int) int {
	if d.options&MaxSize != 0 {
		return min(d.maxSize, d.remaining(offset))
	}
	return d.remaining(offset)
}

// consume counts one operation and takes a reference to the MD. d.mu must be held.
func (d *md) consume() {
	if d.threshold > 0 {
		d.threshold--
	}
	d.refs++
}

// apply makes o an operation on d, which matches it, and returns Accept. If d cannot
// accept it, apply returns Drop (lnet-core 4.2 steps 6 to 10). p.mu must be held.
func (t *Table) apply(p *portal, d *md, o *Operation) Verdict {
	e := &o.Event
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting >= waitingMax {
		return o.drop(CauseBacklog)
	}
	offset := d.offset
	if d.options&ManageRemote != 0 {
		offset = o.RemoteOffset
	}
	length, room := o.Length, d.maxLength(offset)
	if length > room {
		if d.options&Truncate == 0 {
			return o.drop(CauseTooLong)
		}
		length = room
	}
	d.consume()
	d.offset = offset + length
	o.md = d
	o.wantsResponse = false
	o.Ack = e.Type == EventPut && d.options&AckDisable == 0 && o.Handle != lnet.NoHandle
	d.describe(e)
	e.Offset, e.Length = offset, length
	if d.exhausted() { // permanently: an attached MD never regains operations or room
		p.removeEntry(d)
		if d.unlink {
			t.invalidate(d)
		}
	}
	return Accept
}

// describe sets the fields of an event that describe its MD. d.mu must be held.
func (d *md) describe(e *Event) {
	e.MD = d.handle
	if e.Bytes = d.segment[0].Bytes; e.Bytes != nil {
		e.Memory = memory.Vector{} // d.segment will be reused for other MDs
	} else {
		e.Memory = d.mem
	}
	e.Options = d.options
	e.UserPtr = d.userPtr
}

// newMD returns a new MD made from c, which must be valid. The MD is not in the table yet.
func (t *Table) newMD(c *MD) (*md, error) {
	if t.mds.New == nil {
		return nil, fmt.Errorf("table was not made by New: %w", ErrInvalid)
	}
	if err := c.Memory.Pin(); err != nil {
		return nil, fmt.Errorf("memory: %w: %w", err, ErrInvalid)
	}
	d := t.mds.Get().(*md)
	d.mu.Lock() // a goroutine that found the former MD in this record may still use the lock
	defer d.mu.Unlock()
	d.handle = t.nextHandle()
	d.mem = c.Memory
	if c.Bytes != nil {
		d.segment[0] = memory.Segment{Bytes: c.Bytes}
		d.mem = memory.Vector{Segments: d.segment[:], Length: len(c.Bytes)}
	}
	d.options = c.Options
	d.maxSize = c.MaxSize
	d.unlink = c.Unlink
	d.handler = c.Handler
	d.userPtr = c.UserPtr
	d.threshold = c.Threshold
	return d, nil
}

// finish releases the MD's memory before the last event is delivered. No operation may use
// the memory any more. d.mu must be held.
func (d *md) finish() {
	d.finished = true
	d.mem.Unpin()
}

// check returns ErrInvalid if c is invalid (lnet-core 2.2). Otherwise it returns the
// length of the memory in bytes.
func (c *MD) check() (length int, err error) {
	m := &c.Memory
	if c.Bytes != nil {
		if m.Segments != nil || m.Length != 0 {
			return 0, fmt.Errorf("only one of Bytes and Memory may be set: %w", ErrInvalid)
		}
		m = &memory.Vector{Length: len(c.Bytes)}
	} else {
		if len(m.Segments) > lnet.MaxFragments {
			return 0, fmt.Errorf("memory: %d segments: more than %d: %w", len(m.Segments), lnet.MaxFragments, ErrInvalid)
		}
		room := 0
		for i := range m.Segments {
			room += len(m.Segments[i].Bytes)
		}
		if m.Offset < 0 || m.Length < 0 || m.Offset > room-m.Length {
			return 0, fmt.Errorf("memory: offset %d, length %d: beyond the %d bytes of its segments: %w",
				m.Offset, m.Length, room, ErrInvalid)
		}
	}
	if c.Threshold < Unlimited {
		return 0, fmt.Errorf("threshold %d: below %d (unlimited): %w", c.Threshold, Unlimited, ErrInvalid)
	}
	if c.Options&^mdOptionsKnown != 0 {
		return 0, fmt.Errorf("unknown options %#x: %w", uint32(c.Options&^mdOptionsKnown), ErrInvalid)
	}
	if c.Options&MaxSize != 0 && (c.MaxSize < 0 || c.MaxSize > m.Length) {
		return 0, fmt.Errorf("max_size %d: not within 0 to %d: %w", c.MaxSize, m.Length, ErrInvalid)
	}
	return m.Length, nil
}

// freeMD returns the record of an MD to the pool. The MD must not be in the table or in
// use.
func (t *Table) freeMD(d *md) {
	d.mu.Lock()
	if !d.finished { // d was never linked
		d.mem.Unpin()
	}
	d.handle = lnet.NoHandle
	d.mem = memory.Vector{}
	d.segment[0] = memory.Segment{}
	d.handler, d.userPtr = nil, nil
	d.portal, d.claim, d.chain = nil, nil, nil
	d.offset, d.threshold, d.refs = 0, 0, 0
	d.zombie, d.aborted, d.finished, d.severalOutstanding = false, false, false, false
	d.events, d.eventsTail, d.waiting = nil, nil, 0
	d.deadline.Store(0)
	d.issued, d.nextHop, d.awaits, d.outstanding = 0, lnet.NID{}, 0, 0
	d.mu.Unlock()
	t.mds.Put(d)
}
