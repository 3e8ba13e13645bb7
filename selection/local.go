package selection

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// UnknownCPT is the CPT of memory or of a device of which nobody knows where
// it is.
const UnknownCPT = -1

// NI is what selection looks at in a local NI (selection 2). The node embeds
// it in its own and keeps the exported figures up to date; Init comes first.
type NI struct {
	// NID, CPT (of the device; UnknownCPT) and Owner do not change once the NI
	// is in a Local. Owner is the caller's, to get back from a Decision to
	// what it keeps of the NI.
	NID   lnet.NID
	CPT   int
	Owner any

	// Fatal says that the driver cannot use the NI: its link is down.
	Fatal atomic.Bool
	// Health is 0 to MaxHealth.
	Health atomic.Int32
	// Credits are the tx credits left; less than 0 by the number of messages
	// that wait for one.
	Credits atomic.Int64

	priority priority
	turn     atomic.Uint64
	place    uint // among all NIs that there have been; 0 before it is in a Local
}

// Init makes i a healthy NI without credits.
func (i *NI) Init(nid lnet.NID, cpt int, owner any) {
	i.NID, i.CPT, i.Owner = nid, cpt, owner
	i.Health.Store(MaxHealth)
}

// Priority is what policies gave the NI, NoPriority if none did.
func (i *NI) Priority() uint32 { return i.priority.get() }

// Turn is the place of the last message on the NI in the order of all that the
// node sent: the lower, the longer it has been idle.
func (i *NI) Turn() uint64 { return i.turn.Load() }

// Net is a net on which the node has NIs.
type Net struct {
	ID lnet.Net
	// NIs are in the order of configuration.
	NIs []*NI

	priority priority
	turn     atomic.Uint64
}

// Priority is what policies gave the net, NoPriority if none did.
func (n *Net) Priority() uint32 { return n.priority.get() }

// Health is the best of the NIs that are not fatal, 0 if all are.
func (n *Net) Health() int {
	best := int32(0)
	for _, i := range n.NIs {
		if h := i.Health.Load(); h > best && !i.Fatal.Load() {
			best = h
		}
	}
	return int(best)
}

// Local is the nets and NIs of the node at one time.
type Local struct {
	// Nets are in the order of configuration.
	Nets []*Net

	// loopback is the net of 0@lo, which is no rail like others; nil if that
	// NI was not given.
	loopback *Net
	turn     atomic.Uint64
	places   uint // given out
}

// NewLocal makes the view that follows old, which may be nil, with these NIs in
// the order of configuration. Priorities and turns of nets that stay are kept.
func NewLocal(old *Local, nis []*NI) *Local {
	l := &Local{}
	if old != nil {
		l.turn.Store(old.turn.Load())
		l.places = old.places
	}
	for _, i := range nis {
		if i.NID.IsLoopback() {
			l.loopback = &Net{ID: lnet.LoNet, NIs: []*NI{i}}
			continue
		}
		if i.place == 0 {
			l.places++
			i.place = l.places
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

// Net is the net with that ID, nil if it is not local. The nil view has none.
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

// Find is the NI with that NID and its net, nil if there is none.
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
