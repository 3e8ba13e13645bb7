package selection

// Trouble is a known problem of a path, other than reduced health. A path with less
// trouble is preferred, whatever its other attributes are. A path with trouble is still
// used if no better one exists. Kernels have no such attribute.
type Trouble uint8

// The kinds of trouble, in increasing order.
const (
	NoTrouble Trouble = iota
	// Suspect means that the path shares its NI or its peer NI with a stalled path, so that
	// its NI or peer NI may be the cause of the stall.
	Suspect
	// Stalled means that messages from the NI to the peer NI are not acknowledged.
	Stalled
	// ReportedDown means that the peer itself reported the peer NI as down.
	ReportedDown
)

// String returns the trouble in words.
func (t Trouble) String() string {
	switch t {
	case NoTrouble:
		return "none"
	case Suspect:
		return "in doubt"
	case Stalled:
		return "not answering"
	}
	return "link down"
}

// troubles holds the trouble between a peer NI and all local NIs. Each local NI has a bit,
// which is set if messages from it are stalled. The bit toldDown applies to all local NIs.
// For several peer NIs, troubles holds the trouble that all of them have (see intersect).
type troubles uint64

const (
	toldDown troubles = 1 << 63
	// troubleBits is the number of bits for local NIs. If there are more NIs, several share a
	// bit, and so appear to be stalled together.
	troubleBits = 63
)

func (t troubles) intersect(o troubles) troubles { return t.expand() & o.expand() }

// expand returns t with the bits of all local NIs set, if toldDown is set.
func (t troubles) expand() troubles {
	if t&toldDown != 0 {
		return ^troubles(0)
	}
	return t
}

// onPath returns the trouble on the path from i to the peer NI. If i is nil, it returns
// ReportedDown or NoTrouble.
func (t troubles) onPath(i *NI) Trouble {
	switch {
	case t&toldDown != 0:
		return ReportedDown
	case i != nil && t&i.troubleBit() != 0:
		return Stalled
	}
	return NoTrouble
}

// onNet returns the least trouble on a path from an NI of n whose link is up.
func (t troubles) onNet(n *Net) Trouble {
	if t == 0 || t&toldDown != 0 || n == nil {
		return t.onPath(nil)
	}
	best := NoTrouble
	for _, i := range n.NIs {
		if i.Fatal.Load() {
			continue
		}
		if best = t.onPath(i); best == NoTrouble {
			return best
		}
	}
	return best
}

// troubleBit returns the bit of i in troubles.
func (i *NI) troubleBit() troubles { return 1 << (i.number % troubleBits) }

// SetStalled records whether messages from i to p are stalled. i must be in a Local.
// SetStalled reports whether the state has changed.
func (p *PeerNI) SetStalled(i *NI, stalled bool) bool {
	if stalled {
		return troubles(p.troubles.Or(uint64(i.troubleBit())))&i.troubleBit() == 0
	}
	return troubles(p.troubles.And(^uint64(i.troubleBit())))&i.troubleBit() != 0
}

// Stalled reports whether SetStalled has recorded that messages from i to p are stalled.
// Other trouble of p has no influence.
func (p *PeerNI) Stalled(i *NI) bool { return p.trouble()&i.troubleBit() != 0 }

// SetReportedDown records whether the peer reports p as down, and reports whether this is a
// change.
func (p *PeerNI) SetReportedDown(down bool) bool {
	if down {
		return troubles(p.troubles.Or(uint64(toldDown)))&toldDown == 0
	}
	return troubles(p.troubles.And(^uint64(toldDown)))&toldDown != 0
}

// Trouble returns the trouble on the path from i to p. If i is nil, it returns the trouble
// that does not depend on the local NI.
func (p *PeerNI) Trouble(i *NI) Trouble { return p.trouble().onPath(i) }

func (p *PeerNI) trouble() troubles { return troubles(p.troubles.Load()) }

// trouble returns the trouble that all peer NIs on the net have.
func (n *PeerNet) trouble() troubles {
	all := ^troubles(0)
	for _, p := range n.NIs {
		if all = all.intersect(p.trouble()); all == 0 {
			break
		}
	}
	return all
}

// combinedTrouble is the trouble of the peer NIs to which a message may be sent: all is
// the trouble that every one of them has, and some is the trouble that at least one of
// them has.
type combinedTrouble struct{ all, some troubles }

func (n *PeerNet) combinedTrouble() combinedTrouble {
	t := combinedTrouble{all: ^troubles(0)}
	for _, p := range n.NIs {
		of := p.trouble()
		t.all, t.some = t.all.intersect(of), t.some|of
	}
	return t
}

func (p *PeerNI) combinedTrouble() combinedTrouble {
	t := p.trouble()
	return combinedTrouble{all: t, some: t}
}

// onPath returns the trouble on a path from i. It is the trouble of the best of the peer
// NIs. If the best one has no trouble but messages from i to another one are stalled, it
// is Suspect.
func (t combinedTrouble) onPath(i *NI) Trouble {
	if t.some&i.troubleBit() == 0 {
		return t.all.onPath(i)
	}
	return max(t.all.onPath(i), Suspect)
}

// trouble returns the trouble on the path from the local NI from to p. If from is nil, it
// returns the least trouble on a path from any NI on the net of p.
func (c *chooser) trouble(p *PeerNI, from *NI) Trouble {
	t := p.trouble()
	if t == 0 {
		return NoTrouble
	}
	if from == nil {
		return t.onNet(c.v.Local.Net(p.NID.Net()))
	}
	return max(t.onPath(from), Suspect)
}

// leastTrouble returns the lowest trouble of the nets that the peer shares with this node
// and on which a local link is up. A shared net whose links are all down counts as having
// at least this trouble. Otherwise a net without a working link could be preferred, only
// because on the other nets the peer is stalled.
func (c *chooser) leastTrouble(p *Peer) Trouble {
	least := ReportedDown
	for _, pn := range p.Nets {
		ln := c.v.Local.Net(pn.ID)
		if ln == nil || c.cameFrom(pn) || ln.Health() == 0 {
			continue
		}
		if least = min(least, pn.trouble().onNet(ln)); least == NoTrouble {
			break
		}
	}
	return least
}
