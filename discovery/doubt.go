package discovery

// A peer is in doubt if messages about it contradict each other. Then some were reordered
// on their way, or come from an earlier incarnation of the node. Only the reply to a ping
// that left after the contradiction was found ends the doubt (decisions 19). A failed ping
// does not, and neither does a merge: a peer that takes over the NIDs or the data of a peer
// in doubt is itself in doubt.

// markInDoubt puts a peer in doubt. The peer's next round pings it.
func (m *Machine) markInDoubt(p *peer) {
	m.clock++
	p.doubtAt = m.clock
	m.set(p, ForcePing)
}

// endDoubt ends the doubt about a peer if the ping that was answered left after the doubt
// began.
func (p *peer) endDoubt(asked uint64) {
	if asked > p.doubtAt {
		p.doubtAt = 0
	}
}

// repingInDoubt puts a peer in doubt because messages contradict each other. If the peer was
// already pinged often enough in this round, it returns false, so that the latest message
// is accepted.
func (m *Machine) repingInDoubt(p *peer) bool {
	if p.repingLimitReached() {
		return false
	}
	m.markInDoubt(p)
	return true
}

// repingLimitReached reports whether a peer was pinged so often in its round that contradictions
// are ignored. Two nodes may claim the same NID forever.
func (p *peer) repingLimitReached() bool {
	return p.state.Has(Discovering) && p.work.repingCount >= repingsMax
}

// claimInDoubt reports whether the claim in data c of p to NID i of another peer must wait,
// because the data of the other peer may be newer. A reply is newer than everything that
// arrived before its ping left. It is unknown when a push was written. In this case claimInDoubt
// puts both peers in doubt. p pings the node that has the NID, whose reply is newer than
// all existing data. The other peer is pinged before the next message to it, since p may
// not be able to reach it.
func (m *Machine) claimInDoubt(p *peer, c *Content, i *ni) bool {
	x := i.peer
	agree := x.newestSeq == c.Info.Seq && x.newestDigest == c.hash
	if x.learnedAt < c.pingTime || x.learnedAt == 0 || agree {
		return false
	}
	if !x.state.Has(Configured) {
		m.repingInDoubt(x)
	}
	if !m.repingInDoubt(p) {
		return false
	}
	if w := p.startWork(); w.alsoPing.IsZero() || m.isLocal(i.nid.Net()) || !m.isLocal(w.alsoPing.Net()) {
		w.alsoPing = i.nid
	}
	return true
}

// checkClaims checks the NIDs of other peers in the data c of p for doubt, without merging
// them.
func (m *Machine) checkClaims(p *peer, c *Content) {
	for k := range c.Info.NIs {
		if i := m.nis[c.Info.NIs[k].NID]; i != nil && i.peer != p {
			m.claimInDoubt(p, c, i)
		}
	}
}

// inheritDoubt passes the doubt of x on to p. According to the data c, both are the same node.
// If x is in doubt, so is p, unless c is newer than that doubt. If a new incarnation of x
// began after the last push reached p, that push no longer counts.
func (m *Machine) inheritDoubt(p, x *peer, c *Content) {
	if x.doubtAt > p.doubtAt && x.doubtAt > c.pingTime && !p.repingLimitReached() {
		p.doubtAt = x.doubtAt
		m.set(p, ForcePing)
	}
	if x.restartedAt > p.ackedPushAt {
		m.discardPushes(p)
	}
	p.restartedAt = max(p.restartedAt, x.restartedAt)
}
