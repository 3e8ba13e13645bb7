package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Position is the place of a new entry among the entries of its portal.
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
	// Match is the process whose requests match. Its NID is the sender's primary NID. AnyNID
	// and the zero NID match every NID; PIDAny and PID 0 match every PID. Therefore no entry
	// can match only PID 0. An entry with a NID and a PID but without IgnoreBits is unique;
	// all others are wildcard entries.
	Match lnet.ProcessID
	// MatchBits must equal the match bits of the request, except in the positions that are
	// set in IgnoreBits.
	MatchBits, IgnoreBits uint64
	// Position is the entry's place among those of its portal. However, entries with
	// IgnoreBits always come before entries without.
	Position Position
	// Claim, if it is not nil, must cover all match bits that the entry matches. If it is
	// nil, none of these bits may be claimed.
	Claim *Claim
}

// matchID returns Match with the wildcards AnyNID and PIDAny in place of zeros.
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

// class returns the class that a portal must have for e (lnet-core 2.1 step 2).
func (e *Entry) class() portalClass {
	id := e.matchID()
	if e.IgnoreBits == 0 && !id.NID.IsAny() && id.PID != lnet.PIDAny {
		return classUnique
	}
	return classWildcard
}

// Attach creates an MD that accepts requests on a portal, as the entry e defines. The MD
// must have OpPut, OpGet or both. Attach offers it the PUTs that wait on the portal
// (lnet-core 4.6). The caller must receive the PUTs in accepted and drop the PUTs in
// dropped. The error is ErrInvalid, ErrTaken, ErrPortalClass or ErrClosed.
//
// The first entry that is attached to a portal decides whether it is a unique or a
// wildcard portal. This never changes, even if that entry is removed or its MD was used up
// from the start. If Attach fails, it has attached neither the entry nor the MD, and has
// not decided the class of the portal.
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

// link attaches the new MD d to p. p.mu must be held.
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
	d.mu.Lock() // a goroutine that found the former MD in this record may still use the lock
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
	// Accept means that the MD has accepted the request. The operation then has an offset and
	// a length. The caller fills or reads the operation's Memory, and then calls Finish.
	Accept Verdict = iota + 1
	// Drop means that the request must be dropped (lnet-core 4.5). The operation's Cause is
	// the reason. The operation has ended.
	Drop
	// Delay means that the table keeps the PUT until an entry accepts it or it is dropped.
	// The caller must not use the operation any more, because Attach may already have
	// returned it to another goroutine.
	Delay
)

// Match searches the entries of a portal for an arrived PUT or GET (lnet-core 4). The
// caller describes the request by Type, Portal, MatchBits and Initiator of o.Event and by
// Length, RemoteOffset, Handle, Aliases and Closing of o.
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

// drop records c as the reason why o is dropped, and returns Drop.
func (o *Operation) drop(c Cause) Verdict {
	o.Cause = c
	return Drop
}
