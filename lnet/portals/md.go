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
	// OpPut lets PUTs match; OpGet lets GETs match. Attached MDs have at
	// least one of them, others neither.
	OpPut MDOptions = 0x0001
	OpGet MDOptions = 0x0002
	// ManageRemote takes the offset from the request, not from the MD.
	ManageRemote MDOptions = 0x0004
	// Truncate shortens a request that is too long instead of dropping it.
	Truncate MDOptions = 0x0010
	// AckDisable keeps PUTs into the MD unacknowledged.
	AckDisable MDOptions = 0x0020
	// MaxSize makes MD.MaxSize valid.
	MaxSize MDOptions = 0x0080
	// TrackResponse and NoTrackResponse force response tracking on or off;
	// the second wins.
	TrackResponse   MDOptions = 0x0400
	NoTrackResponse MDOptions = 0x0800
	// Discard allows a driver to drop payload; none of ours does.
	Discard MDOptions = 0x4000
)

const mdOptionsKnown = OpPut | OpGet | ManageRemote | Truncate | AckDisable | MaxSize |
	TrackResponse | NoTrackResponse | Discard

// Unlimited is the threshold of an MD that takes any number of operations.
const Unlimited = -1

// MD describes memory for messages (lnet-core 2.2). The memory must stay valid
// until the handler has the event with Unlinked; an MD that is unlinked while
// operations are under way has that event with the last of them. Without a
// handler no call and no event tells when the memory is free again: Unlink may
// return while a driver still reads or fills it. It is then free when the table
// is closed and every operation has ended, as they have when the node that owns
// it is closed.
//
// The zero MD takes nothing: see Threshold.
type MD struct {
	// Memory is the memory, at most 256 segments, whose list must not change
	// while the MD is linked; segments of regions that were released are
	// ErrInvalid, and memory.ErrReleased. Bytes, if it is not nil,
	// stands for Memory when that is one unregistered piece, and costs no
	// allocation. At most one of both may be given; neither is an empty MD.
	Memory memory.Vector
	Bytes  []byte
	// Threshold is the number of operations allowed, or Unlimited. 0, which is
	// what a forgotten Threshold says, TAKES NOTHING: such an MD is valid and
	// has a handle, but is used up from the start. No request matches it,
	// none can be made from it, and it stays until Unlink even if Unlink is
	// set. A PUT that is acknowledged and a GET count twice: SEND, then ACK
	// or REPLY. Responses to an MD that sends are watched only if the threshold
	// is not Unlimited (lnet-core 6.4): else nothing tells that one will not come.
	Threshold int
	// Unlink unlinks the MD when it is used up: by the threshold, or, with
	// MaxSize, when less than MaxSize bytes are left.
	Unlink bool
	// MaxSize bounds one request, with the option MaxSize.
	MaxSize int
	// Options are the options.
	Options MDOptions
	// Handler hears of events; nil: nobody does, the end of the MD included.
	Handler Handler
	// UserPtr is handed back in every event.
	UserPtr any
}

// md is a linked MD, with the match entry that it is attached to. What a match
// looks at comes first and lies together: among a million entries every cache
// line is a miss.
type md struct {
	place place // guarded by portal.mu

	mu sync.Mutex

	// Guarded by mu.
	offset    int
	threshold int
	refs      int   // operations under way
	awaits    uint8 // responses that a request has asked for: awaitAck, awaitReply
	zombie    bool  // unlinked: not to be found again
	aborted   bool  // unlinked by Unlink
	finished  bool  // the last event is queued, or was delivered
	draining  bool  // somebody is running the handler, or is about to
	several   bool  // more than one response has been outstanding at a time

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
	claim   *Claim  // guarded by portal.mu; nil: under none
	chain   *md     // guarded by handleShard.mu

	// Guarded by mu.
	events     *queuedEvent // that wait for the handler, oldest first
	eventsTail *queuedEvent
	waiting    int          // how many they are
	due        int          // responses that have not come yet
	deadline   atomic.Int64 // of the response watched, 0: none; scans read it without mu
	issued     int64        // when the request was made
	hop        lnet.NID     // where it went
	departure  Departure    // of the requests outstanding, if they have one in common
	departed   bool         // one of them has left
}

// An ACK or REPLY is taken only if a request has asked for one.
const (
	awaitAck = 1 << iota
	awaitReply
)

// exhausted says that the MD can take no further operation. d.mu is held.
func (d *md) exhausted() bool {
	return d.threshold == 0 || d.options&MaxSize != 0 && (d.offset < 0 || d.offset > d.mem.Length-d.maxSize)
}

