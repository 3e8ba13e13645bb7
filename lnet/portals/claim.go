package portals

import "fmt"

// Claim is match bits of a portal that somebody has to himself. Table.Claim makes it.
// Entries that take some of them are attached under it (Entry.Claim) or not at all. It
// costs messages nothing, and an Attach without it a look at each claim on the portal.
type Claim struct {
	portal       *portal
	number       uint32
	bits, ignore uint64

	// Guarded by portal.mu.
	held    bool
	entries int // under it that can still take a request
}

// Portal is the number of the portal.
func (c *Claim) Portal() uint32 { return c.number }

// meets tells whether there are match bits that both c and an entry, or another claim,
// take.
func (c *Claim) meets(bits, ignore uint64) bool { return meet(c.bits, c.ignore, bits, ignore) }

func meet(a, ignoreA, b, ignoreB uint64) bool { return (a^b)&^(ignoreA|ignoreB) == 0 }

// covers tells whether c has all match bits that e takes.
func (c *Claim) covers(e *Entry) bool {
	return e.IgnoreBits&^c.ignore == 0 && c.meets(e.MatchBits, 0)
}

// Claim gives the caller the match bits that equal bits but where ignore has ones, on
// one portal, until Release. As an entry would it makes the portal one of wildcards.
// ErrTaken: an entry there takes some of them, somebody has claimed some, or the portal
// is lazy, so that messages for entries that have gone would wait; ErrPortalClass;
// ErrInvalid: there is no such portal; ErrClosed.
func (t *Table) Claim(portal uint32, bits, ignore uint64) (*Claim, error) {
	c, err := t.claimBits(portal, bits, ignore)
	if err != nil {
		return nil, fmt.Errorf("claim %#x of portal %d: %w", bits, portal, err)
	}
	return c, nil
}

func (t *Table) claimBits(portal uint32, bits, ignore uint64) (*Claim, error) {
	if portal >= uint32(len(t.portals)) {
		return nil, ErrInvalid
	}
	p := &t.portals[portal]
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.class == classUnique:
		return nil, ErrPortalClass
	case p.lazy:
		return nil, fmt.Errorf("the portal is lazy: %w", ErrTaken)
	}
	for _, c := range p.claims {
		if c.meets(bits, ignore) {
			return nil, ErrTaken
		}
	}
	if p.unclaimed > 0 && p.index.meets(bits, ignore) {
		return nil, ErrTaken
	}
	p.class = classWildcard
	c := &Claim{portal: p, number: portal, bits: bits &^ ignore, ignore: ignore, held: true}
	p.claims = append(p.claims, c)
	return c, nil
}

// Release gives the match bits back, and tells whether c had them still. Entries that
// were attached under it go on, as if they had been attached without.
func (c *Claim) Release() bool {
	p := c.portal
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.held {
		return false
	}
	c.held = false
	p.unclaimed += c.entries
	last := len(p.claims) - 1
	for k, d := range p.claims {
		if d == c {
			p.claims[k], p.claims[last] = p.claims[last], nil
			p.claims = p.claims[:last]
			break
		}
	}
	return true
}

// permits is nil unless somebody has claimed what e would take. p.mu is held.
func (p *portal) permits(e *Entry) error {
	if c := e.Claim; c != nil {
		if c.portal != p || !c.held || !c.covers(e) {
			return fmt.Errorf("not within the claim: %w", ErrInvalid)
		}
		return nil
	}
	for _, c := range p.claims {
		if c.meets(e.MatchBits, e.IgnoreBits) {
			return ErrTaken
		}
	}
	return nil
}

// enter gives d, attached as e says, a place among those that can take a request, and
// leave takes it from there. p.mu is held.
func (p *portal) enter(d *md, e *Entry) {
	d.claim = e.Claim
	if p.index.add(d, e); d.place.shape != nil {
		p.count(d, 1)
	}
}

func (p *portal) leave(d *md) {
	if d.place.shape != nil {
		p.index.remove(d)
		p.count(d, -1)
	}
}

func (p *portal) count(d *md, n int) {
	if c := d.claim; c != nil && c.held {
		c.entries += n
	} else {
		p.unclaimed += n
	}
}

// meets tells whether an entry takes some of the match bits.
func (x *index) meets(bits, ignore uint64) bool {
	for _, g := range [...]*group{&x.ignoring, &x.exact} {
		for s := g.shapes; s != nil; s = s.next {
			if s.meets(bits, ignore) {
				return true
			}
		}
	}
	return false
}

func (s *shape) meets(bits, ignore uint64) bool {
	for _, buckets := range [...][]*md{s.old, s.buckets} {
		for _, d := range buckets {
			for ; d != nil; d = d.place.chain {
				if meet(d.place.key.bits, s.ignore, bits, ignore) {
					return true
				}
			}
		}
	}
	return false
}
