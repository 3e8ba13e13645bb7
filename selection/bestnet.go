package selection

// netCriteria are the values by which nets are compared: those of a net of the peer, and
// those of the local net with the same ID (selection 5.1). A turn is the number of the
// last message that used the object; a lower turn is better, so that equal objects are
// used in turn.
type netCriteria struct {
	peer *PeerNet
	// local is nil if nets behind routers are compared. The values of the local net are then
	// 0.
	local                       *Net
	trouble                     Trouble
	peerHealth, localHealth     int
	peerPriority, localPriority uint32
	peerTurn, localTurn         uint64
}

// read fills f with the values of the peer's net p and the local net l. f must be zero. l
// may be nil. If it is not, f.trouble is set to least if it would be lower (see
// leastTrouble). read fills f in place, because copying the struct is expensive.
func (f *netCriteria) read(p *PeerNet, l *Net, least Trouble) {
	f.trouble = p.trouble().onNet(l)
	f.peer, f.peerHealth, f.peerPriority, f.peerTurn = p, p.Health(), p.priority.get(), p.turn.Load()
	if l != nil {
		f.trouble = max(f.trouble, least)
		f.local, f.localHealth, f.localPriority, f.localTurn = l, l.Health(), l.priority.get(), l.turn.Load()
	}
}

// better reports whether f is better than g, and which criterion decides that.
func (f *netCriteria) better(g *netCriteria) (bool, Criterion) {
	switch {
	case f.trouble != g.trouble:
		return f.trouble < g.trouble, ByPeerNetTrouble
	case f.peerHealth != g.peerHealth:
		return f.peerHealth > g.peerHealth, ByPeerNetHealth
	case f.peerPriority != g.peerPriority:
		return f.peerPriority < g.peerPriority, ByPeerNetPriority
	case f.localHealth != g.localHealth:
		return f.localHealth > g.localHealth, ByNetHealth
	case f.localPriority != g.localPriority:
		return f.localPriority < g.localPriority, ByNetPriority
	case f.peerTurn != g.peerTurn:
		return f.peerTurn < g.peerTurn, ByPeerNetTurn
	case f.localTurn != g.localTurn:
		return f.localTurn < g.localTurn, ByNetTurn
	}
	return false, ByOrder
}

// weighNet replaces best by the net pn if pn is better. ln is the local net with the same
// ID, or nil if nets behind routers are compared. least is for netCriteria.read.
func (c *chooser) weighNet(best *netCriteria, pn *PeerNet, ln *Net, least Trouble) {
	var f netCriteria
	f.read(pn, ln, least)
	if c.t != nil {
		c.t.nets = append(c.t.nets, f)
	}
	if best.peer == nil {
		*best = f
	} else if better, _ := f.better(best); better {
		*best = f
	}
}

// bestNet chooses the best of the nets that the peer shares with this node. It returns nil
// if they share no net.
func (c *chooser) bestNet(p *Peer) (*PeerNet, *Net) {
	if id := c.r.DiscoveryNet; id != 0 {
		if pn, ln := p.Net(id), c.v.Local.Net(id); pn != nil && ln != nil {
			return pn, ln
		}
	}
	var best netCriteria
	least := c.leastTrouble(p)
	for _, pn := range p.Nets {
		ln := c.v.Local.Net(pn.ID)
		if ln == nil || c.cameFrom(pn) {
			continue
		}
		c.weighNet(&best, pn, ln, least)
	}
	if c.t != nil {
		c.t.endNets("net", p, "not a net of this node")
	}
	return best.peer, best.local
}

// cameFrom reports whether n has only one NID and the forwarded message came from that
// NID, so that n cannot be used.
func (c *chooser) cameFrom(n *PeerNet) bool {
	return c.r.From != nil && len(n.NIs) == 1 && n.NIs[0] == c.r.From
}

// bestRemoteNet chooses the best of the peer's nets to which a route leads (selection
// 5.5). It returns nil if no route leads to any of them.
func (c *chooser) bestRemoteNet(p *Peer) *PeerNet {
	var best netCriteria
	for _, pn := range p.Nets {
		if len(c.v.Routing.To(pn.ID)) > 0 {
			c.weighNet(&best, pn, nil, NoTrouble)
		}
	}
	if c.t != nil {
		c.t.endNets("remote net", p, "no route")
	}
	return best.peer
}
