package selection

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// UnknownCPT is the CPT of memory or of a device whose location is unknown.
const UnknownCPT = -1

// NI holds the attributes of a local NI that selection uses (selection 2). The node embeds
// it, calls Init first, and keeps the exported fields up to date.
type NI struct {
	// NID, CPT and Owner must not change once the NI is in a Local. CPT is that of the
	// device, or UnknownCPT. Owner is the caller's own record of the NI, so that the caller
	// can find it from a Decision.
	NID   lnet.NID
	CPT   int
	Owner any

	// Fatal is true while the NI's link is down, so that the driver cannot use the NI.
	Fatal atomic.Bool
	// Health is 0 to MaxHealth.
	Health atomic.Int32
	// Credits is the number of available send credits. If n messages wait for a credit, it is
	// -n.
	Credits atomic.Int64

	priority priority
	turn     atomic.Uint64
	number   uint // position of the NI among all that were ever added to a Local, from 1; 0 if it was never added
}

// Init initializes i as an NI with full health and without credits.
func (i *NI) Init(nid lnet.NID, cpt int, owner any) {
	i.NID, i.CPT, i.Owner = nid, cpt, owner
	i.Health.Store(MaxHealth)
}

// Priority returns the priority set by policies, or NoPriority.
func (i *NI) Priority() uint32 { return i.priority.get() }

// Turn returns the number of the last message on the NI, counted over all messages of the
// node. The lower it is, the longer the NI has been idle.
func (i *NI) Turn() uint64 { return i.turn.Load() }

// Net is a net on which the node has NIs.
type Net struct {
	ID lnet.Net
	// NIs are in the order of the configuration.
	NIs []*NI

	priority priority
	turn     atomic.Uint64
}

// Priority returns the priority set by policies, or NoPriority.
func (n *Net) Priority() uint32 { return n.priority.get() }

// Health returns the best health of the NIs whose link is up, or 0 if all links are down.
func (n *Net) Health() int {
	best := int32(0)
	for _, i := range n.NIs {
		if h := i.Health.Load(); h > best && !i.Fatal.Load() {
			best = h
		}
	}
	return int(best)
}

// Local is an immutable set of the nets and NIs of this node.
type Local struct {
	// Nets are in the order of the configuration.
	Nets []*Net

	// loopback is the net of 0@lo, which messages to other nodes cannot use. It is nil if
	// NewLocal was called without an NI 0@lo.
	loopback   *Net
	turn       atomic.Uint64
	lastNumber uint // highest number that was given to an NI
}

// NewLocal returns a Local with these NIs, which are in the order of the configuration. It
// replaces old: nets that are also in old keep their priorities and turns. old may be nil.
func NewLocal(old *Local, nis []*NI) *Local {
	l := &Local{}
	if old != nil {
		l.turn.Store(old.turn.Load())
		l.lastNumber = old.lastNumber
	}
	for _, i := range nis {
		if i.NID.IsLoopback() {
			l.loopback = &Net{ID: lnet.LoNet, NIs: []*NI{i}}
			continue
		}
		if i.number == 0 {
			l.lastNumber++
			i.number = l.lastNumber
		}
		id := i.NID.Net()
		n := l.Net(id)
		if n == nil {
			n = &Net{ID: id}
			if before := old.Net(id); before != nil {
				n.priority.set(before.priority.get())
				n.turn.Store(before.turn.Load())
			}
			l.Nets = append(l.Nets, n)
		}
		n.NIs = append(n.NIs, i)
	}
	return l
}

// Net returns the local net with the ID, or nil if this node has no NI on it. A nil Local
// has no nets.
func (l *Local) Net(id lnet.Net) *Net {
	if l == nil {
		return nil
	}
	for _, n := range l.Nets {
		if n.ID == id {
			return n
		}
	}
	if id == lnet.LoNet {
		return l.loopback
	}
	return nil
}

// Find returns the local NI with the NID, and its net. It returns nil for both if this
// node does not have the NID.
func (l *Local) Find(nid lnet.NID) (*NI, *Net) {
	n := l.Net(nid.Net())
	if n == nil {
		return nil, nil
	}
	for _, i := range n.NIs {
		if i.NID == nid {
			return i, n
		}
	}
	return nil, nil
}
