package selection

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// PeerNI is what selection looks at in a NID of a peer (selection 2). The node
// embeds it in its own and keeps the exported figures up to date; Init comes
// first. It belongs to the Peer that last took it by Publish, and lives on when
// peers are merged, split and replaced.
type PeerNI struct {
	// NID and Owner do not change; Owner is the caller's.
	NID   lnet.NID
	Owner any
	net   lnet.Net // that of NID

	// Up is the last status that the peer or the driver told of it.
	Up atomic.Bool
	// Health is 0 to MaxHealth.
	Health atomic.Int32
	// Credits are the tx credits left; less than 0 by the number of messages
	// that wait for one.
	Credits atomic.Int64
	// Queued are the bytes, headers included, of messages that hold such a
	// credit or wait for it.
	Queued atomic.Int64

	troubles atomic.Uint64
	priority priority
	turn     atomic.Uint64
	// sources and routers are what policies prefer.
	sources atomic.Pointer[preferences]
	routers atomic.Pointer[preferences]
	// first is the NID of the NI that first served it; only peers that are
	// not multi-rail have one, and only while policies say nothing.
	first atomic.Pointer[lnet.NID]
	peer  atomic.Pointer[Peer]
}

// Init makes p a healthy peer NI without credits, and of no peer yet.
func (p *PeerNI) Init(nid lnet.NID, owner any) {
	p.NID, p.Owner, p.net = nid, owner, nid.Net()
	p.Up.Store(true)
	p.Health.Store(MaxHealth)
}

// Peer is the peer that p belongs to, nil before the first Publish.
func (p *PeerNI) Peer() *Peer { return p.peer.Load() }

// Priority is what policies gave the peer NI, NoPriority if none did.
func (p *PeerNI) Priority() uint32 { return p.priority.get() }

// Turn is the place of the last message to p in the order of all that were sent
// to its peer.
func (p *PeerNI) Turn() uint64 { return p.turn.Load() }

// Prefer notes that i serves p (discovery 2.5). It does nothing if p has a
// preference already, or belongs to a multi-rail peer. A message that arrives
// from an unknown neighbour is such an occasion; Commit sees to the others.
func (p *PeerNI) Prefer(i *NI) {
	if q := p.peer.Load(); q != nil && q.MultiRail || p.sources.Load() != nil {
		return
	}
	if p.first.Load() == nil {
		p.first.CompareAndSwap(nil, &i.NID)
	}
}

// Sources are the local NIDs that p is preferably sent to from: those of the
// policies, else the one that first served it. The caller owns the list.
func (p *PeerNI) Sources() []lnet.NID {
	if s := p.sources.Load(); s != nil {
		return s.list()
	}
	if first := p.first.Load(); first != nil {
		return []lnet.NID{*first}
	}
	return nil
}

// Routers are the primary NIDs of the gateways that policies prefer for p. The
// caller owns the list.
func (p *PeerNI) Routers() []lnet.NID { return p.routers.Load().list() }

// PeerNet is a net on which a peer has NIDs.
type PeerNet struct {
	ID lnet.Net
	// NIs are in the order of attachment, the primary NID first.
	NIs []*PeerNI

	priority priority
	turn     *atomic.Uint64 // of all views of the peer
}

// Priority is what policies gave the net, NoPriority if none did.
func (n *PeerNet) Priority() uint32 { return n.priority.get() }

// Health is the best of the peer NIs.
func (n *PeerNet) Health() int {
	best := int32(0)
	for _, p := range n.NIs {
		best = max(best, p.Health.Load())
	}
	return int(best)
}

// Identity is what discovery knows of a peer as a whole.
type Identity struct {
	// Primary is the NID that the peer goes by.
	Primary lnet.NID
	// MultiRail says that any NID of the peer will do.
	MultiRail bool
	// NoDiscovery says that the peer does not answer to discovery.
	NoDiscovery bool
	// RoutingEnabled says that the peer's ping info calls it a router.
	RoutingEnabled bool
	// Dead says that a gateway did not answer to the router checker.
	Dead bool
}

// Peer is a node and its NIDs at one time.
type Peer struct {
	Identity
	// Nets are in the order of attachment, the primary NID's first.
	Nets []*PeerNet

	turn *atomic.Uint64 // of all views of the peer
}

// NewPeer makes the view of a peer that follows old. If old is nil, it follows what
// the first of nis belongs to. The peer NIs are in the order of attachment, the primary NID first if it
// was attached as that. Priorities of nets that stay are kept; turns are shared
// with old, by which messages may still go. It takes effect with Publish.
func NewPeer(old *Peer, id Identity, nis []*PeerNI) *Peer {
	p := &Peer{Identity: id, Nets: make([]*PeerNet, 0, 1)}
	if old == nil && len(nis) > 0 {
		old = nis[0].Peer() // what was made when it was met
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
		// A NID that comes from a busier peer would else have to wait until
		// this one has caught up.
		raise(p.turn, i.turn.Load())
	}
	return p
}

// raise makes turn at least as large as least.
func raise(turn *atomic.Uint64, least uint64) {
	for {
		now := turn.Load()
		if now >= least || turn.CompareAndSwap(now, least) {
			return
		}
	}
}

// Publish makes p the peer of its NIDs. Those of a multi-rail peer forget which
// NI first served them; what policies prefer stays.
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

// Net is the peer's net with that ID, nil if it has no NID there.
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

// UpOn tells whether the peer has a NID on the net whose status is up.
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
