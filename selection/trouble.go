package selection

// Trouble is what speaks against a path besides health: the less, the better,
// and it counts before anything else that the peer's side has. It never excludes
// a path: what has no other one takes it. Kernels have no such attribute.
type Trouble uint8

// The kinds of trouble, from the least.
const (
	NoTrouble Trouble = iota
	// Suspect: the way has its NI or its peer NI in common with one that has stalled,
	// and of that way nobody knows which end it is.
	Suspect
	// Stalled: what was sent to the peer NI from the NI is not acknowledged.
	Stalled
	// ToldDown: the peer's own node says that the peer NI is down.
	ToldDown
)

// String is the trouble in words.
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

// troubles is what is wrong between a peer NI and each NI: a bit of the NI's slot
// for Stalled, toldDown for all. Of several peer NIs it is what is wrong with all
// of them (and).
type troubles uint64

const (
	toldDown troubles = 1 << 63
	// slots is the number of NIs that are told apart; the one after that shares
	// the first one's bit, and with it a preference.
	slots = 63
)

func (t troubles) and(o troubles) troubles { return t.spread() & o.spread() }

// spread sets the bits of all NIs where all is down.
func (t troubles) spread() troubles {
	if t&toldDown != 0 {
		return ^troubles(0)
	}
	return t
}

// from is the trouble on the way from an NI; nil: from elsewhere than here.
func (t troubles) from(i *NI) Trouble {
	switch {
	case t&toldDown != 0:
		return ToldDown
	case i != nil && t&i.slot() != 0:
		return Stalled
	}
	return NoTrouble
}

// on is the trouble on the best way from a net, by the NIs whose links are up.
func (t troubles) on(n *Net) Trouble {
	if t == 0 || t&toldDown != 0 || n == nil {
		return t.from(nil)
	}
	best := NoTrouble
	for _, i := range n.NIs {
		if i.Fatal.Load() {
			continue
		}
		if best = t.from(i); best == NoTrouble {
			return best
		}
	}
	return best
}

// slot is the bit of the NI in troubles.
func (i *NI) slot() troubles { return 1 << (i.place % slots) }

// SetStalled notes whether p acknowledges what is sent to it from i, which is in
// a Local. It tells whether that is news.
func (p *PeerNI) SetStalled(i *NI, stalled bool) bool {
	if stalled {
		return troubles(p.troubles.Or(uint64(i.slot())))&i.slot() == 0
	}
	return troubles(p.troubles.And(^uint64(i.slot())))&i.slot() != 0
}

// Stalled tells what SetStalled has noted, whatever else speaks against p.
func (p *PeerNI) Stalled(i *NI) bool { return p.trouble()&i.slot() != 0 }

// SetToldDown notes whether p's own node says that p is down. It tells whether
// that is news.
func (p *PeerNI) SetToldDown(down bool) bool {
	if down {
		return troubles(p.troubles.Or(uint64(toldDown)))&toldDown == 0
	}
	return troubles(p.troubles.And(^uint64(toldDown)))&toldDown != 0
}

// Trouble is what speaks against the way from i to p; with a nil i, against p
// itself.
func (p *PeerNI) Trouble(i *NI) Trouble { return p.trouble().from(i) }

func (p *PeerNI) trouble() troubles { return troubles(p.troubles.Load()) }

// trouble is what is wrong with all NIDs of the peer on the net.
func (n *PeerNet) trouble() troubles {
	all := ^troubles(0)
	for _, p := range n.NIs {
		if all = all.and(p.trouble()); all == 0 {
			break
		}
	}
	return all
}

// toward is what is wrong with all, and with some, of the peer NIs that a message may
// go to.
type toward struct{ all, some troubles }

func (n *PeerNet) toward() toward {
	t := toward{all: ^troubles(0)}
	for _, p := range n.NIs {
		of := p.trouble()
		t.all, t.some = t.all.and(of), t.some|of
	}
	return t
}

func (p *PeerNI) toward() toward {
	t := p.trouble()
	return toward{all: t, some: t}
}

// from is what speaks against an NI.
func (t toward) from(i *NI) Trouble {
	if t.some&i.slot() == 0 {
		return t.all.from(i)
	}
	return max(t.all.from(i), Suspect)
}

// trouble is what speaks against a peer NI, from an NI or, if that is nil, from
// any on its net.
func (c *chooser) trouble(p *PeerNI, from *NI) Trouble {
	t := p.trouble()
	if t == 0 {
		return NoTrouble
	}
	if from == nil {
		return t.on(c.v.Local.Net(p.NID.Net()))
	}
	return max(t.from(from), Suspect)
}

// leastTrouble is that of the best net which the peer shares with this node and
// whose links are not all down: these are in no less trouble, lest messages go to
// a dead link because a peer is slow.
func (c *chooser) leastTrouble(p *Peer) Trouble {
	least := ToldDown
	for _, pn := range p.Nets {
		ln := c.v.Local.Net(pn.ID)
		if ln == nil || c.cameFrom(pn) || ln.Health() == 0 {
			continue
		}
		if least = min(least, pn.trouble().on(ln)); least == NoTrouble {
			break
		}
	}
	return least
}
