package node

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// peer is another node, as discovery knows it.
type peer struct {
	view atomic.Pointer[discovery.View] // nil for a moment

	// The rest is the discoverer's.
	rail *selection.Peer
	dead bool // a gateway that did not answer
	// lacks says that it named NIDs for which there was no room.
	lacks bool
	// lists are the NIDs that a gateway last said it has.
	lists []lnet.NID
	check
}

// aliasesMax bounds what matching costs for a peer with many NIDs.
const aliasesMax = 16

// peerNI is what the node keeps of a NID of another node: credits, health and
// figures. The first message makes it, and it stays until its peer is deleted or,
// if nobody configured that, forgotten (see strangers).
//
// The map has the one reference to it that counts. Whoever has found it there may
// use it as long as he likes: when it leaves the map meanwhile its credits still
// come back to it and messages that wait for them go on, and the next message to
// the NID makes another one.
type peerNI struct {
	selection.PeerNI
	// peer is the node that it belongs to; nil: discovery has not heard of it.
	peer atomic.Pointer[peer]
	next atomic.Pointer[peerNI] // peerMap's
	gone atomic.Bool            // not in the map any more

	tx     credits // of messages to it
	router credits // of messages from it that this node forwards
	// lastAlive is a second of the node's clock, 0: never heard. used is when
	// somebody here last had a use for it, 0: never; born when it was made.
	lastAlive, used, born atomic.Int64
	// stalledSince is since when it has not answered, Unix time in ns, while it is
	// in such trouble.
	stalledSince atomic.Int64
	toldMu       sync.Mutex // guards toldDown, and changes of what SetToldDown notes
	// toldDown is when its node last said that it is down, by the node's clock.
	toldDown int64
	// avoidedSince is when its latest trouble became known, by the node's clock.
	avoidedSince atomic.Int64
	failure      atomic.Pointer[failure] // since the last message came from it; nil: none
	// hearsay says that it was made because others spoke of it; spokenBy is the
	// neighbour that did, until it is heard itself.
	hearsay  atomic.Bool
	spokenBy atomic.Pointer[peerNI]
	news     limit.Meter // of what it tells of others
	health   health
	stats    peerStats
}

func newPeerNI(nid lnet.NID) *peerNI {
	p := &peerNI{}
	p.Init(nid, p)
	p.tx.init(&p.Credits, 0)
	p.router.init(new(atomic.Int64), 0)
	p.health.value = &p.Health
	// Until discovery tells more it is a peer of its own.
	selection.NewPeer(nil, selection.Identity{Primary: nid}, []*selection.PeerNI{&p.PeerNI}).Publish()
	return p
}

// peerNIOf is the peer NI of a choice.
func peerNIOf(p *selection.PeerNI) *peerNI {
	if p == nil {
		return nil
	}
	return p.Owner.(*peerNI)
}

// heard notes a sign of life, and tells whether it is the first within this second.
// Who spoke of the peer NI may speak of another one: it is there.
func (p *peerNI) heard(second int64) bool {
	if p.failure.Load() != nil {
		p.failure.Store(nil)
	}
	if p.lastAlive.Load() == second {
		return false
	}
	p.lastAlive.Store(second)
	if by := p.spokenBy.Load(); by != nil && p.spokenBy.CompareAndSwap(by, nil) {
		by.news.Give(newsRate, 1)
	}
	return true
}

// use notes that somebody here has a use for the peer NI.
func (p *peerNI) use(second int64) {
	if p.used.Load() != second {
		p.used.Store(second)
	}
}

// view is what discovery knows of the peer, nil: nothing yet.
func (p *peerNI) view() *discovery.View {
	if q := p.peer.Load(); q != nil {
		return q.view.Load()
	}
	return nil
}

// alone says that the peer has no NID but this.
func (p *peerNI) alone() bool {
	v := p.view()
	return v == nil || len(v.NIDs) <= 1
}

// gateway says that routes lead through the peer.
func (p *peerNI) gateway() bool {
	v := p.view()
	return v != nil && v.Gateway
}

