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
	// Free means that everything known of the peer can be learned again. A ping or push
	// may be under way to it if no message and no caller waits for the end of it: otherwise
	// a peer that answers nothing would be kept longer than one that does.
	Free Hold = iota
	// Busy means that the peer is being worked on, or that a message or a caller waits
	// for it.
	Busy
	// Named means that an administrator configured the peer, that an upper layer locked
	// its primary NID or says which peer it belongs to, that a route leads through it, or
	// that it is 0@lo.
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

// Forget removes the peer that has a NID, with all its NIDs, if it is Free. It reports
// whether the peer is gone. The next message to or from a NID of it creates a peer again.
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

// Missed says that a push of the peer with a NID was discarded before the Machine saw
// it. The next message to the peer waits for a round that pings it; until then nothing is sent.
func (m *Machine) Missed(now time.Duration, nid lnet.NID) {
	m.begin(now)
	if i := m.nis[nid]; i != nil {
		m.clear(i.peer, NIDsUpToDate)
		m.distrust(i.peer)
	}
	m.end()
}
