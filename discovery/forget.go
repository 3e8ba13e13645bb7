package discovery

import (
	"iter"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Hold is what keeps a peer from being forgotten.
type Hold uint8

// Values of Hold.
const (
	// Free: all that there is of the peer can be learned anew. A ping or push of
	// ours may be under way to it, which nobody waits for: else whoever answers
	// none would be kept for the longer.
	Free Hold = iota
	// Busy: something of it is being worked on, or somebody waits for it.
	Busy
	// Named: somebody's word stands behind it, an administrator's, an upper
	// layer's that locked its primary NID, or a route's; or it is 0@lo.
	Named
)

func (p *peer) hold() Hold {
	w := p.work
	switch {
	case p.state.Has(Configured | LockPrimary), p.routes > 0, p.primary.IsLoopback():
		return Named
	case p.queued, p.state.Has(DataPresent | PingFailed | PushFailed):
		return Busy
	case w != nil && !w.mergeInto.IsZero():
		return Named
	case w != nil && (w.data != nil || w.merge != nil || w.net != 0 || len(w.parked)+len(w.waiters) > 0):
		return Busy
	}
	return Free
}

// Holds yields the View of each peer, the oldest first, and what keeps it. The
// Machine must not be used meanwhile.
func (m *Machine) Holds() iter.Seq2[*View, Hold] {
	return func(yield func(*View, Hold) bool) {
		for p := m.first; p != nil; p = p.next {
			if !yield(m.publish(p), p.hold()) {
				return
			}
		}
	}
}

// Forget lets go of the peer that has a NID, with all its NIDs, unless something
// keeps it. It reports whether the peer is gone. Traffic makes it anew.
func (m *Machine) Forget(now time.Duration, nid lnet.NID) bool {
	m.begin(now)
	defer m.end()
	i := m.nis[nid]
	if i == nil || i.peer.hold() != Free {
		return false
	}
	m.destroy(i.peer)
	return true
}

// Missed says that the peer with a NID has told something that nobody took in. The
// next message to it waits for a round that asks it; until then nothing is sent.
func (m *Machine) Missed(now time.Duration, nid lnet.NID) {
	m.begin(now)
	if i := m.nis[nid]; i != nil {
		m.clear(i.peer, NIDsUpToDate)
		m.set(i.peer, ForcePing)
	}
	m.end()
}
