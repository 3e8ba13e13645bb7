package node

import (
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Position says where on its portal's list an entry goes.
type Position uint8

const (
	// Before is the head of the list.
	Before Position = iota
	// After is its tail.
	After
	// Local is After here, where a portal has one list.
	Local
)

// Entry says which requests an attached MD takes (lnet-core 2.1).
type Entry struct {
	// Portal is the portal, 0 to 63. Portal 0 is LNet's own.
	Portal uint32
	// Match is who may send: AnyNID and PIDAny stand for everybody, and so
	// does the zero value. The NID is the sender's primary one.
	Match lnet.ProcessID
	// MatchBits must equal the request's, but where IgnoreBits has ones.
	MatchBits, IgnoreBits uint64
	// Position is where the entry goes among those of its portal.
	Position Position
}

// matchID is Match with wildcards in place of the zero value.
func (e *Entry) matchID() lnet.ProcessID {
	if e.Match == (lnet.ProcessID{}) {
		return lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDAny}
	}
	return e.Match
}

// portalClass is fixed by the first entry that a portal ever gets.
type portalClass uint8

const (
	classNone portalClass = iota
	classUnique
	classWildcard
)

// verdict is what matching decided about a request.
type verdict uint8

const (
	verdictNone verdict = iota // no entry takes it
	verdictAccept
	verdictDrop
	verdictDelay
)

// portalTable is all that the node knows of matching: entries, the search, and
// PUTs that wait for an entry (lnet-core 4).
type portalTable struct {
	portals [lnet.Portals]portal
}

// portal is one portal: two lists in search order, and what waits.
type portal struct {
	mu     sync.Mutex
	class  portalClass
	lazy   bool
	closed bool
	// ignoring holds the entries with ignore bits; they beat those in exact,
	// whatever the order of attaching.
	ignoring, exact entryList
	delayed         messageQueue
}

// entryList is a doubly linked list through md.next and md.previous.
type entryList struct{ head, tail *md }

func (l *entryList) add(d *md, p Position) {
	switch {
	case l.head == nil:
		l.head, l.tail = d, d
	case p == Before:
		d.next, l.head.previous = l.head, d
		l.head = d
	default:
		d.previous, l.tail.next = l.tail, d
		l.tail = d
	}
}

func (l *entryList) remove(d *md) {
	if d.previous != nil {
		d.previous.next = d.next
	} else {
		l.head = d.next
	}
	if d.next != nil {
		d.next.previous = d.previous
	} else {
		l.tail = d.previous
	}
	d.next, d.previous = nil, nil
}

func (p *portal) list(d *md) *entryList {
	if d.ignore != 0 {
		return &p.ignoring
	}
	return &p.exact
}

// remove takes d off its list. p.mu is held.
func (p *portal) remove(d *md) { p.list(d).remove(d) }

// Attach makes an MD that requests to a portal find. It takes OpPut, OpGet or
// both. PUTs that wait on a lazy portal are offered to it before Attach
// returns, so that handlers may run meanwhile.
func (n *Node) Attach(e Entry, c MD) (lnet.Handle, error) {
	if n.closing.Load() {
		return lnet.NoHandle, fmt.Errorf("attach to portal %d: %w", e.Portal, ErrClosed)
	}
	h, err := n.attach(e, c)
	if err != nil {
		return lnet.NoHandle, fmt.Errorf("attach to portal %d: %w", e.Portal, err)
	}
	return h, nil
}

func (n *Node) attach(e Entry, c MD) (lnet.Handle, error) {
	if e.Portal >= lnet.Portals {
		return lnet.NoHandle, fmt.Errorf("portal %d: not below %d: %w", e.Portal, lnet.Portals, ErrInvalid)
	}
	if c.Options&(OpPut|OpGet) == 0 {
		return lnet.NoHandle, fmt.Errorf("options %#x: neither OpPut nor OpGet: %w", uint32(c.Options), ErrInvalid)
	}
	id := e.matchID()
	class := classWildcard
	if e.IgnoreBits == 0 && !id.NID.IsAny() && id.PID != lnet.PIDAny {
		class = classUnique
	}
	d, err := n.newMD(&c)
	if err != nil {
		return lnet.NoHandle, err
	}
	p := &n.portals.portals[e.Portal]
	h := d.handle

	p.mu.Lock()
	if p.class != classNone && p.class != class {
		p.mu.Unlock()
		n.freeMD(d)
		return lnet.NoHandle, ErrPortalClass
	}
	p.class = class
	d.mu.Lock()
	d.portal = p
	d.match, d.bits, d.ignore = id, e.MatchBits, e.IgnoreBits
	d.mu.Unlock()
	if err := n.handles.insert(d); err != nil {
		p.mu.Unlock()
		n.freeMD(d)
		return lnet.NoHandle, err
	}
	p.list(d).add(d, e.Position)
	accepted, dropped := n.offer(p, d)
	p.mu.Unlock()

	for m := accepted.pop(); m != nil; m = accepted.pop() {
		m.place()
	}
	for m := dropped.pop(); m != nil; m = dropped.pop() {
		m.dropArrival()
	}
	return h, nil
}

