package selection

// Trouble is a known problem of a path other than reduced health. Less trouble is better,
// and it takes precedence over all other attributes of the peer. It never excludes a path:
// a path in trouble is used if no better one exists. Kernels have no such attribute.
type Trouble uint8

// The kinds of trouble, in increasing order.
const (
	NoTrouble Trouble = iota
	// Suspect means that the path shares its NI or its peer NI with a stalled path, of
	// which it is unknown which end is at fault.
	Suspect
	// Stalled means that messages from the NI to the peer NI are not acknowledged.
	Stalled
	// ToldDown means that the peer reported its NI as down.
	ToldDown
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

// troubles is the trouble between a peer NI and each local NI. Stalled sets the bit of the
// NI's slot, and toldDown applies to all NIs. For several peer NIs, it is the trouble that
// all of them have (see and).
type troubles uint64

const (
	toldDown troubles = 1 << 63
	// troubleBits is the number of NIs with separate bits. Further NIs share the bits of earlier
	// ones, and so their Stalled state.
	troubleBits = 63
)

func (t troubles) intersect(o troubles) troubles { return t.expand() & o.expand() }

// expand sets the bits of all NIs if toldDown is set.
func (t troubles) expand() troubles {
	if t&toldDown != 0 {
		return ^troubles(0)
	}
	return t
}

// onPath returns the trouble on the path from i. If i is nil, only toldDown counts.
func (t troubles) onPath(i *NI) Trouble {
	switch {
	case t&toldDown != 0:
		return ToldDown
	case i != nil && t&i.troubleBit() != 0:
		return Stalled
	}
	return NoTrouble
}

// onNet returns the trouble on the best path from the NIs of n whose links are up.
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

// troubleBit returns the bit of the NI in troubles.
func (i *NI) troubleBit() troubles { return 1 << (i.number % troubleBits) }

// SetStalled records whether messages to p from i, which is in a Local, are stalled. It
// reports whether the state has changed.
func (p *PeerNI) SetStalled(i *NI, stalled bool) bool {
	if stalled {
		return troubles(p.troubles.Or(uint64(i.troubleBit())))&i.troubleBit() == 0
	}
	return troubles(p.troubles.And(^uint64(i.troubleBit())))&i.troubleBit() != 0
}

// Stalled reports whether SetStalled has recorded a stall from i, regardless of other
// trouble of p.
func (p *PeerNI) Stalled(i *NI) bool { return p.trouble()&i.troubleBit() != 0 }

// SetToldDown records whether the peer reports p as down. It reports whether the state has
// changed.
func (p *PeerNI) SetToldDown(down bool) bool {
	if down {
		return troubles(p.troubles.Or(uint64(toldDown)))&toldDown == 0
	}
	return troubles(p.troubles.And(^uint64(toldDown)))&toldDown != 0
}

// Trouble returns the trouble on the path from i to p. If i is nil, it returns that of p
// alone.
func (p *PeerNI) Trouble(i *NI) Trouble { return p.trouble().onPath(i) }

func (p *PeerNI) trouble() troubles { return troubles(p.troubles.Load()) }

// trouble returns the trouble that all NIDs of the peer on the net have.
func (n *PeerNet) trouble() troubles {
	all := ^troubles(0)
	for _, p := range n.NIs {
		if all = all.intersect(p.trouble()); all == 0 {
			break
		}
	}
	return all
}

// combinedTrouble is the trouble that all, and that some, of the peer NIs have to which a message
// may be sent.
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

// onPath returns the trouble on the path from i.
func (t combinedTrouble) onPath(i *NI) Trouble {
	if t.some&i.troubleBit() == 0 {
		return t.all.onPath(i)
	}
	return max(t.all.onPath(i), Suspect)
}

// trouble returns the trouble of a peer NI on the path from an NI or, if that is nil, from
// any NI on its net.
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

// leastTrouble returns the trouble of the best net that the peer shares with this node and
// that has a link up. A net whose links are all down counts as at least that bad.
// Otherwise, messages would go to a dead link because a peer is slow.
func (c *chooser) leastTrouble(p *Peer) Trouble {
	least := ToldDown
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
