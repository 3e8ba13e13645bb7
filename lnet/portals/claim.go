package portals

import "fmt"

// Claim reserves a set of match bits on one portal for its holder. Table.Claim creates
// one. An entry that matches some of these bits can be attached only if it names the claim
// (Entry.Claim). Claims do not slow down messages, but Attach compares an entry without a
// claim with every claim of the portal.
type Claim struct {
	portal       *portal
	number       uint32
	bits, ignore uint64

	// Guarded by portal.mu.
	held    bool
	entries int // entries that were attached under the claim and can still match
}

// Portal returns the number of the claim's portal.
func (c *Claim) Portal() uint32 { return c.number }

// overlaps reports whether c and an entry or claim with bits and ignore have match bits in
// common.
func (c *Claim) overlaps(bits, ignore uint64) bool { return overlap(c.bits, c.ignore, bits, ignore) }

func overlap(a, ignoreA, b, ignoreB uint64) bool { return (a^b)&^(ignoreA|ignoreB) == 0 }

// covers reports whether e matches only match bits that c reserves.
func (c *Claim) covers(e *Entry) bool {
	return e.IgnoreBits&^c.ignore == 0 && c.overlaps(e.MatchBits, 0)
}

// Claim reserves all match bits on the portal that equal bits, except in the positions
// that are set in ignore. The reservation lasts until Claim.Release. Like an entry with
// wildcards, it makes the portal a wildcard portal.
//
// Claim returns ErrTaken if an entry or another claim has some of the match bits, or if
// the portal is lazy. (On a lazy portal, messages for a removed entry would wait instead
// of being dropped.) It returns ErrPortalClass if the portal is a unique portal,
// ErrInvalid if it does not exist, and ErrClosed if the table is closed.
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
		return nil, fmt.Errorf("the portal is lazy and so uses all its match bits: %w", ErrTaken)
	}
	for _, c := range p.claims {
		if c.overlaps(bits, ignore) {
			return nil, ErrTaken
		}
	}
	if p.unclaimed > 0 && p.index.overlaps(bits, ignore) {
		return nil, ErrTaken
	}
	p.class = classWildcard
	c := &Claim{portal: p, number: portal, bits: bits &^ ignore, ignore: ignore, held: true}
	p.claims = append(p.claims, c)
	return c, nil
}

// Release ends the claim. It returns false if the claim had already ended. Entries that
// were attached under the claim stay, as if they had been attached without it.
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

// checkClaims returns an error if e matches bits that are reserved by a claim that e does
// not name. p.mu must be held.
func (p *portal) checkClaims(e *Entry) error {
	if c := e.Claim; c != nil {
		if c.portal != p || !c.held || !c.covers(e) {
			return fmt.Errorf("its claim was released or does not include all its match bits: %w", ErrInvalid)
		}
		return nil
	}
	for _, c := range p.claims {
		if c.overlaps(e.MatchBits, e.IgnoreBits) {
			return ErrTaken
		}
	}
	return nil
}

// addEntry adds d, which is attached with e, to the index of entries that can still match.
// p.mu must be held.
func (p *portal) addEntry(d *md, e *Entry) {
	d.claim = e.Claim
	if p.index.add(d, e); d.indexEntry.shape != nil {
		p.countEntry(d, 1)
	}
}

// removeEntry removes d from the index, if it is there. p.mu must be held.
func (p *portal) removeEntry(d *md) {
	if d.indexEntry.shape != nil {
		p.index.remove(d)
		p.countEntry(d, -1)
	}
}

func (p *portal) countEntry(d *md, n int) {
	if c := d.claim; c != nil && c.held {
		c.entries += n
	} else {
		p.unclaimed += n
	}
}

// overlaps reports whether an entry in x matches some of the match bits that bits and
// ignore describe.
func (x *index) overlaps(bits, ignore uint64) bool {
	for _, g := range [...]*group{&x.ignoring, &x.exact} {
		for s := g.shapes; s != nil; s = s.next {
			if s.overlaps(bits, ignore) {
				return true
			}
		}
	}
	return false
}

func (s *shape) overlaps(bits, ignore uint64) bool {
	for _, buckets := range [...][]*md{s.oldBuckets, s.buckets} {
		for _, d := range buckets {
			for ; d != nil; d = d.indexEntry.chain {
				if overlap(d.indexEntry.key.bits, s.ignore, bits, ignore) {
					return true
				}
			}
		}
	}
	return false
}
