package portals

import "fmt"

// Claim is a set of match bits on one portal that are reserved for its holder. Table.Claim
// creates one. An entry that matches some of these bits must be attached under the claim
// (Entry.Claim). Claims cost messages nothing. An Attach without a claim checks every claim
// of the portal.
type Claim struct {
	portal       *portal
	number       uint32
	bits, ignore uint64

	// Guarded by portal.mu.
	held    bool
	entries int // entries under the claim that can still match
}

// Portal returns the number of the portal.
func (c *Claim) Portal() uint32 { return c.number }

// overlaps reports whether some match bits belong both to c and to an entry or claim with bits
// and ignore.
func (c *Claim) overlaps(bits, ignore uint64) bool { return overlap(c.bits, c.ignore, bits, ignore) }

func overlap(a, ignoreA, b, ignoreB uint64) bool { return (a^b)&^(ignoreA|ignoreB) == 0 }

// covers reports whether c includes all match bits that e matches.
func (c *Claim) covers(e *Entry) bool {
	return e.IgnoreBits&^c.ignore == 0 && c.overlaps(e.MatchBits, 0)
}

// Claim reserves, on one portal, all match bits that equal bits outside the ones of ignore.
// The reservation lasts until Release. Like an entry with wildcards, it makes the portal a
// wildcard portal. Claim returns ErrTaken if an entry or another claim has some of the
// bits, or if the portal is lazy, because messages for a removed entry would be delayed
// there. It returns ErrPortalClass if the portal has unique entries, ErrInvalid if there is
// no such portal, and ErrClosed if the table is closed.
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

// Release ends the claim, and reports whether it was still held. Entries that were attached
// under it remain, as if they had been attached without a claim.
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

// checkClaims returns an error if a claim that e is not under has match bits of e. p.mu is
// held.
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

// addEntry adds d, attached with e, to the index of entries that can still match. removeEntry
// removes it from the index. p.mu is held.
func (p *portal) addEntry(d *md, e *Entry) {
	d.claim = e.Claim
	if p.index.add(d, e); d.indexEntry.shape != nil {
		p.countEntry(d, 1)
	}
}

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

// overlaps reports whether an entry in x matches some of the match bits.
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
