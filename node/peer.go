package node

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// peer is another node that is known by several NIDs. It never changes: a new
// one replaces it.
type peer struct {
	primary lnet.NID
	nids    []lnet.NID // the primary one first
	nis     []*peerNI  // of the same order
	// aliases are NIDs but the primary one, for entries that were attached
	// under one of them before the node knew to whom it belongs.
	aliases []lnet.NID
}

// aliasesMax bounds what matching costs for a peer with many NIDs.
const aliasesMax = 16

// peerNI is what the node keeps of a NID of another node: credits, health and
// figures. It is made by the first message, and stays (discovery 2.4).
type peerNI struct {
	nid lnet.NID
	// peer is the node that it belongs to; nil: one that has this NID alone.
	peer atomic.Pointer[peer]
	next atomic.Pointer[peerNI] // peerMap's

	credits credits
	queued  atomic.Int64  // bytes under way or waiting, headers included
	turn    atomic.Uint64 // messages that were sent to it by choice

	// preferred is the NI that first served a peer that is known by one NID
	// (discovery 2.5).
	preferred atomic.Pointer[ni]
	lastAlive atomic.Int64 // second of the node's clock; 0: never heard
	health    health
	stats     trafficStats
}

// heard notes a sign of life.
func (p *peerNI) heard(second int64) {
	if p.lastAlive.Load() != second {
		p.lastAlive.Store(second)
	}
}

// prefer makes i the NI that serves the peer NI, if it has none.
func (p *peerNI) prefer(i *ni) {
	if q := p.preferred.Load(); q == nil || q.closing.Load() {
		p.preferred.CompareAndSwap(q, i)
	}
}

// alone says that the peer has no NID but this.
func (p *peerNI) alone() bool {
	q := p.peer.Load()
	return q == nil || len(q.nids) == 1
}

// primary is the primary NID of the node that the peer NI belongs to.
func (p *peerNI) primary() lnet.NID {
	if q := p.peer.Load(); q != nil {
		return q.primary
	}
	return p.nid
}

// peerFor returns the peer NI with this NID, a new one if need be. It has the
// credits that an NI on its net has for each, or, with a nil NI, none for now.
func (n *Node) peerFor(nid lnet.NID, i *ni) *peerNI {
	p := n.peers.get(nid)
	if i != nil && p.credits.limit.Load() == 0 {
		n.giveCredits(p, i.tunables.PeerCredits)
	}
	return p
}

// giveCredits sets how many credits p has (lnet-core 7.1).
func (n *Node) giveCredits(p *peerNI, limit int) {
	ready := p.credits.resize(limit)
	n.transmitAll(&ready)
}

// initiator is the primary NID of the node that a NID belongs to and what else
// that node is known by.
func (n *Node) initiator(nid lnet.NID, neighbour *peerNI) (lnet.NID, []lnet.NID) {
	p := neighbour
	if p == nil || p.nid != nid {
		p = n.peers.find(nid)
	}
	if p == nil {
		return nid, nil
	}
	if q := p.peer.Load(); q != nil {
		return q.primary, q.aliases
	}
	return nid, nil
}

// AddPeer says that a node has all these NIDs and is known by the first, its
// primary one: messages for one of them may go to any. A peer with that
// primary NID gets them in place of those it had. ErrExists: a NID belongs to
// another such peer; ErrInvalid: a NID makes no sense, or is ours.
func (n *Node) AddPeer(primary lnet.NID, others ...lnet.NID) error {
	nids := append([]lnet.NID{primary}, others...)
	if err := n.addPeer(nids); err != nil {
		return fmt.Errorf("add peer %s: %w", primary, err)
	}
	return nil
}

func (n *Node) addPeer(nids []lnet.NID) error {
	for k, nid := range nids {
		switch {
		case nid.IsZero() || nid.IsAny() || nid.IsLoopback():
			return fmt.Errorf("nid %s: %w", nid, ErrInvalid)
		case slices.Contains(nids[:k], nid):
			return fmt.Errorf("nid %s: twice: %w", nid, ErrInvalid)
		}
	}
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	for _, nid := range nids {
		if n.topology.Load().find(nid) != nil {
			return fmt.Errorf("nid %s: of this node: %w", nid, ErrInvalid)
		}
		if p := n.peers.find(nid); p != nil {
			if q := p.peer.Load(); q != nil && q.primary != nids[0] {
				return fmt.Errorf("nid %s: of peer %s: %w", nid, q.primary, ErrExists)
			}
		}
	}
	q := &peer{primary: nids[0], nids: slices.Clone(nids), aliases: slices.Clone(nids[1:min(len(nids), 1+aliasesMax)])}
	for _, nid := range nids {
		q.nis = append(q.nis, n.peerFor(nid, n.topology.Load().first(nid.Net())))
	}
	if old := q.nis[0].peer.Load(); old != nil {
		for _, p := range old.nis {
			p.peer.Store(nil)
		}
	}
	for _, p := range q.nis {
		p.peer.Store(q)
	}
	return nil
}

var errNotPrimary = errors.New("not the primary NID of a configured peer")

// RemovePeer undoes AddPeer: each NID stands for itself again. ErrNotFound if
// primary is not the primary NID of such a peer.
func (n *Node) RemovePeer(primary lnet.NID) error {
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	p := n.peers.find(primary)
	if p == nil {
		return fmt.Errorf("remove peer %s: %w", primary, ErrNotFound)
	}
	q := p.peer.Load()
	if q == nil || q.primary != primary {
		return fmt.Errorf("remove peer %s: %w: %w", primary, errNotPrimary, ErrNotFound)
	}
	for _, p := range q.nis {
		p.peer.Store(nil)
	}
	return nil
}

// PeerInfo describes a peer NI (lnet-core 10.2).
type PeerInfo struct {
	NID lnet.NID
	// Primary is the primary NID of the node that it belongs to.
	Primary lnet.NID
	// Credits bound the messages under way to the peer NI; zero if none of our
	// NIs is on its net.
	Credits CreditInfo
	// QueuedBytes are the bytes under way or waiting, headers included.
	QueuedBytes int64
	Traffic     Traffic
	Health      Health
}

// Peers lists the peer NIs that messages went to or came from, and those of
// AddPeer, by NID.
func (n *Node) Peers() []PeerInfo {
	var all []PeerInfo
	t := n.topology.Load()
	n.peers.each(func(p *peerNI) {
		info := PeerInfo{
			NID: p.nid, Primary: p.primary(), QueuedBytes: p.queued.Load(),
			Traffic: p.stats.traffic(), Health: n.healthInfo(&p.health, &p.stats),
		}
		if t.first(p.nid.Net()) != nil {
			info.Credits = p.credits.info()
		}
		all = append(all, info)
	})
	slices.SortFunc(all, func(a, b PeerInfo) int { return a.NID.Compare(b.NID) })
	return all
}
