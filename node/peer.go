package node

import (
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
	// mentioned is set if the peerNI was created because another node mentioned the NID.
	mentioned atomic.Bool

	neighbour lnd.Neighbour // the driver's record of it

	tx         credits // for messages to it
	router     credits // for messages from it that this node forwards
	routerFree atomic.Int64
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
	// mentionedBy is the neighbour that mentioned the NID, until a message arrives from the
	// NID itself.
	mentionedBy atomic.Pointer[peerNI]
	mentions    limit.Meter // limits how many unknown NIDs this neighbour may mention
	health      health
	// stats is nil until something is counted, because a node may have very many peer NIs that
	// it exchanges no messages with. Use counters to count.
	stats atomic.Pointer[peerStats]
}

func newPeerNI(nid lnet.NID) *peerNI {
	p := &peerNI{}
	p.Init(nid, p)
	p.tx.init(&p.Credits, 0)
	p.router.init(&p.routerFree, 0)
	p.health.value = &p.Health
	// Until discovery knows more, it is a separate peer.
	selection.NewPeer(nil, selection.Identity{Primary: nid}, []*selection.PeerNI{&p.PeerNI}).Publish()
	return p
}

// noStats are the counters of peer NIs for which nothing was counted.
var noStats peerStats

// counters returns the counters of p. The first call creates them.
func (p *peerNI) counters() *peerStats {
	if s := p.stats.Load(); s != nil {
		return s
	}
	return p.makeCounters()
}

func (p *peerNI) makeCounters() *peerStats {
	p.stats.CompareAndSwap(nil, new(peerStats))
	return p.stats.Load()
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

// removePeerNI removes p from the map and adds its counters to those of removed peer NIs. The
// discoverer calls it.
func (n *Node) removePeerNI(p *peerNI) {
	n.infoMu.Lock() // against ResetCounters
	defer n.infoMu.Unlock()
	n.peers.remove(p)
	if s := p.stats.Load(); s != nil {
		s.addTo(&n.removedStats)
	}
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