// left is how many bytes there are from offset on. An offset beyond the end,
// which wraps to a negative one where an int has 32 bits, leaves none
// (lnet-core 4.2, quirk).
func (d *md) left(offset int) int {
	if offset < 0 || offset > d.mem.Length {
		return 0
	}
	return d.mem.Length - offset
}

// room is how many bytes a request at offset may have (lnet-core 4.2 step 7).
// An in-range MaxSize can still lead past the end of the memory with
// ManageRemote, where kernels write on; here the end is the end.
func (d *md) room(offset int) int {
	if d.options&MaxSize != 0 {
		return min(d.maxSize, d.left(offset))
	}
	return d.left(offset)
}

// spend takes one operation and a reference. d.mu is held.
func (d *md) spend() {
	if d.threshold > 0 {
		d.threshold--
	}
	d.refs++
}

// apply lets d, which matches, take or drop o (lnet-core 4.2 steps 6 to 10).
// p.mu is held.
func (t *Table) apply(p *portal, d *md, o *Operation) Verdict {
	e := &o.Event
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting >= waitingMax {
		return o.drop(CauseBehind)
	}
	offset := d.offset
	if d.options&ManageRemote != 0 {
		offset = o.RemoteOffset
	}
	length, room := o.Length, d.room(offset)
	if length > room {
		if d.options&Truncate == 0 {
			return o.drop(CauseTooLong)
		}
		length = room
	}
	d.spend()
	d.offset = offset + length
	o.md = d
	o.answered = false
	o.Ack = e.Type == EventPut && d.options&AckDisable == 0 && o.Handle != lnet.NoHandle
	d.describe(e)
	e.Offset, e.Length = offset, length
	if d.exhausted() { // for good: nothing gives an attached MD operations or room
		p.leave(d)
		if d.unlink {
			t.retire(d)
		}
	}
	return Accept
}

// describe fills in what an event tells of its MD. d.mu is held.
func (d *md) describe(e *Event) {
	e.MD = d.handle
	if e.Bytes = d.segment[0].Bytes; e.Bytes != nil {
		e.Memory = memory.Vector{} // d.mem's segment will serve other MDs
	} else {
		e.Memory = d.mem
	}
	e.Options = d.options
	e.UserPtr = d.userPtr
}

// newMD makes an MD of c, which was checked, that nobody can find yet.
func (t *Table) newMD(c *MD) (*md, error) {
	if t.mds.New == nil {
		return nil, fmt.Errorf("table was not made by New: %w", ErrInvalid)
	}
	if err := c.Memory.Pin(); err != nil {
		return nil, fmt.Errorf("memory: %w: %w", err, ErrInvalid)
	}
	d := t.mds.Get().(*md)
	d.mu.Lock() // for those who still hold d from its former life
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

// finish says that d's last event is about to be delivered: nothing uses the
// memory any more. d.mu is held.
func (d *md) finish() {
	d.finished = true
	d.mem.Unpin()
}

// check is the validation of lnet-core 2.2. It returns the length of the
// memory.
func (c *MD) check() (length int, err error) {
	m := &c.Memory
	if c.Bytes != nil {
		if m.Segments != nil || m.Length != 0 {
			return 0, fmt.Errorf("both bytes and memory given: %w", ErrInvalid)
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
		return 0, fmt.Errorf("threshold %d: %w", c.Threshold, ErrInvalid)
	}
	if c.Options&^mdOptionsKnown != 0 {
		return 0, fmt.Errorf("options %#x: unknown: %w", uint32(c.Options&^mdOptionsKnown), ErrInvalid)
	}
	if c.Options&MaxSize != 0 && (c.MaxSize < 0 || c.MaxSize > m.Length) {
		return 0, fmt.Errorf("max_size %d: not within 0 to %d: %w", c.MaxSize, m.Length, ErrInvalid)
	}
	return m.Length, nil
}

// freeMD takes back an MD that nobody can find and nothing uses.
func (t *Table) freeMD(d *md) {
	d.mu.Lock()
	if !d.finished { // it was never linked
		d.mem.Unpin()
	}
	d.handle = lnet.NoHandle
	d.mem = memory.Vector{}
	d.segment[0] = memory.Segment{}
	d.handler, d.userPtr = nil, nil
	d.portal, d.claim, d.chain = nil, nil, nil
	d.offset, d.threshold, d.refs = 0, 0, 0
	d.zombie, d.aborted, d.finished, d.several = false, false, false, false
	d.events, d.eventsTail, d.waiting = nil, nil, 0
	d.deadline.Store(0)
	d.issued, d.hop, d.awaits, d.due = 0, lnet.NID{}, 0, 0
	d.mu.Unlock()
	t.mds.Put(d)
}
