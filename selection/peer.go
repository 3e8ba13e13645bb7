package selection

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// PeerNI holds the attributes of a NID of a peer that selection uses (selection 2). The
// node embeds it, calls Init first, and keeps the exported fields up to date. It continues
// to exist when peers are merged, split and replaced: it belongs to the Peer that
// contained it when Publish was last called.
type PeerNI struct {
	// NID and Owner must not change. Owner is the caller's own record of the peer NI.
	NID   lnet.NID
	Owner any
	net   lnet.Net // the net of NID

	// Up is the last status of the NID that its node or the driver reported.
	Up atomic.Bool
	// Health is 0 to MaxHealth.
	Health atomic.Int32
	// Credits is the number of available send credits. If n messages wait for a credit, it is
	// -n.
	Credits atomic.Int64
	// Queued is the total size in bytes, including headers, of the messages to p that hold a
	// credit or wait for one.
	Queued atomic.Int64

	troubles atomic.Uint64
	priority priority
	turn     atomic.Uint64
	// sources are the local NIDs, and routers the gateways, that policies prefer for messages
	// to this peer NI; nil if no policy does.
	sources atomic.Pointer[preferences]
	routers atomic.Pointer[preferences]
	// first is the NID of the local NI that first exchanged a message with this peer NI. It
	// is preferred, but only if the peer is not multi-rail and policies prefer no NIs.
	first atomic.Pointer[lnet.NID]
	peer  atomic.Pointer[Peer]
}

// Init initializes p as a peer NI with full health, without credits, and not yet part of a
// peer.
func (p *PeerNI) Init(nid lnet.NID, owner any) {
	p.NID, p.Owner, p.net = nid, owner, nid.Net()
	p.Up.Store(true)
	p.Health.Store(MaxHealth)
}

// Peer returns the peer to which p belongs. It returns nil before the first Publish of a
// Peer that contains p.
func (p *PeerNI) Peer() *Peer { return p.peer.Load() }

// Priority returns the priority set by policies, or NoPriority.
func (p *PeerNI) Priority() uint32 { return p.priority.get() }

// Turn returns the number of the last message to p, counted over all messages to its peer.
func (p *PeerNI) Turn() uint64 { return p.turn.Load() }

// Prefer makes i the preferred NI for messages to p (discovery 2.5). It does nothing if p
// already has a preferred NI or belongs to a multi-rail peer. The node calls it when a
// message arrives from an unknown neighbour. In other cases Decision.Commit calls it.
func (p *PeerNI) Prefer(i *NI) {
	if q := p.peer.Load(); q != nil && q.MultiRail || p.sources.Load() != nil {
		return
	}
	if p.first.Load() == nil {
		p.first.CompareAndSwap(nil, &i.NID)
	}
}

// Sources returns the local NIDs from which messages to p are preferably sent: those that
// policies prefer, otherwise that of the NI that first exchanged a message with p. The
// caller owns the slice.
func (p *PeerNI) Sources() []lnet.NID {
	if s := p.sources.Load(); s != nil {
		return s.list()
	}
	if first := p.first.Load(); first != nil {
		return []lnet.NID{*first}
	}
	return nil
}

// Routers returns the primary NIDs of the gateways that policies prefer for messages to p.
// The caller owns the slice.
func (p *PeerNI) Routers() []lnet.NID { return p.routers.Load().list() }

// PeerNet is a net on which a peer has NIDs.
type PeerNet struct {
	ID lnet.Net
	// NIs are in the order in which they were added to the peer. On the primary NID's net,
	// the primary NID is the first.
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

// Identity holds the properties of a peer as a whole that discovery has found.
type Identity struct {
	// Primary is the primary NID of the peer.
	Primary lnet.NID
	// MultiRail reports whether messages may use any NID of the peer.
	MultiRail bool
	// NoDiscovery reports whether the peer does not support discovery.
	NoDiscovery bool
	// RoutingEnabled reports whether the peer's ping info identifies it as a router.
	RoutingEnabled bool
	// Removed reports whether the peer is a gateway that does not answer the router checker.
	Removed bool
}

// Peer is an immutable set of the NIDs of one other node, grouped by net. A change creates
// a new Peer.
type Peer struct {
	Identity
	// Nets are in the order in which they were added. The net of the primary NID is the
	// first.
	Nets []*PeerNet

	turn *atomic.Uint64 // shared by all successive Peers
}

// NewPeer returns a peer with the peer NIs nis, which takes effect with Publish. It
// replaces old: nets that are in old keep their priorities, and turns are shared with old,
// because messages may still use old. If old is nil, the peer to which the first of nis
// belongs is replaced. nis must be in the order in which they were added to the peer,
// except that the primary NID comes first.
func NewPeer(old *Peer, id Identity, nis []*PeerNI) *Peer {
	p := &Peer{Identity: id, Nets: make([]*PeerNet, 0, 1)}
	if old == nil && len(nis) > 0 {
		old = nis[0].Peer() // the peer that was created together with the PeerNI
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
		// i may have a higher turn, from a peer with more traffic. Without this, i would not be
		// used until the turns of this peer have caught up.
		atLeast(p.turn, i.turn.Load())
	}
	return p
}

// atLeast sets turn to least if turn is lower.
func atLeast(turn *atomic.Uint64, least uint64) {
	for {
		now := turn.Load()
		if now >= least || turn.CompareAndSwap(now, least) {
			return
		}
	}
}

// Publish makes p the peer to which its NIDs belong. If p is multi-rail, NIs that are
// preferred because they first exchanged a message with a NID are no longer preferred.
// Preferences of policies remain.
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

// Net returns the peer's net with the ID, or nil if the peer has no NID on it. A nil Peer
// has no nets.
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

// UpOn reports whether the peer has a NID on the net that is up.
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
