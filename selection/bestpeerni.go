package selection

// peerNICriteria are the values by which peer NIs are compared (selection 5.4).
type peerNICriteria struct {
	ni        *PeerNI
	trouble   Trouble
	health    int32
	priority  uint32
	preferred bool
	credits   int64
	turn      uint64
}

// read sets f to the values of p for a message from the local NI i. i is nil if the local
// NI is not chosen yet.
func (f *peerNICriteria) read(c *chooser, p *PeerNI, i *NI) {
	f.ni, f.trouble, f.health, f.priority = p, c.trouble(p, i), p.Health.Load(), p.priority.get()
	f.preferred = i != nil && p.sources.Load().has(i.NID)
	f.credits, f.turn = p.Credits.Load(), p.turn.Load()
}

// better reports whether f is better than g, and which criterion decides that.
func (f *peerNICriteria) better(g *peerNICriteria) (bool, Criterion) {
	switch {
	case f.trouble != g.trouble:
		return f.trouble < g.trouble, ByPeerNITrouble
	case f.health != g.health:
		return f.health > g.health, ByPeerNIHealth
	case f.priority != g.priority:
		return f.priority < g.priority, ByPeerNIPriority
	case f.preferred != g.preferred:
		return f.preferred, ByPreference
	case f.credits != g.credits:
		return f.credits > g.credits, ByPeerNICredits
	case f.turn != g.turn:
		return f.turn < g.turn, ByPeerNITurn
	}
	return false, ByOrder
}

// compareAll replaces best by the best peer NI of the net n if that is better. It skips
// the peer NI from which a forwarded message came, because a message is never sent back
// there. from is the local NI, or nil if it is not chosen yet.
func (c *chooser) compareAll(best *peerNICriteria, n *PeerNet, from *NI) {
	var f peerNICriteria
	for _, p := range n.NIs {
		if p == c.r.From {
			continue
		}
		f.read(c, p, from)
		if c.t != nil {
			c.t.peerNIs = append(c.t.peerNIs, f)
		}
		if best.ni == nil {
			*best = f
		} else if better, _ := f.better(best); better {
			*best = f
		}
	}
}

// bestPeerNI chooses the best of the peer NIs of a net. It returns nil if the net has only
// the peer NI from which a forwarded message came.
func (c *chooser) bestPeerNI(n *PeerNet, from *NI) *PeerNI {
	var best peerNICriteria
	c.compareAll(&best, n, from)
	if c.t != nil {
		c.t.endPeerNIs("peer NI")
	}
	return best.ni
}

// bestGatewayNI chooses the best of the gateway's NIDs: those on the net on, or those on
// any local net if on is nil (selection 5.6). Priorities are compared across nets.
func (c *chooser) bestGatewayNI(gateway *Peer, on *Net) *PeerNI {
	var best peerNICriteria
	if on != nil {
		if n := gateway.Net(on.ID); n != nil {
			c.compareAll(&best, n, nil)
		}
	} else {
		for _, n := range gateway.Nets {
			if c.v.Local.Net(n.ID) != nil {
				c.compareAll(&best, n, nil)
			}
		}
	}
	if c.t != nil {
		c.t.endPeerNIs("peer NI of gateway " + gateway.Primary.String())
	}
	return best.ni
}
