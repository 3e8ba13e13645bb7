package node

import (
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
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

// MD describes memory for messages (lnet-core 2.2). The memory must stay
// as it is until the event with Unlinked, and, while messages use it, until
// each of them has had its event.
type MD struct {
	// Memory is the memory, at most 256 segments. Bytes, if it is not nil,
	// stands for Memory when that is one unregistered piece, and costs no
	// allocation. At most one of both may be given; neither is an empty MD.
	Memory lnd.Memory
	Bytes  []byte
	// Threshold is the number of operations allowed, or Unlimited. A PUT that
	// is acknowledged and a GET count twice: SEND, then ACK or REPLY.
	Threshold int
	// Unlink unlinks the MD when it is used up: by the threshold, or, with
	// MaxSize, when less than MaxSize bytes are left.
	Unlink bool
	// MaxSize bounds one request, with the option MaxSize.
	MaxSize int
	// Options are the options.
	Options MDOptions
	// Handler hears of events; nil: nobody does.
	Handler Handler
	// UserPtr is handed back in every event.
	UserPtr any
}

// md is a linked MD, with the match entry that it is attached to.
type md struct {
	mu sync.Mutex

	// Constant while the MD is linked.
	handle   lnet.Handle
	mem      lnd.Memory
	segment  [1]lnd.Segment // backs mem for MD.Bytes
	options  MDOptions
	maxSize  int
	unlink   bool
	handler  Handler
	userPtr  any
	portal   *portal // nil if bound
	match    lnet.ProcessID
	bits     uint64
	ignore   uint64
	chain    *md // handleShard's, guarded by it
	next     *md // portal's list, guarded by portal.mu
	previous *md

	// Guarded by mu.
	offset     int
	threshold  int
	refs       int  // messages that use the MD
	zombie     bool // unlinked: not to be found again
	aborted    bool // unlinked by Unlink
	finished   bool // the last event is queued, or was delivered
	draining   bool // somebody is running the handler
	events     *queuedEvent
	eventsTail *queuedEvent
	deadline   int64 // of the response awaited, 0: none; see Node.now
	issued     int64 // when the request was made
	awaits     uint8 // responses that a request has asked for: awaitAck, awaitReply
	due        int   // responses that have not come yet
}

// An ACK or REPLY is taken only by an MD that a request for one was made with,
// though its handle be right: a peer that is sent a PUT cannot write into its
// memory. Kernels take both.
const (
	awaitAck = 1 << iota
	awaitReply
)

// exhausted says that the MD can take no further operation. d.mu is held.
func (d *md) exhausted() bool {
	return d.threshold == 0 || d.options&MaxSize != 0 && d.offset+d.maxSize > d.mem.Length
}

// spend takes one operation and a reference. d.mu is held.
func (d *md) spend() {
	if d.threshold > 0 {
		d.threshold--
	}
	d.refs++
}

// describe fills in what an event tells of its MD. d.mu is held.
func (d *md) describe(e *Event) {
	e.MD = d.handle
	if e.Bytes = d.segment[0].Bytes; e.Bytes != nil {
		e.Memory = lnd.Memory{} // d.mem's segment will serve other MDs
	} else {
		e.Memory = d.mem
	}
	e.Options = d.options
	e.UserPtr = d.userPtr
}

// cut is the part of the MD's memory that an operation uses. Nothing lies
// beyond the end, where only empty requests can be.
func (d *md) cut(offset, length int) lnd.Memory {
	if length == 0 {
		return lnd.Memory{}
	}
	return d.mem.Slice(offset, length)
}

// Bind makes an MD to send from, or to get into. It neither matches requests
// nor may have OpPut or OpGet, and holds at most 1 MiB.
func (n *Node) Bind(c MD) (lnet.Handle, error) {
	if n.closing.Load() {
		return lnet.NoHandle, fmt.Errorf("bind: %w", ErrClosed)
	}
	if c.Options&(OpPut|OpGet) != 0 {
		return lnet.NoHandle, fmt.Errorf("bind: options %#x: a bound MD has no OpPut or OpGet: %w", uint32(c.Options), ErrInvalid)
	}
	d, err := n.newMD(&c)
	if err != nil {
		return lnet.NoHandle, fmt.Errorf("bind: %w", err)
	}
	if d.mem.Length > lnet.MTU {
		length := d.mem.Length
		n.freeMD(d)
		return lnet.NoHandle, fmt.Errorf("bind: length %d: more than %d bytes: %w", length, lnet.MTU, ErrInvalid)
	}
	h := d.handle
	if err := n.handles.insert(d); err != nil {
		n.freeMD(d)
		return lnet.NoHandle, fmt.Errorf("bind: %w", err)
	}
	return h, nil
}

// newMD checks c and makes an MD of it that nobody can find yet.
func (n *Node) newMD(c *MD) (*md, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	d := n.mds.Get().(*md)
	d.mu.Lock() // for those who still hold d from its former life
	defer d.mu.Unlock()
	d.handle = lnet.Handle{Interface: n.cookie, Object: n.nextObject()}
	d.mem = c.Memory
	if c.Bytes != nil {
		d.segment[0] = lnd.Segment{Bytes: c.Bytes}
		d.mem = lnd.Memory{Segments: d.segment[:], Length: len(c.Bytes)}
	}
	d.options = c.Options
	d.maxSize = c.MaxSize
	d.unlink = c.Unlink
	d.handler = c.Handler
	d.userPtr = c.UserPtr
	d.threshold = c.Threshold
	return d, nil
}

// check is the validation of lnet-core 2.2.
func (c *MD) check() error {
	m := &c.Memory
	if c.Bytes != nil {
		if m.Segments != nil || m.Length != 0 {
			return fmt.Errorf("both bytes and memory given: %w", ErrInvalid)
		}
		m = &lnd.Memory{Length: len(c.Bytes)}
	} else {
		if len(m.Segments) > lnet.MaxFragments {
			return fmt.Errorf("memory: %d segments: more than %d: %w", len(m.Segments), lnet.MaxFragments, ErrInvalid)
		}
		room := 0
		for i := range m.Segments {
			room += len(m.Segments[i].Bytes)
		}
		if m.Offset < 0 || m.Length < 0 || m.Offset > room-m.Length {
			return fmt.Errorf("memory: offset %d, length %d: beyond the %d bytes of its segments: %w",
				m.Offset, m.Length, room, ErrInvalid)
		}
	}
	if c.Threshold < Unlimited {
		return fmt.Errorf("threshold %d: %w", c.Threshold, ErrInvalid)
	}
	if c.Options&^mdOptionsKnown != 0 {
		return fmt.Errorf("options %#x: unknown: %w", uint32(c.Options&^mdOptionsKnown), ErrInvalid)
	}
	if c.Options&MaxSize != 0 && (c.MaxSize < 0 || c.MaxSize > m.Length) {
		return fmt.Errorf("max_size %d: not within 0 to %d: %w", c.MaxSize, m.Length, ErrInvalid)
	}
	return nil
}

// freeMD takes back an MD that nobody can find and nothing uses.
func (n *Node) freeMD(d *md) {
	d.mu.Lock()
	d.handle = lnet.NoHandle
	d.mem = lnd.Memory{}
	d.segment[0] = lnd.Segment{}
	d.handler, d.userPtr = nil, nil
	d.portal, d.chain = nil, nil
	d.match, d.bits, d.ignore = lnet.ProcessID{}, 0, 0
	d.offset, d.threshold, d.refs = 0, 0, 0
	d.zombie, d.aborted, d.finished = false, false, false
	d.events, d.eventsTail = nil, nil
	d.deadline, d.issued, d.awaits, d.due = 0, 0, 0, 0
	d.mu.Unlock()
	n.mds.Put(d)
}

// Unlink unlinks an MD: no further request finds it. Operations under way go
// on, messages that have not left yet are canceled. The MD's last event has
// Unlinked set: an UNLINK event if nothing is under way, which comes before
// Unlink returns unless a handler of the MD is running, else that of the last
// operation. Unlink never blocks.
func (n *Node) Unlink(h lnet.Handle) error {
	d := n.find(h)
	if d == nil {
		return fmt.Errorf("unlink %s: %w", h, ErrNotFound)
	}
	d.mu.Lock()
	p := d.portal
	ok := d.handle == h
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("unlink %s: %w", h, ErrNotFound)
	}
	if p != nil {
		p.mu.Lock()
	}
	d.mu.Lock()
	if d.handle != h || d.zombie {
		d.mu.Unlock()
		if p != nil {
			p.mu.Unlock()
		}
		return fmt.Errorf("unlink %s: %w", h, ErrNotFound)
	}
	d.aborted = true
	n.retire(d)
	n.untrack(d)
	if p != nil {
		p.remove(d)
		p.mu.Unlock()
	}
	if d.refs > 0 {
		d.mu.Unlock()
		return nil
	}
	d.finished = true
	e := Event{Type: EventUnlink, Unlinked: true}
	d.describe(&e)
	m := n.newMessage()
	m.event = e
	n.deliver(d, &m.event)
	n.freeMessage(m)
	return nil
}

