package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Position says where among its portal's entries an entry goes.
type Position uint8

const (
	// Before is ahead of all others.
	Before Position = iota
	// After is behind all others.
	After
	// Local is After here, where a portal is one table.
	Local
)

// Entry says which requests an attached MD takes (lnet-core 2.1).
type Entry struct {
	// Portal is the portal, 0 to 63. Portal 0 is LNet's own.
	Portal uint32
	// Match is who may send; the NID is the sender's primary one. AnyNID and
	// a zero NID stand for every NID, PIDAny and PID 0 for every PID, each by
	// itself: no entry can ask for PID 0 alone. An entry that names a NID and
	// a PID, and has no IgnoreBits, is unique; all others are wildcards.
	Match lnet.ProcessID
	// MatchBits must equal the request's, but where IgnoreBits has ones.
	MatchBits, IgnoreBits uint64
	// Position is where the entry goes among those of its portal. Entries
	// with IgnoreBits come before those without, wherever either goes.
	Position Position
	// Claim, if it is not nil, has all match bits that the entry takes. Without it the
	// entry may take none that somebody has claimed.
	Claim *Claim
}

// matchID is Match with wildcards in place of zeros.
func (e *Entry) matchID() lnet.ProcessID {
	id := e.Match
	if id.NID.IsZero() {
		id.NID = lnet.AnyNID
	}
	if id.PID == 0 {
		id.PID = lnet.PIDAny
	}
	return id
}

// class is the kind of portal that e belongs on (lnet-core 2.1 step 2).
func (e *Entry) class() portalClass {
	id := e.matchID()
	if e.IgnoreBits == 0 && !id.NID.IsAny() && id.PID != lnet.PIDAny {
		return classUnique
	}
	return classWildcard
}

// Attach makes an MD that requests to a portal find. It takes OpPut, OpGet or
// both. Delayed PUTs are offered to it at once: the caller receives those in
// accepted, and gives up those in dropped (lnet-core 4.6). Errors are
// ErrInvalid, ErrTaken, ErrPortalClass and ErrClosed.
//
// The first entry that a portal gets makes it one of unique entries or of
// wildcards for good, though the entry go or its MD be used up from the start.
// Entry and MD come as one here: an Attach that fails has attached neither,
// and decides nothing.
func (t *Table) Attach(e Entry, c MD) (h lnet.Handle, accepted, dropped Operations, err error) {
	h, accepted, dropped, err = t.attach(&e, &c)
	if err != nil {
		return lnet.NoHandle, Operations{}, Operations{}, fmt.Errorf("attach to portal %d: %w", e.Portal, err)
	}
	return h, accepted, dropped, nil
}

func (t *Table) attach(e *Entry, c *MD) (h lnet.Handle, accepted, dropped Operations, err error) {
	if e.Portal >= lnet.Portals {
		err = fmt.Errorf("not below %d: %w", lnet.Portals, ErrInvalid) // Attach names the portal
		return h, accepted, dropped, err
	}
	if e.Position > Local {
		err = fmt.Errorf("position %d: not within 0 to %d: %w", e.Position, Local, ErrInvalid)
		return h, accepted, dropped, err
	}
	if c.Options&(OpPut|OpGet) == 0 {
		err = fmt.Errorf("options %#x: neither OpPut nor OpGet: %w", uint32(c.Options), ErrInvalid)
		return h, accepted, dropped, err
	}
	if _, err = c.check(); err != nil {
		return h, accepted, dropped, err
	}
	d, err := t.newMD(c)
	if err != nil {
		return h, accepted, dropped, err
	}
	h = d.handle
	p := &t.portals[e.Portal]
	p.mu.Lock()
	err = t.link(p, d, e)
	if err == nil {
		accepted, dropped = t.offer(p, d)
	}
	p.mu.Unlock()
	if err != nil {
		t.freeMD(d)
	}
	return h, accepted, dropped, err
}

// link puts the new MD d on p. p.mu is held.
func (t *Table) link(p *portal, d *md, e *Entry) error {
	class := e.class()
	switch {
	case p.closed:
		return ErrClosed
	case p.class != classNone && p.class != class:
		return ErrPortalClass
	}
	if err := p.permits(e); err != nil {
		return err
	}
	d.mu.Lock() // for those who still hold d from its former life
	d.portal = p
	d.mu.Unlock()
	if err := t.handles.insert(d); err != nil {
		return err
	}
	p.class = class
	p.enter(d, e)
	return nil
}

// Verdict is what matching decided about a request.
type Verdict uint8

const (
	// Accept: the operation has an MD, an offset and a length; its Memory is
	// to be filled or read, and Finish ends it.
	Accept Verdict = iota + 1
	// Drop: the request is to be given up (lnet-core 4.5), for the reason in the
	// operation's Cause. The operation has ended.
	Drop
	// Delay: the table keeps the PUT until an entry takes it or it is
	// dropped. Another goroutine may have it by now.
	Delay
)

// Match searches an arrived PUT's or GET's portal, by o.Event's Type, Portal,
// MatchBits and Initiator (lnet-core 4).
func (t *Table) Match(o *Operation) Verdict {
	o.Cause = CauseNone
	e := &o.Event
	if e.Portal >= lnet.Portals {
		return o.drop(CauseNoPortal)
	}
	if o.Length < 0 {
		return o.drop(CauseTooLong)
	}
	p := &t.portals[e.Portal]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return o.drop(CauseClosed)
	}
	if d := p.index.first(o); d != nil {
		return t.apply(p, d, o)
	}
	switch {
	case e.Type != EventPut || !p.lazy:
		return o.drop(CauseNoMatch)
	case o.Gone != nil && o.Gone.Load():
		return o.drop(CauseClosed)
	case p.delayed.count >= delayedMax:
		return o.drop(CauseFull)
	}
	p.delayed.push(o)
	return Delay
}

// drop ends o for a cause.
func (o *Operation) drop(c Cause) Verdict {
	o.Cause = c
	return Drop
}