// vouched says that somebody's word stands behind the peer: an administrator's, an
// upper layer's, a route's.
func (p *peerNI) vouched() bool {
	v := p.view()
	return v != nil && (v.Gateway || v.State.Has(discovery.Configured|discovery.LockPrimary))
}

// identity is the primary NID of the node that the peer NI belongs to and what
// that is known by.
func (p *peerNI) identity() (primary lnet.NID, aliases []lnet.NID) {
	v := p.view()
	if v == nil || len(v.NIDs) <= 1 {
		return p.NID, nil
	}
	return v.Primary, v.NIDs[:min(len(v.NIDs), aliasesMax)]
}

// peerFor returns the peer NI with this NID, which it makes if there is none.
func (n *Node) peerFor(nid lnet.NID) *peerNI {
	if p := n.peers.find(nid); p != nil {
		return p
	}
	return n.meet(nid, nil)
}

// meet makes a peer NI, of which discovery hears, and which the NI that it was heard
// on serves from now on.
func (n *Node) meet(nid lnet.NID, i *ni) *peerNI {
	p, made := n.peers.get(nid, n.makePeer)
	if !made {
		return p
	}
	for c := n.compiled.Load(); c != nil; { // until it is the one in force
		c.ApplyPeer(p.Peer())
		now := n.compiled.Load()
		if now == c {
			break
		}
		c = now
	}
	if i != nil {
		p.Prefer(&i.NI)
		p.heard(n.second.Load()) // before the discoverer may think that it is of no use
	} else {
		n.unanswered.some.Store(true)
	}
	n.discoverer.meet(nid)
	return p
}

// unmet makes a peer NI that is nobody's but the caller's, under the policies in
// force.
func (n *Node) unmet(nid lnet.NID) *peerNI {
	p := newPeerNI(nid)
	if c := n.compiled.Load(); c != nil {
		c.ApplyPeer(p.Peer())
	}
	return p
}

// makePeer makes the peer NI for meet, with the credits of its net, if the net is
// there. The map calls it under the lock that peerCreditsChanged takes when the NIs are
// in force: so each peer NI is made with their credits, or gets them there.
func (n *Node) makePeer(nid lnet.NID) *peerNI {
	p := newPeerNI(nid)
	p.born.Store(n.second.Load())
	if i := n.topology.Load().first(nid.Net()); i != nil {
		tx, router := i.creditsPerPeer()
		p.tx.init(p.tx.available, tx)
		p.router.init(p.router.available, router)
	}
	return p
}

// peerCreditsChanged gives the peer NIs on a net the credits that its first NI, i, has
// for each. It returns the messages that have got one: to send, and to forward.
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

// creditsPerPeer is how many messages may be under way to each peer NI on the net,
// and how many from it in the router (lnet-core 7.1).
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

// initiator is the primary NID of the node that a NID belongs to and what else
// that node is known by; p is the peer NI with it, or nil.
func initiator(nid lnet.NID, p *peerNI) (lnet.NID, []lnet.NID) {
	if p == nil {
		return nid, nil
	}
	return p.identity()
}

// Aliveness is whether a peer NI answers, as far as anybody looks (lnet-core
// 10.2).
type Aliveness uint8

// Values of Aliveness.
const (
	AliveUnknown Aliveness = iota
	AliveUp
	AliveDown
)

// String is "NA", "up" or "down".
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
	// ID grows with the peers' youth; see PeersAfter.
	ID discovery.PeerID
	// Primary is the NID that it goes by.
	Primary lnet.NID
	// MultiRail says that any of its NIDs will do.
	MultiRail bool
	// State has discovery's flags.
	State discovery.State
	// Seq is the last sequence number that the peer sent, Told the last of ours
	// that it acknowledged.
	Seq, Told uint32
	// Gateway says that routes lead through the peer.
	Gateway bool
	// Heard reports whether a message has ever come from one of the peer's NIDs, or a
	// program's message has been sent to one.
	Heard bool
	// NIs are grouped by net, the primary NID's net first.
	NIs []PeerNIInfo
}