// offer offers the delayed messages to a new entry, in order, until it is
// exhausted (lnet-core 4.6). p.mu is held.
func (n *Node) offer(p *portal, d *md) (accepted, dropped messageQueue) {
	var kept messageQueue
	for m := p.delayed.pop(); m != nil; m = p.delayed.pop() {
		v := verdictNone
		if !d.zombie { // stable: p.mu is held
			v = p.try(n, d, m)
		}
		switch v {
		case verdictAccept:
			accepted.push(m)
		case verdictDrop:
			dropped.push(m)
		default:
			kept.push(m)
		}
	}
	p.delayed = kept
	return accepted, dropped
}

// match searches an arrived request's portal (lnet-core 4.3). With
// verdictAccept m has its MD, offset and length; with verdictDelay the portal
// keeps it.
func (t *portalTable) match(n *Node, m *message) verdict {
	if m.event.Portal >= lnet.Portals {
		return verdictDrop
	}
	p := &t.portals[m.event.Portal]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return verdictDrop
	}
	for _, l := range [...]*entryList{&p.ignoring, &p.exact} {
		for d := l.head; d != nil; d = d.next {
			if v := p.try(n, d, m); v != verdictNone {
				return v
			}
		}
	}
	if m.event.Type != EventPut || !p.lazy || m.ni.closing.Load() {
		return verdictDrop
	}
	p.delayed.push(m)
	return verdictDelay
}

// try tests one entry (lnet-core 4.2). p.mu is held.
func (p *portal) try(n *Node, d *md, m *message) verdict {
	e := &m.event
	if (d.bits^e.MatchBits)&^d.ignore != 0 {
		return verdictNone
	}
	op := OpPut
	if e.Type == EventGet {
		op = OpGet
	}
	if d.options&op == 0 {
		return verdictNone
	}
	if d.match.PID != lnet.PIDAny && d.match.PID != e.Initiator.PID {
		return verdictNone
	}
	if !d.match.NID.IsAny() && d.match.NID != e.Initiator.NID {
		return verdictNone
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.exhausted() {
		return verdictNone
	}
	offset := d.offset
	if d.options&ManageRemote != 0 {
		offset = m.remoteOffset
	}
	room := max(0, d.mem.Length-offset)
	if d.options&MaxSize != 0 {
		room = min(room, d.maxSize)
	}
	length := m.wanted
	if length > room {
		if d.options&Truncate == 0 {
			return verdictDrop
		}
		length = room
	}
	d.spend()
	d.offset = offset + length
	m.md = d
	m.ack = d.options&AckDisable == 0 && m.handle != lnet.NoHandle && op == OpPut
	d.describe(e)
	e.Offset, e.Length = offset, length
	if d.unlink && d.exhausted() {
		n.retire(d)
		p.remove(d)
	}
	return verdictAccept
}

// SetLazy makes PUTs that no entry takes wait on the portal, instead of being
// dropped. The connection that each came on waits with it.
func (n *Node) SetLazy(portal uint32) error {
	if portal >= lnet.Portals {
		return fmt.Errorf("portal %d: not below %d: %w", portal, lnet.Portals, ErrInvalid)
	}
	p := &n.portals.portals[portal]
	p.mu.Lock()
	p.lazy = true
	p.mu.Unlock()
	return nil
}

// ClearLazy undoes SetLazy and drops what waits on the portal.
func (n *Node) ClearLazy(portal uint32) error {
	if portal >= lnet.Portals {
		return fmt.Errorf("portal %d: not below %d: %w", portal, lnet.Portals, ErrInvalid)
	}
	p := &n.portals.portals[portal]
	p.mu.Lock()
	p.lazy = false
	delayed := p.delayed
	p.delayed = messageQueue{}
	p.mu.Unlock()
	for m := delayed.pop(); m != nil; m = delayed.pop() {
		m.dropArrival()
	}
	return nil
}

// dropDelayed drops the waiting messages that came over i; i is closing, so
// that no more come. A nil i stands for all NIs and closes the portals.
func (n *Node) dropDelayed(i *ni) {
	for k := range n.portals.portals {
		p := &n.portals.portals[k]
		var kept, dropped messageQueue
		p.mu.Lock()
		for m := p.delayed.pop(); m != nil; m = p.delayed.pop() {
			if i == nil || m.ni == i {
				dropped.push(m)
			} else {
				kept.push(m)
			}
		}
		p.delayed = kept
		p.closed = p.closed || i == nil
		p.mu.Unlock()
		for m := dropped.pop(); m != nil; m = dropped.pop() {
			m.dropArrival()
		}
	}
}

// place tells the driver where an accepted message's payload goes.
func (m *message) place() {
	p := lnd.Placement{Done: m}
	memory := m.md.cut(m.event.Offset, m.event.Length)
	switch {
	case m.event.Type == EventPut:
		p.Memory = memory
	case m.rx.RDMA:
		p.Reply = memory
	default: // the REPLY leaves when the GET is consumed
		m.tx.Payload = memory
	}
	m.ni.iface.Receive(m.rx, p)
}
