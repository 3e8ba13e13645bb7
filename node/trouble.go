package node

import (
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// PeerStalled implements lnd.Upper: what can go another way does. The peer NI
// loses health once, so that recovery pings try the way until it works.
func (i *ni) PeerStalled(nid lnet.NID, since time.Time) {
	if !i.open.Load() { // AddNI is still writing what is read here
		return
	}
	n := i.node
	p := n.peers.find(nid)
	if p == nil {
		return
	}
	if since.IsZero() {
		p.SetStalled(&i.NI, false)
		return
	}
	p.stalledSince.Store(since.UnixNano())
	if p.SetStalled(&i.NI, true) {
		p.avoidedSince.Store(n.now())
		n.blame(p)
		if !p.alone() || n.topology.Load().other(i) { // LNet's own requests go another way
			n.lostHops.add(nid)
			n.wakeMonitor()
		}
	}
	i.stalls.Store(true)
	n.reroute(i, p)
}

// rerouteStalled has what waits for peer NIs that have stalled choose anew, as a
// better way may have come up since: one that had stalled too, a NID that was
// learned, a link. The monitor calls it every second.
func (n *Node) rerouteStalled() {
	for _, i := range n.topology.Load().nis {
		if !i.stalls.Swap(false) {
			continue
		}
		n.peers.each(func(p *peerNI) {
			if p.Stalled(&i.NI) {
				i.stalls.Store(true)
			}
		})
		n.reroute(i, nil)
	}
}

// calledDown notes whether a peer NI's own node says that it is down. Kernels
// take such a one by turn all the same.
func (n *Node) calledDown(p *peerNI, down bool) {
	p.toldMu.Lock()
	if down {
		p.toldDown = n.now()
	}
	changed := p.SetToldDown(down)
	p.toldMu.Unlock()
	if changed {
		n.toldChanged(p, down)
	}
}

// provedUp notes that a message has come from p that left its node after the time
// left, of the node's clock: what that node said before of p being down is over, if it
// was ever told. What it said since is not: when the message is read, the news may
// long be here by another way.
func (n *Node) provedUp(p *peerNI, left int64) {
	p.toldMu.Lock()
	changed := p.toldDown < left && p.SetToldDown(false)
	p.toldMu.Unlock()
	if changed {
		n.toldChanged(p, false)
	}
}

// toldChanged has messages heed what calledDown or provedUp have noted.
func (n *Node) toldChanged(p *peerNI, down bool) {
	p.avoidedSince.Store(n.now())
	for _, i := range n.topology.Load().nis {
		switch {
		case i.net != p.NID.Net():
		case down:
			n.reroute(i, p)
		default:
			i.iface.LinkBack(p.NID)
		}
	}
}

// reroute has messages choose anew that are on their way from i to p, nil: to
// anybody, and of which no byte has left, if there is a way in less trouble.
func (n *Node) reroute(i *ni, p *peerNI) {
	match := func(m *message) bool { return m.ni == i && (p == nil || m.peer == p) && m.hasBetterWay() }
	var moved, ready messageQueue
	withdraw := func(p *peerNI) {
		out := p.tx.withdraw(match)
		moved.append(&out)
	}
	if p != nil {
		withdraw(p)
	} else {
		n.peers.each(withdraw)
	}
	out := i.tx.withdraw(match)
	moved.append(&out)
	for m := moved.pop(); m != nil; m = moved.pop() {
		if m.out.held == heldNone {
			m.peer.Queued.Add(-m.weight())
		}
		m.giveCredits(&ready)
		m.leaveToMonitor(nil)
	}
	n.transmitAll(&ready)
	to := lnet.NID{}
	if p != nil {
		to = p.NID
	}
	i.iface.Recall(to, func(tx *lnd.Tx) bool {
		m, ours := tx.Done.(*message)
		return ours && match(m)
	})
}

// hasBetterWay tells whether m, which waits to be sent, would now take a way in
// less trouble than its own. What must keep to its way has none. It takes no lock.
func (m *message) hasBetterWay() bool {
	if m.arrival.from != nil || m.out.recovery || m.out.over != 0 || m.peer == nil || m.ni.loopback ||
		way(&m.ni.NI, &m.peer.PeerNI) == selection.NoTrouble {
		return false
	}
	n := m.node
	dest := n.peers.glance(m.tx.Header.Dest)
	if dest == nil {
		return false
	}
	r := selection.Request{Source: m.out.source, Dest: &dest.PeerNI, Reserved: m.out.reserved, CPT: selection.UnknownCPT}
	d, err := n.topology.Load().view.Choose(&r)
	return err == nil && !d.Loopback() && way(d.NI, d.Next) < way(&m.ni.NI, &m.peer.PeerNI)
}

// way is what speaks against a way: a link of ours that is down most.
func way(i *selection.NI, p *selection.PeerNI) selection.Trouble {
	if i.Fatal.Load() {
		return selection.ToldDown + 1
	}
	return p.Trouble(i)
}

// forgetStalls forgets what an NI that is gone has told of peers.
func (n *Node) forgetStalls(i *ni) {
	n.peers.each(func(p *peerNI) { p.SetStalled(&i.NI, false) })
}

// PeerTrouble is what speaks against sending to a peer NI, besides its health. The choice
// of paths uses Trouble; Failure is shown only.
type PeerTrouble struct {
	selection.Trouble
	// Since is since when it does not answer, if that is the trouble.
	Since time.Time
	// From is the NID of the NI whose messages it does not answer, zero if it is
	// all the same.
	From lnet.NID
	// Failure is the last failure with the peer NI since a message came from it, such as
	// "connection refused", and FailedAt its time. It is empty if there is none.
	Failure  string
	FailedAt time.Time
}

// troubleInfo is the worst trouble with a peer NI.
func (t *topology) troubleInfo(p *peerNI) PeerTrouble {
	info := PeerTrouble{Trouble: p.Trouble(nil)}
	if f := p.failure.Load(); f != nil {
		info.Failure, info.FailedAt = f.text, f.at
	}
	for _, i := range t.nis {
		if i.net == p.NID.Net() && info.Trouble < p.Trouble(&i.NI) {
			info.Trouble, info.From = p.Trouble(&i.NI), i.NID
			info.Since = time.Unix(0, p.stalledSince.Load())
		}
	}
	return info
}

// String is the trouble in words, empty if there is none.
func (t PeerTrouble) String() string {
	var parts []string
	switch t.Trouble {
	case selection.NoTrouble:
	case selection.Stalled:
		parts = append(parts, t.stalledText())
	default:
		parts = append(parts, t.Trouble.String())
	}
	if t.Failure != "" {
		parts = append(parts, t.failureText())
	}
	return strings.Join(parts, "; ")
}

func (t PeerTrouble) stalledText() string {
	return t.Trouble.String() + " since " + t.Since.UTC().Format(time.RFC3339)
}

func (t PeerTrouble) failureText() string {
	return t.Failure + " at " + t.FailedAt.UTC().Format(time.RFC3339)
}

// remarks say which NIs and peer NIs are in trouble that a message to a peer might
// use.
func (t *topology) remarks(p *selection.Peer) (steps []selection.Step) {
	for _, net := range p.Nets {
		for _, i := range t.nis {
			if i.net == net.ID && i.Fatal.Load() {
				what := i.NID.String() + " here: link down"
				if cause := i.linkCause(); cause != "" {
					what += ": " + cause
				}
				steps = append(steps, selection.Step{What: what})
			}
		}
		for _, q := range net.NIs {
			info := t.troubleInfo(peerNIOf(q))
			switch info.Trouble {
			case selection.Stalled:
				steps = append(steps, selection.Step{What: q.NID.String() + ": " + info.stalledText() + ", from " + info.From.String()})
			case selection.ToldDown:
				steps = append(steps, selection.Step{What: q.NID.String() + ": " + info.Trouble.String() + ", its node says"})
			}
			if info.Failure != "" {
				steps = append(steps, selection.Step{What: q.NID.String() + ": " + info.failureText() + ", and no message from it since"})
			}
		}
	}
	return steps
}
