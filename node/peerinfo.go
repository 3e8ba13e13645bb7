package node

import (
	"context"
	"iter"
	"slices"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// Aliveness describes whether a peer NI is known to answer (lnet-core 10.2).
type Aliveness uint8

// Values of Aliveness.
const (
	AliveUnknown Aliveness = iota
	AliveUp
	AliveDown
)

// String returns "NA", "up" or "down".
func (a Aliveness) String() string {
	switch a {
	case AliveUp:
		return "up"
	case AliveDown:
		return "down"
	}
	return "NA"
}

// PeerInfo describes a peer.
type PeerInfo struct {
	// ID is larger for peers that were created later; see PeersAfter.
	ID discovery.PeerID
	// Primary is the primary NID.
	Primary lnet.NID
	// MultiRail reports whether messages may use all NIDs of the peer.
	MultiRail bool
	// State holds the flags of discovery.
	State discovery.State
	// Seq is the last sequence number that the peer sent. AckedSeq is the last sequence number of
	// this node that the peer acknowledged.
	Seq, AckedSeq uint32
	// Gateway reports whether routes lead through the peer.
	Gateway bool
	// Heard reports whether a message has ever arrived from one of the peer's NIDs, or a
	// program's message was sent to one of them.
	Heard bool
	// NIs are the peer NIs, grouped by net. The net of the primary NID comes first.
	NIs []PeerNIInfo
}

// PeerNIInfo describes a peer NI (lnet-core 10.2).
type PeerNIInfo struct {
	NID       lnet.NID
	Aliveness Aliveness
	// Credits limit the messages under way to the peer NI. RouterCredits limit the messages
	// from it that this node holds for forwarding. Both are zero if this node has no NI on
	// the peer NI's net.
	Credits, RouterCredits CreditInfo
	// QueuedBytes is the number of bytes of messages to the peer NI that are under way or
	// waiting, including headers.
	QueuedBytes int64
	// Refs is the number of messages to the peer NI that are under way or waiting, plus one.
	Refs    int
	Traffic Traffic
	Health  Health
	Trouble PeerTrouble
	Policy  PolicyInfo
}

// PolicyInfo describes the effect of policies on an NI or a peer NI.
type PolicyInfo struct {
	// NetPriority and NIDPriority are selection.NoPriority if they are not set.
	NetPriority, NIDPriority uint32
	// Gateways and Sources are the NIDs of the routers and of the local NIs that policies
	// prefer for a peer NI.
	Gateways, Sources []lnet.NID
}

// Peers lists all peers, oldest first, with which messages were exchanged or that were
// configured. It panics with ErrInHandler if a handler calls it.
func (n *Node) Peers() []PeerInfo {
	if !n.isMade() {
		return nil
	}
	n.panicInHandler()
	infos := []PeerInfo{}
	for info, err := range n.Admin().PeersAfter(n.ctx, 0) {
		if err != nil {
			break // a closed node has no peers
		}
		info.NIs = slices.Clone(info.NIs)
		infos = append(infos, info)
	}
	return infos
}

// peersAtOnce is how many peers are requested from the discoverer at a time. A view of a
// peer takes about 400 bytes, which stay allocated while the loop body runs.
const peersAtOnce = 64

// PeersAfter returns an iterator over the peers in the order of Peers. It starts after the
// peer with the given ID, or with the first peer if id is 0. It needs little memory even
// for many peers. If peers are added or removed during the iteration, no peer is returned
// twice, and every peer that remains is returned. PeerInfo.NIs is valid until the next
// element. If there is an error, it is the last element: ErrClosed, ctx's error, or
// ErrInHandler if a handler calls it.
func (a *Admin) PeersAfter(ctx context.Context, id discovery.PeerID) iter.Seq2[PeerInfo, error] {
	var had lnet.NID // primary NID of the previous peer
	return a.n.peersBy(ctx, func(m *discovery.Machine, views []*discovery.View) ([]*discovery.View, bool) {
		for v := range m.PeersAfter(id, had) {
			if views = append(views, v); len(views) == peersAtOnce {
				break
			}
		}
		if len(views) > 0 {
			last := views[len(views)-1]
			id, had = last.ID, last.Primary
		}
		return views, len(views) == peersAtOnce
	})
}

// PeersOf returns an iterator, to be used once, over the peers that have the given NIDs, in
// the order of the NIDs. No peer is returned twice, and NIDs without a peer are skipped. The
// elements are those of PeersAfter. The caller must not change nids during the iteration.
func (a *Admin) PeersOf(ctx context.Context, nids []lnet.NID) iter.Seq2[PeerInfo, error] {
	seen := map[discovery.PeerID]bool{}
	return a.n.peersBy(ctx, func(m *discovery.Machine, views []*discovery.View) ([]*discovery.View, bool) {
		some := nids[:min(len(nids), peersAtOnce)]
		nids = nids[len(some):]
		for _, nid := range some {
			if v := m.Find(nid); v != nil && !seen[v.ID] {
				seen[v.ID] = true
				views = append(views, v)
			}
		}
		return views, len(nids) > 0
	})
}

// peersBy returns an iterator over the peers whose views next returns. The discoverer calls
// next, which appends to the empty slice views, until it returns false.
func (n *Node) peersBy(
	ctx context.Context, next func(m *discovery.Machine, views []*discovery.View) (_ []*discovery.View, more bool),
) iter.Seq2[PeerInfo, error] {
	return func(yield func(PeerInfo, error) bool) {
		if err := n.checkMayBlock(); err != nil {
			yield(PeerInfo{}, err)
			return
		}
		views := make([]*discovery.View, 0, peersAtOnce)
		var nis []PeerNIInfo
		for more := true; more; {
			err := n.discoverer.call(ctx, func(m *discovery.Machine) { views, more = next(m, views[:0]) })
			if err != nil {
				yield(PeerInfo{}, err)
				return
			}
			for _, v := range views {
				if v.Primary.IsLoopback() {
					continue
				}
				info, ok := n.peerInfo(v, nis[:0])
				nis = info.NIs
				if ok && !yield(info, nil) {
					return
				}
			}
		}
	}
}

// Peer describes the peer that has nid. It returns false if no peer has this NID. It
// panics with ErrInHandler if a handler calls it.
func (n *Node) Peer(nid lnet.NID) (PeerInfo, bool) {
	if !n.isMade() {
		return PeerInfo{}, false
	}
	n.panicInHandler()
	var v *discovery.View
	if n.discoverer.call(n.ctx, func(m *discovery.Machine) { v = m.Find(nid) }) != nil || v == nil {
		return PeerInfo{}, false
	}
	return n.peerInfo(v, nil)
}

// peerInfo describes the peer with the view v and appends its NIs to nis. It returns false
// if the peer has been removed.
func (n *Node) peerInfo(v *discovery.View, nis []PeerNIInfo) (PeerInfo, bool) {
	info := PeerInfo{
		NIs: nis,
		ID:  v.ID, Primary: v.Primary, MultiRail: v.State.Has(discovery.MultiRail), State: v.State,
		Seq: v.Seq, AckedSeq: v.AckedSeq, Gateway: v.Gateway,
	}
	t := n.topology.Load()
	for _, nid := range v.NIDs {
		if p := n.peers.find(nid); p != nil {
			info.Heard = info.Heard || p.lastAlive.Load() != 0 || p.used.Load() != 0
			info.NIs = append(info.NIs, n.peerNIInfo(p, v, t))
		}
	}
	return info, len(info.NIs) > len(nis)
}

func (n *Node) peerNIInfo(p *peerNI, v *discovery.View, t *topology) PeerNIInfo {
	stats := p.stats.Load()
	if stats == nil {
		stats = &noStats
	}
	info := PeerNIInfo{
		NID: p.NID, QueuedBytes: p.Queued.Load(), Refs: 1,
		Traffic: stats.traffic(), Health: n.healthInfo(&p.health, &stats.trafficStats), Trouble: t.troubleInfo(p),
		Policy: PolicyInfo{
			NetPriority: selection.NoPriority, NIDPriority: p.Priority(), Gateways: p.Routers(), Sources: p.Sources(),
		},
	}
	if net := p.Peer().Net(p.NID.Net()); net != nil {
		info.Policy.NetPriority = net.Priority()
	}
	i := t.first(p.NID.Net())
	if i != nil {
		info.Credits, info.RouterCredits = p.tx.info(), p.router.info()
		info.Refs += max(0, info.Credits.Max-info.Credits.Available)
	}
	if v.Gateway || n.router.forwards() && i != nil && i.tunables.PeerTimeout > 0 {
		info.Aliveness = AliveDown
		if p.Up.Load() {
			info.Aliveness = AliveUp
		}
	}
	return info
}
