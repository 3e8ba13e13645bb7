package node

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// peer is another node, with the data that discovery has published about it.
type peer struct {
	view atomic.Pointer[discovery.View] // nil until the first view is published

	// Only the discoverer's goroutine uses the fields below.
	selection *selection.Peer
	removed   bool // it is a gateway that does not answer
	// rejectedNIDs is set if the peer reported NIDs that were rejected because the limit on
	// strangers was reached.
	rejectedNIDs bool
	// reportedNIDs are the NIDs that the gateway last reported as its own.
	reportedNIDs []lnet.NID
	check
}

// aliasesMax is how many NIDs of a peer match entries compare. It limits the cost of
// matching for a peer with many NIDs.
const aliasesMax = 16

// peerNI holds what this node keeps about one NID of another node: credits, health and
// counters. The first message to or from the NID creates it. It exists until its peer is
// deleted or, if the peer is not configured, evicted (see strangers).
//
// A caller that has found a peerNI in the map may use it for any time, even if it is
// removed from the map meanwhile. Its credits are still released to it, and messages that
// wait for them continue. The next message to the NID creates another peerNI.
type peerNI struct {
	selection.PeerNI
	// peer is the node to which this NID belongs. It is nil as long as discovery does not
	// know the NID.
	peer atomic.Pointer[peer]
	next atomic.Pointer[peerNI] // used by peerMap
	gone atomic.Bool            // removed from the map

	neighbour lnd.Neighbour // the driver's record of it

	tx     credits // for messages to it
	router credits // for messages from it that this node forwards
	// Times in seconds of the node's clock; 0 means never. lastAlive is when a message last
	// arrived from this NID. used is when this node last used it (see countsAsUse). created
	// is when the peerNI was created.
	lastAlive, used, created atomic.Int64
	// stalledSince is when the peer NI stopped acknowledging, in Unix time in nanoseconds. It
	// is valid only while the peer NI is stalled.
	stalledSince atomic.Int64
	reportedMu   sync.Mutex // guards reportedDown, and calls of SetReportedDown
	// reportedDown is when the peer last reported this NID as down, by the node's clock.
	reportedDown int64
	// avoidedSince is when the latest trouble of the peer NI was detected, by the node's
	// clock.
	avoidedSince atomic.Int64
	failure      atomic.Pointer[failure] // the last failure since a message arrived from it; nil if none
	// mentioned is set if the peerNI was created because another node mentioned the NID.
	// mentionedBy is the neighbour that mentioned it, until a message arrives from the NID
	// itself.
	mentioned   atomic.Bool
	mentionedBy atomic.Pointer[peerNI]
	mentions    limit.Meter // limits how many unknown NIDs this neighbour may mention
	health      health
	stats       peerStats
}

func newPeerNI(nid lnet.NID) *peerNI {
	p := &peerNI{}
	p.Init(nid, p)
	p.tx.init(&p.Credits, 0)
	p.router.init(new(atomic.Int64), 0)
	p.health.value = &p.Health
	// Until discovery knows more, it is a separate peer.
	selection.NewPeer(nil, selection.Identity{Primary: nid}, []*selection.PeerNI{&p.PeerNI}).Publish()
	return p
}

// peerNIOf returns the peerNI that contains p. If p is nil, it returns nil.
func peerNIOf(p *selection.PeerNI) *peerNI {
	if p == nil {
		return nil
	}
	return p.Owner.(*peerNI)
}

// noteAlive records that a message has arrived from the peer NI, and reports whether it is
// the first within this second. If another node had mentioned the NID, that node may
// mention one more, because the NID has proved to exist.
func (p *peerNI) noteAlive(second int64) bool {
	if p.failure.Load() != nil {
		p.failure.Store(nil)
	}
	if p.lastAlive.Load() == second {
		return false
	}
	p.lastAlive.Store(second)
	if by := p.mentionedBy.Load(); by != nil && p.mentionedBy.CompareAndSwap(by, nil) {
		by.mentions.Return(mentionRate, 1)
	}
	return true
}

// noteUse records that this node uses the peer NI now, which protects it from eviction.
func (p *peerNI) noteUse(second int64) {
	if p.used.Load() != second {
		p.used.Store(second)
	}
}

// view returns what discovery knows about the peer, or nil if nothing is known yet.
func (p *peerNI) view() *discovery.View {
	if q := p.peer.Load(); q != nil {
		return q.view.Load()
	}
	return nil
}

// isOnlyNID reports whether the peer to which p belongs has no other NID.
func (p *peerNI) isOnlyNID() bool {
	v := p.view()
	return v == nil || len(v.NIDs) <= 1
}

// gateway reports whether routes lead through the peer to which p belongs.
func (p *peerNI) gateway() bool {
	v := p.view()
	return v != nil && v.Gateway
}

