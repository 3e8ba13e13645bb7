package discovery

// A peer is in doubt if messages about it contradict each other. Some of these messages
// were then reordered on their way, or come from an earlier incarnation of the node. Only
// the reply to a ping that was sent after the contradiction was found ends the doubt
// (decisions 19). A failed ping does not end it. A merge does not end it either: a peer
// that takes over the NIDs or the data of a peer in doubt is itself in doubt.

// markInDoubt puts a peer in doubt. The next round with the peer therefore pings it.
func (m *Machine) markInDoubt(p *peer) {
	m.clock++
	p.doubtAt = m.clock
	m.set(p, ForcePing)
}

// endDoubt ends the doubt about a peer after a reply, if the ping was sent after the doubt
// began. asked is the Machine.clock at which the ping was sent.
func (p *peer) endDoubt(asked uint64) {
	if asked > p.doubtAt {
		p.doubtAt = 0
	}
}

// repingInDoubt puts a peer in doubt because messages contradict each other, so that it is
// pinged again. It returns false and does nothing if the peer was pinged too often in this
// round; the caller then accepts the latest message.
func (m *Machine) repingInDoubt(p *peer) bool {
	if p.repingLimitReached() {
		return false
	}
	m.markInDoubt(p)
	return true
}

// repingLimitReached reports whether the peer was pinged so often in the current round
// that contradictions are ignored. Without this limit, two nodes that claim the same NID
// would be pinged forever.
func (p *peer) repingLimitReached() bool {
	return p.state.Has(Discovering) && p.work.repingCount >= repingsMax
}

// claimInDoubt reports whether it is unclear if NID i belongs to p, as the data c of p
// claims, or still to its present peer x. It is clear if c is the reply to a ping that was
// sent after the data of x had arrived, because the reply is then newer. In all other
// cases, and for a push, it is unknown which data is newer. claimInDoubt then puts both
// peers in doubt, and the claim has no effect yet. The round with p pings the claimed NID,
// and the reply is newer than all existing data. x is pinged before the next message to
// it, because p's node may not be able to reach it.
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

// checkClaims calls claimInDoubt for all NIDs in the data c of p that belong to other
// peers, without merging them.
func (m *Machine) checkClaims(p *peer, c *Content) {
	for k := range c.Info.NIs {
		if i := m.nis[c.Info.NIs[k].NID]; i != nil && i.peer != p {
			m.claimInDoubt(p, c, i)
		}
	}
}

// inheritDoubt passes the doubt about x on to p, because both are the same node according
// to the data c. p is then in doubt if x is, unless c is newer than the doubt. If a new
// incarnation of x began after the last push reached p, that push is discarded, because
// the new incarnation does not have it.
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
