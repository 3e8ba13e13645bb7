package node

import (
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// PeerStalled implements lnd.Upper. Messages that can take another path are rerouted. The
// peer NI loses health once per stall, so that recovery pings test the path until it works
// again. If since is zero, the stall is over.
func (i *ni) PeerStalled(nid lnet.NID, since time.Time) {
	if !i.open.Load() { // AddNI is still writing fields that are read here
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
		if !p.isOnlyNID() || n.topology.Load().other(i) { // LNet's own requests take another path
			n.lostNeighbours.add(nid)
			n.wakeMonitor()
		}
	}
	i.stalls.Store(true)
	n.reroute(i, p)
}

// rerouteStalled chooses paths again for messages that wait for stalled peer NIs. A better
// path may have become available, because a peer NI has recovered, a NID was added, or a
// link is up again. The monitor calls it every second.
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

// reportDown records whether the node of the peer NI p reports p as down in its ping info.
// Messages then avoid p, whereas kernels continue to use it in turn with other NIDs.
func (n *Node) reportDown(p *peerNI, down bool) {
	p.reportedMu.Lock()
	if down {
		p.reportedDown = n.now()
	}
	changed := p.SetReportedDown(down)
	p.reportedMu.Unlock()
	if changed {
		n.reportedChanged(p, down)
	}
}

// reportUp records that a message has arrived from p that was sent after the time left, by
// the node's clock. If p's node had reported p as down before that time, the report is
// obsolete and is removed. A later report is kept: it may have come by another path and
// overtaken this message.
func (n *Node) reportUp(p *peerNI, left int64) {
	p.reportedMu.Lock()
	changed := p.reportedDown < left && p.SetReportedDown(false)
	p.reportedMu.Unlock()
	if changed {
		n.reportedChanged(p, false)
	}
}

// reportedChanged reroutes messages to p after p was reported as down, or lets drivers
// continue to send to p after that report has ended.
func (n *Node) reportedChanged(p *peerNI, down bool) {
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

// reroute chooses paths again for messages that are queued on the NI i for the peer NI p,
// or for any peer NI if p is nil. Only messages of which no byte was sent, and for which a
// better path exists, are moved.
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
			m.peer.Queued.Add(-m.queuedBytes())
		}
		m.releaseCredits(&ready)
		m.queueForMonitor(nil)
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

// hasBetterWay reports whether m, which waits to be sent, could now take a path with less
// trouble. It returns false if m must not change its path. It acquires no lock, because it
// is called under the locks of queues.
func (m *message) hasBetterWay() bool {
	if m.arrival.from != nil || m.out.recovery || m.out.over != 0 || m.peer == nil || m.ni.loopback ||
		way(&m.ni.NI, &m.peer.PeerNI) == selection.NoTrouble {
		return false
	}
	n := m.node
	dest := n.peers.findUnlocked(m.tx.Header.Dest)
	if dest == nil {
		return false
	}
	r := selection.Request{Source: m.out.source, Dest: &dest.PeerNI, Reserved: m.out.reserved, CPT: selection.UnknownCPT}
	d, err := n.topology.Load().view.Choose(&r)
	return err == nil && !d.Loopback() && way(d.NI, d.Next) < way(&m.ni.NI, &m.peer.PeerNI)
}

// way returns the trouble with the path from i to p. A local link that is down counts as
// worse than any trouble of the peer NI.
func way(i *selection.NI, p *selection.PeerNI) selection.Trouble {
	if i.Fatal.Load() {
		return selection.ReportedDown + 1
	}
	return p.Trouble(i)
}

// forgetStalls removes the stalls that the driver of i has reported, because i no longer
// exists.
func (n *Node) forgetStalls(i *ni) {
	n.peers.each(func(p *peerNI) { p.SetStalled(&i.NI, false) })
}

// PeerTrouble describes problems with a peer NI, besides reduced health. Trouble
// influences the choice of paths; the other fields are for display only.
type PeerTrouble struct {
	selection.Trouble
	// Since is when the peer NI stopped acknowledging, if Trouble is selection.Stalled.
	Since time.Time
	// From is the NID of the local NI for whose messages the peer NI has this trouble. It is
	// zero if the trouble does not depend on the local NI.
	From lnet.NID
	// Failure describes the last failure since a message arrived from the peer NI, such as
	// "connection refused", and FailedAt is its time. Failure is empty if nothing has failed.
	Failure  string
	FailedAt time.Time
}

// troubleInfo returns the worst trouble of the peer NI p, over all local NIs, and its last
// failure.
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

// String returns the trouble and the last failure in words. It returns an empty string if
// there is neither.
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

// troubleSteps returns one explanation for each local NI whose link is down and each peer
// NI with trouble, if messages to the peer p might use them.
func (t *topology) troubleSteps(p *selection.Peer) (steps []selection.Step) {
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
			case selection.ReportedDown:
				steps = append(steps, selection.Step{What: q.NID.String() + ": " + info.Trouble.String() + ", the peer reports"})
			}
			if info.Failure != "" {
				steps = append(steps, selection.Step{What: q.NID.String() + ": " + info.failureText() + ", no message from it since then"})
			}
		}
	}
	return steps
}