// isConfigured reports whether the peer was configured: by an administrator, by an upper
// layer, or as the gateway of a route.
func (p *peerNI) isConfigured() bool {
	v := p.view()
	return v != nil && (v.Gateway || v.State.Has(discovery.Configured|discovery.LockPrimary))
}

// identity returns the primary NID of the node to which the peer NI belongs, and all NIDs
// of that node that match entries compare. aliases is nil if the node has only this NID.
func (p *peerNI) identity() (primary lnet.NID, aliases []lnet.NID) {
	v := p.view()
	if v == nil || len(v.NIDs) <= 1 {
		return p.NID, nil
	}
	return v.Primary, v.NIDs[:min(len(v.NIDs), aliasesMax)]
}

// peerFor returns the peer NI with this NID. It creates the peer NI if needed.
func (n *Node) peerFor(nid lnet.NID) *peerNI {
	if p := n.peers.find(nid); p != nil {
		return p
	}
	return n.makePeerNI(nid, nil)
}

// makePeerNI creates the peer NI with this NID, unless it exists, and announces it to
// discovery. If i is not nil, a message from the NID has arrived on i, and i becomes the
// preferred NI for messages to it.
func (n *Node) makePeerNI(nid lnet.NID, i *ni) *peerNI {
	p, made := n.peers.get(nid, n.makePeer)
	if !made {
		return p
	}
	for c := n.compiled.Load(); c != nil; { // repeated if the policies were replaced meanwhile
		c.ApplyPeer(p.Peer())
		now := n.compiled.Load()
		if now == c {
			break
		}
		c = now
	}
	if i != nil {
		p.Prefer(&i.NI)
		p.noteAlive(n.second.Load()) // before the discoverer can evict it as unused
	} else {
		n.unanswered.possible.Store(true)
	}
	n.discoverer.announce(nid)
	return p
}

// newUnlistedPeerNI returns a new peer NI for a single message. It has the current
// policies, but is not in the map of peers and unknown to discovery.
func (n *Node) newUnlistedPeerNI(nid lnet.NID) *peerNI {
	p := newPeerNI(nid)
	if c := n.compiled.Load(); c != nil {
		c.ApplyPeer(p.Peer())
	}
	return p
}

// makePeer creates a peer NI with the credits of its net, if this node has an NI on that
// net. The map calls it while it holds the lock of a shard, which peerCreditsChanged
// acquires after the NIs have changed. So each peer NI is either created with the current
// credits or updated by peerCreditsChanged.
func (n *Node) makePeer(nid lnet.NID) *peerNI {
	p := newPeerNI(nid)
	p.created.Store(n.second.Load())
	if i := n.topology.Load().first(nid.Net()); i != nil {
		tx, router := i.creditsPerPeer()
		p.tx.init(p.tx.available, tx)
		p.router.init(p.router.available, router)
	}
	return p
}

// peerCreditsChanged updates the credits of all peer NIs on a net after an NI was added to
// it. i is the first NI on the net; its tunables determine the credits. The results are
// the waiting messages that receive a credit: sends are to be sent, forwards to be
// forwarded.
func (n *Node) peerCreditsChanged(i *ni) (sends, forwards messageQueue) {
	tx, router := i.creditsPerPeer()
	n.peers.each(func(p *peerNI) {
		if p.NID.Net() != i.net {
			return
		}
		if int(p.tx.limit.Load()) != tx {
			more := p.tx.resize(tx)
			for m := more.head; m != nil; m = m.next {
				m.out.held, m.out.waited = heldPeer, true
			}
			sends.append(&more)
		}
		if int(p.router.limit.Load()) != router {
			more := p.router.resize(router)
			forwards.append(&more)
		}
	})
	return sends, forwards
}

// creditsPerPeer returns how many messages may be under way to each peer NI on the NI's
// net, and how many messages from it this node may hold for forwarding (lnet-core 7.1).
func (i *ni) creditsPerPeer() (tx, router int) {
	tx, router = i.tunables.PeerCredits, i.tunables.PeerBufferCredits
	if router <= 0 {
		router = i.node.parameters.Load().PeerBufferCredits
	}
	if router <= 0 {
		router = tx
	}
	return tx, router
}

// initiator returns the primary NID of the node to which nid belongs, and all NIDs of that
// node that match entries compare. p is the peer NI with nid. If p is nil, initiator
// returns nid and no other NIDs.
func initiator(nid lnet.NID, p *peerNI) (lnet.NID, []lnet.NID) {
	if p == nil {
		return nid, nil
	}
	return p.identity()
}

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
	info := PeerNIInfo{
		NID: p.NID, QueuedBytes: p.Queued.Load(), Refs: 1,
		Traffic: p.stats.traffic(), Health: n.healthInfo(&p.health, &p.stats.trafficStats), Trouble: t.troubleInfo(p),
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