// retire makes d a zombie, no longer to be found by its handle. d.mu is held.
func (n *Node) retire(d *md) {
	d.zombie = true
	n.handles.remove(d)
}

// track starts to wait for the response to a request made at now, or moves the
// deadline of the wait (lnet-core 6.4). d.mu is held.
func (n *Node) track(d *md, now int64) {
	if d.deadline == 0 {
		n.stats.trackers.Add(1)
	}
	d.deadline = now + int64(n.timeout)
	d.issued = now
}

// untrack ends the wait: when all responses have come, when the MD goes, or, as
// kernels do, when an unlimited one has nothing under way. (Kernels wait on for
// an MD with operations left, and unlink it though it was answered.) d.mu is
// held.
func (n *Node) untrack(d *md) {
	if d.deadline != 0 {
		d.deadline = 0
		n.stats.trackers.Add(-1)
	}
}

// finish ends an operation on m's MD and delivers m's event (lnet-core 3.4).
func (n *Node) finish(m *message, err error) {
	d := m.md
	e := &m.event
	d.mu.Lock()
	d.refs--
	if err == nil && d.aborted {
		err = ErrTimedOut
	}
	e.Err = err
	if d.deadline != 0 && err == nil {
		switch e.Type {
		case EventAck:
			m.sample(latencyPutAck, n.now()-d.issued)
		case EventReply:
			m.sample(latencyGetRTT, n.now()-d.issued)
		}
	}
	if e.Type == EventAck || e.Type == EventReply || e.Type == EventSend && err != nil && m.tx.Header.Handle != lnet.NoHandle {
		d.due = max(0, d.due-1)
	}
	unlinkable := d.refs == 0 && (d.zombie || d.unlink && d.exhausted())
	if unlinkable || d.due == 0 || d.refs == 0 && d.threshold < 0 {
		n.untrack(d)
	}
	if unlinkable {
		if !d.zombie {
			n.retire(d)
		}
		d.finished = true
	}
	e.Unlinked = unlinkable
	m.md = nil
	n.deliver(d, e)
}
