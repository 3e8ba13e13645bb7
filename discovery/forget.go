package discovery

import (
	"iter"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Hold is the reason why a peer must not be forgotten, or Free if it may be forgotten.
type Hold uint8

// Values of Hold.
const (
	// Free means that the peer may be forgotten, because everything known about it can be
	// learned again. A ping or push to it may be under way, if no message and no caller waits
	// for the result. If a ping prevented this, a peer that never answers would be kept
	// longer than one that does.
	Free Hold = iota
	// Busy means that the peer is being processed, or that a message or a caller waits for
	// it.
	Busy
	// Named means that an administrator configured the peer, that an upper layer named it in
	// AddPeer, that a route leads through it, or that it is 0@lo.
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
	case w != nil && len(w.parked)+len(w.waiters) > 0:
		return Busy
	}
	return Free
}

// Holds yields the View and the Hold of each peer, oldest first. The caller must not use
// the Machine during the iteration.
func (m *Machine) Holds() iter.Seq2[*View, Hold] {
	return func(yield func(*View, Hold) bool) {
		for p := m.first; p != nil; p = p.next {
			if !yield(m.publish(p), p.hold()) {
				return
			}
		}
	}
}

// Forget removes the peer that has the NID if its Hold is Free, and reports whether it
// did. The next message to or from one of the peer's NIDs creates a new peer.
func (m *Machine) Forget(now time.Duration, nid lnet.NID) bool {
	m.beginEvent(now)
	defer m.endEvent()
	i := m.nis[nid]
	if i == nil || i.peer.hold() != Free {
		return false
	}
	m.destroy(i.peer)
	return true
}

// Missed reports to the Machine that a push from the NID was discarded. The next message
// to the peer therefore waits for a round with a ping. Missed itself starts no round.
func (m *Machine) Missed(now time.Duration, nid lnet.NID) {
	m.beginEvent(now)
	if i := m.nis[nid]; i != nil {
		m.clear(i.peer, NIDsUpToDate)
		m.markInDoubt(i.peer)
	}
	m.endEvent()
}
