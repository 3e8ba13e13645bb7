package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Position is the place of a new entry among those of its portal.
type Position uint8

const (
	// Before puts the entry before all others.
	Before Position = iota
	// After puts the entry after all others.
	After
	// Local is the same as After, because a portal here has one table.
	Local
)

// Entry determines which requests match an attached MD (lnet-core 2.1).
type Entry struct {
	// Portal is the portal number, 0 to 63. Portal 0 is reserved for LNet.
	Portal uint32
	// Match is the process whose requests match. Its NID is the sender's primary NID.
	// AnyNID and the zero NID match every NID; PIDAny and PID 0 match every PID. An entry
	// therefore cannot match PID 0 only. An entry with a NID, a PID and no IgnoreBits is
	// unique. All other entries are wildcards.
	Match lnet.ProcessID
	// MatchBits must equal those of the request, except where IgnoreBits has ones.
	MatchBits, IgnoreBits uint64
	// Position is the entry's place among those of its portal. Entries with IgnoreBits
	// always come before those without.
	Position Position
	// Claim, if it is not nil, must cover all match bits of the entry. If it is nil, the
	// entry may match no claimed bits.
	Claim *Claim
}

// matchID returns Match with wildcards in place of zeros.
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

// class returns the class of portal that e can be attached to (lnet-core 2.1 step 2).
func (e *Entry) class() portalClass {
	id := e.matchID()
	if e.IgnoreBits == 0 && !id.NID.IsAny() && id.PID != lnet.PIDAny {
		return classUnique
	}
	return classWildcard
}

// Attach creates an MD that requests to a portal can match. The MD must have OpPut, OpGet
// or both. Attach offers it the delayed PUTs of the portal (lnet-core 4.6). The caller must
// receive those in accepted and drop those in dropped. The error is ErrInvalid, ErrTaken,
// ErrPortalClass or ErrClosed.
//
// The first entry that is attached to a portal makes it a unique or a wildcard portal for
// good, even if that entry is removed or its MD is used up from the start. Attach is
// atomic: if it fails, it has attached neither entry nor MD, and the class of the portal is
// unchanged.
func (t *Table) Attach(e Entry, c MD) (h lnet.Handle, accepted, dropped Operations, err error) {
	h, accepted, dropped, err = t.attach(&e, &c)
	if err != nil {
		return lnet.NoHandle, Operations{}, Operations{}, fmt.Errorf("attach to portal %d: %w", e.Portal, err)
	}
	return h, accepted, dropped, nil
}

func (t *Table) attach(e *Entry, c *MD) (h lnet.Handle, accepted, dropped Operations, err error) {
	if e.Portal >= lnet.Portals {
		err = fmt.Errorf("the number must be below %d: %w", lnet.Portals, ErrInvalid) // Attach adds the portal number
		return h, accepted, dropped, err
	}
	if e.Position > Local {
		err = fmt.Errorf("position %d: not within 0 to %d: %w", e.Position, Local, ErrInvalid)
		return h, accepted, dropped, err
	}
	if c.Options&(OpPut|OpGet) == 0 {
		err = fmt.Errorf("options %#x: OpPut or OpGet must be set: %w", uint32(c.Options), ErrInvalid)
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
		accepted, dropped = t.offerDelayed(p, d)
	}
	p.mu.Unlock()
	if err != nil {
		t.freeMD(d)
	}
	return h, accepted, dropped, err
}

// link attaches the new MD d to p. p.mu is held.
func (t *Table) link(p *portal, d *md, e *Entry) error {
	class := e.class()
	switch {
	case p.closed:
		return ErrClosed
	case p.class != classNone && p.class != class:
		return ErrPortalClass
	}
	if err := p.checkClaims(e); err != nil {
		return err
	}
	d.mu.Lock() // a goroutine may still hold d from its former use
	d.portal = p
	d.mu.Unlock()
	if err := t.handles.insert(d); err != nil {
		return err
	}
	p.class = class
	p.addEntry(d, e)
	return nil
}

// Verdict is the result of matching a request.
type Verdict uint8

const (
	// Accept means that the operation has an MD, an offset and a length. The caller fills
	// or reads the operation's Memory, and then calls Finish.
	Accept Verdict = iota + 1
	// Drop means that the request must be dropped (lnet-core 4.5), for the reason in the
	// operation's Cause. The operation has ended.
	Drop
	// Delay means that the table keeps the PUT until an entry accepts it or it is dropped.
	// Another goroutine may already have the operation.
	Delay
)

// Match searches the entries of a portal for an arrived PUT or GET. The request is given by
// Type, Portal, MatchBits and Initiator of o.Event (lnet-core 4).
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
	case o.Closing != nil && o.Closing.Load():
		return o.drop(CauseClosed)
	case p.delayed.count >= delayedMax:
		return o.drop(CauseFull)
	}
	p.delayed.push(o)
	return Delay
}

// drop records the cause c, and returns Drop.
func (o *Operation) drop(c Cause) Verdict {
	o.Cause = c
	return Drop
}
