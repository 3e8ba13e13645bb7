package discovery

// A peer is in doubt if messages about it contradict each other: some of them were
// overtaken on their way, or come from a former life of the node. Only the answer to a
// ping that left after the contradiction was found ends the doubt (decisions 19). A ping
// that fails does not, and neither does a merge: the peer that takes over the NIDs or the
// data of another one is in doubt as well.

// distrust puts a peer in doubt. Its next round pings it.
func (m *Machine) distrust(p *peer) {
	m.order++
	p.doubt = m.order
	m.set(p, ForcePing)
}

// settle ends the doubt about a peer if the ping that was answered left after it arose.
func (p *peer) settle(asked uint64) {
	if asked > p.doubt {
		p.doubt = 0
	}
}

// askAgain puts a peer in doubt because messages contradict each other. It reports false,
// so that what came last is accepted, if the peer was asked often enough in this round.
func (m *Machine) askAgain(p *peer) bool {
	if p.askedEnough() {
		return false
	}
	m.distrust(p)
	return true
}

// askedEnough reports whether a peer was pinged so often in its round that contradictions
// are put up with: two nodes may go on claiming one NID forever.
func (p *peer) askedEnough() bool {
	return p.state.Has(Discovering) && p.work.repings >= repingsMax
}

// doubted reports whether what the data c of p says of NID i, of another peer, has to
// wait because what that peer told may be newer. News is newer than what had come before
// it was asked for; when a push was written is not known. Then both peers are in doubt: p
// asks the node that has the NID, whose answer is newer than all that there is, and
// the other one is asked before the next message to it, since p may not be able to.
func (m *Machine) doubted(p *peer, c *Content, i *ni) bool {
	x := i.peer
	agree := x.heard == c.Info.Seq && x.digest == c.sum
	if x.learned < c.asked || x.learned == 0 || agree {
		return false
	}
	if !x.state.Has(Configured) {
		m.askAgain(x)
	}
	if !m.askAgain(p) {
		return false
	}
	if w := p.doing(); w.about.IsZero() || m.isLocal(i.nid.Net()) || !m.isLocal(w.about.Net()) {
		w.about = i.nid
	}
	return true
}

// contest doubts what the data c of p says of the NIDs of other peers, without merging it.
func (m *Machine) contest(p *peer, c *Content) {
	for k := range c.Info.NIs {
		if i := m.nis[c.Info.NIs[k].NID]; i != nil && i.peer != p {
			m.doubted(p, c, i)
		}
	}
}

// inherit passes on to p what is known of x, which is the same node according to the data c.
// If x is in doubt, so is p, unless c is newer than that doubt. If x began a new life after
// our last push reached p, that push counts no more.
func (m *Machine) inherit(p, x *peer, c *Content) {
	if x.doubt > p.doubt && x.doubt > c.asked && !p.askedEnough() {
		p.doubt = x.doubt
		m.set(p, ForcePing)
	}
	if x.reborn > p.toldAt {
		m.forgetTold(p)
	}
	p.reborn = max(p.reborn, x.reborn)
}