// PeerNIInfo describes a peer NI (lnet-core 10.2).
type PeerNIInfo struct {
	NID       lnet.NID
	Aliveness Aliveness
	// Credits bound the messages under way to the peer NI, RouterCredits those
	// from it that this node forwards; zero if none of our NIs is on its net.
	Credits, RouterCredits CreditInfo
	// QueuedBytes are the bytes under way or waiting, headers included.
	QueuedBytes int64
	// Refs counts messages under way or waiting, and one more.
	Refs    int
	Traffic Traffic
	Health  Health
	Trouble PeerTrouble
	Policy  PolicyInfo
}

// PolicyInfo is what policies make of an NI or a peer NI.
type PolicyInfo struct {
	// NetPriority and NIDPriority are selection.NoPriority if there is none.
	NetPriority, NIDPriority uint32
	// Gateways and Sources are the NIDs that are preferred for a peer NI.
	Gateways, Sources []lnet.NID
}

// Peers lists the peers, the oldest first: those that messages went to or came
// from, and those that were configured. It panics with ErrInHandler in a handler.
func (n *Node) Peers() []PeerInfo {
	infos := []PeerInfo{}
	for info, err := range n.PeersAfter(n.free().ctx, 0) {
		if err != nil {
			break // a closed node has none
		}
		info.NIs = slices.Clone(info.NIs)
		infos = append(infos, info)
	}
	return infos
}

// peersAtOnce bounds what PeersAfter keeps, and has the discoverer do, at once. A view takes
// about 400 bytes, which a client that does not read keeps.
const peersAtOnce = 64

// PeersAfter yields the peers as Peers lists them, from the first on that is
// younger than the one with the ID, 0 for all, in little memory however many
// there are. They may come and go meanwhile: none comes twice, and none that
// stays is missing. NIs are valid until the next one comes. An error, ErrClosed or
// ctx's, is the last thing that comes; ErrInHandler is, if a handler asks.
func (n *Node) PeersAfter(ctx context.Context, id discovery.PeerID) iter.Seq2[PeerInfo, error] {
	return func(yield func(PeerInfo, error) bool) {
		if err := n.mayWait(); err != nil {
			yield(PeerInfo{}, err)
			return
		}
		views := make([]*discovery.View, 0, peersAtOnce)
		var nis []PeerNIInfo
		var had lnet.NID // of the last one
		for {
			views = views[:0]
			err := n.discoverer.call(ctx, func(m *discovery.Machine) {
				for v := range m.PeersAfter(id, had) {
					if views = append(views, v); len(views) == peersAtOnce {
						break
					}
				}
			})
			if err != nil {
				yield(PeerInfo{}, err)
				return
			}
			for _, v := range views {
				id, had = v.ID, v.Primary
				if v.Primary.IsLoopback() {
					continue
				}
				info, ok := n.peerInfo(v, nis[:0])
				nis = info.NIs
				if ok && !yield(info, nil) {
					return
				}
			}
			if len(views) < peersAtOnce {
				return
			}
		}
	}
}

// Peer describes the peer that has a NID. It panics with ErrInHandler in a handler.
func (n *Node) Peer(nid lnet.NID) (PeerInfo, bool) {
	var v *discovery.View
	if n.free().discoverer.call(n.ctx, func(m *discovery.Machine) { v = m.Find(nid) }) != nil || v == nil {
		return PeerInfo{}, false
	}
	return n.peerInfo(v, nil)
}

// peerInfo describes a peer; its NIs are appended to nis. false: it has gone
// meanwhile.
func (n *Node) peerInfo(v *discovery.View, nis []PeerNIInfo) (PeerInfo, bool) {
	info := PeerInfo{
		NIs: nis,
		ID:  v.ID, Primary: v.Primary, MultiRail: v.State.Has(discovery.MultiRail), State: v.State,
		Seq: v.Seq, Told: v.Told, Gateway: v.Gateway,
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
