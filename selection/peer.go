package selection

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// PeerNI holds the attributes of a NID of a peer that selection uses (selection 2). The
// node embeds it, calls Init first, and keeps the exported fields up to date. A PeerNI
// belongs to the Peer that was last published with it. It remains when peers are merged,
// split and replaced.
type PeerNI struct {
	// NID and Owner do not change. Owner is for the caller.
	NID   lnet.NID
	Owner any
	net   lnet.Net // the net of NID

	// Up is the last status that the peer or the driver reported.
	Up atomic.Bool
	// Health is 0 to MaxHealth.
	Health atomic.Int32
	// Credits is the number of available send credits. If messages wait for a credit, it is
	// minus their number.
	Credits atomic.Int64
	// Queued is the size in bytes, including headers, of messages that hold or wait for a
	// credit.
	Queued atomic.Int64

	troubles atomic.Uint64
	priority priority
	turn     atomic.Uint64
	// sources and routers are the preferences set by policies.
	sources atomic.Pointer[preferences]
	routers atomic.Pointer[preferences]
	// first is the NID of the local NI that first served this peer NI. It is used only if
	// the peer is not multi-rail and policies set no sources.
	first atomic.Pointer[lnet.NID]
	peer  atomic.Pointer[Peer]
}

// Init sets p to a healthy peer NI without credits that does not belong to a peer.
func (p *PeerNI) Init(nid lnet.NID, owner any) {
	p.NID, p.Owner, p.net = nid, owner, nid.Net()
	p.Up.Store(true)
	p.Health.Store(MaxHealth)
}

// Peer returns the peer that p belongs to, or nil before the first Publish.
func (p *PeerNI) Peer() *Peer { return p.peer.Load() }

// Priority returns the priority set by policies, or NoPriority.
func (p *PeerNI) Priority() uint32 { return p.priority.get() }

// Turn returns the sequence number, among all messages to the peer, of the last message to
// p.
func (p *PeerNI) Turn() uint64 { return p.turn.Load() }

// Prefer records i as the preferred NI for p (discovery 2.5). It does nothing if p already
// has a preference or belongs to a multi-rail peer. The node calls it when a message
// arrives from an unknown neighbour; Commit handles the other cases.
func (p *PeerNI) Prefer(i *NI) {
	if q := p.peer.Load(); q != nil && q.MultiRail || p.sources.Load() != nil {
		return
	}
	if p.first.Load() == nil {
		p.first.CompareAndSwap(nil, &i.NID)
	}
}

// Sources returns the local NIDs from which p is preferably reached: those set by policies,
// otherwise the NI that first served it. The caller owns the slice.
func (p *PeerNI) Sources() []lnet.NID {
	if s := p.sources.Load(); s != nil {
		return s.list()
	}
	if first := p.first.Load(); first != nil {
		return []lnet.NID{*first}
	}
	return nil
}

// Routers returns the primary NIDs of the gateways that policies prefer for p. The caller
// owns the slice.
func (p *PeerNI) Routers() []lnet.NID { return p.routers.Load().list() }

// PeerNet is a net on which a peer has NIDs.
type PeerNet struct {
	ID lnet.Net
	// NIs are in the order in which they were attached, with the primary NID first.
	NIs []*PeerNI

	priority priority
	turn     *atomic.Uint64 // shared by all successive Peers
}

// Priority returns the priority set by policies, or NoPriority.
func (n *PeerNet) Priority() uint32 { return n.priority.get() }

// Health returns the best health of the peer NIs.
func (n *PeerNet) Health() int {
	best := int32(0)
	for _, p := range n.NIs {
		best = max(best, p.Health.Load())
	}
	return int(best)
}

// Identity is what discovery has found about a peer as a whole.
type Identity struct {
	// Primary is the primary NID of the peer.
	Primary lnet.NID
	// MultiRail reports whether any NID of the peer may be used.
	MultiRail bool
	// NoDiscovery reports whether the peer does not support discovery.
	NoDiscovery bool
	// RoutingEnabled reports whether the peer's ping info identifies it as a router.
	RoutingEnabled bool
	// Removed reports that a gateway did not answer the router checker.
	Removed bool
}

// Peer is an immutable set of the NIDs of another node.
type Peer struct {
	Identity
	// Nets are in the order in which they were attached, with the net of the primary NID
	// first.
	Nets []*PeerNet

	turn *atomic.Uint64 // shared by all successive Peers
}

// NewPeer returns the successor of old with the peer NIs nis. If old is nil, it is the
// successor of the peer that the first of nis belongs to. nis are in the order in which
// they were attached, with the primary NID first if it was attached as that. Nets that are
// in old keep their priorities. Turns are shared with old, because messages may still use
// it. The new peer takes effect with Publish.
func NewPeer(old *Peer, id Identity, nis []*PeerNI) *Peer {
	p := &Peer{Identity: id, Nets: make([]*PeerNet, 0, 1)}
	if old == nil && len(nis) > 0 {
		old = nis[0].Peer() // created when a message first came from or went to the NID
	}
	if old != nil {
		p.turn = old.turn
	} else {
		p.turn = new(atomic.Uint64)
	}
	for _, i := range nis {
		net := i.NID.Net()
		n := p.Net(net)
		if n == nil {
			n = &PeerNet{ID: net, NIs: make([]*PeerNI, 0, 1)}
			if before := old.Net(net); before != nil {
				n.priority.set(before.priority.get())
				n.turn = before.turn
			} else {
				n.turn = new(atomic.Uint64)
			}
			p.Nets = append(p.Nets, n)
		}
		n.NIs = append(n.NIs, i)
		// A NID from a peer with more traffic would otherwise have to wait until this peer
		// has caught up.
		atLeast(p.turn, i.turn.Load())
	}
	return p
}

// atLeast sets turn to least if it is lower.
func atLeast(turn *atomic.Uint64, least uint64) {
	for {
		now := turn.Load()
		if now >= least || turn.CompareAndSwap(now, least) {
			return
		}
	}
}

// Publish makes p the peer of its NIDs. If p is multi-rail, the NIs that first served them
// are discarded. Preferences of policies remain.
func (p *Peer) Publish() {
	for _, n := range p.Nets {
		for _, i := range n.NIs {
			i.peer.Store(p)
			if p.MultiRail {
				i.first.Store(nil)
			}
		}
	}
}

// Net returns the peer's net with the ID, or nil if the peer has no NID there.
func (p *Peer) Net(id lnet.Net) *PeerNet {
	if p == nil {
		return nil
	}
	for _, n := range p.Nets {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// UpOn reports whether the peer has a NID on the net whose status is up.
func (p *Peer) UpOn(net lnet.Net) bool {
	n := p.Net(net)
	if n == nil {
		return false
	}
	for _, i := range n.NIs {
		if i.Up.Load() {
			return true
		}
	}
	return false
}
