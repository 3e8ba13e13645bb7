package discovery

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Discover begins a round with the peer that has the NID, a new one if need be,
// whatever is known of it (discovery 5.2). A Wake with that key tells its end.
func (m *Machine) Discover(now time.Duration, nid lnet.NID, waiter Key) {
	m.discover(now, nid, waiter, 0)
}

// ForceDiscover is Discover with a ping and a push that are sent in any case.
func (m *Machine) ForceDiscover(now time.Duration, nid lnet.NID, waiter Key) {
	m.discover(now, nid, waiter, ForcePing|ForcePush)
}

func (m *Machine) discover(now time.Duration, nid lnet.NID, key Key, force State) {
	m.begin(now)
	w := waiter{key: key, nid: nid}
	switch p := m.findOrCreate(nid); {
	case m.stopped:
		m.ready(w, ErrClosed)
	case p == nil:
		m.ready(w, ErrNoPeer)
	default:
		m.clear(p, NIDsUpToDate)
		m.set(p, force)
		p.startOver()
		m.enqueue(p)
		p.work.waiters = append(p.work.waiters, w)
	}
	m.end()
}

// Want begins a round with the peer that has a NID, for a message that cannot
// wait for its end, unless there is no need or a failed round is about to be tried
// again.
func (m *Machine) Want(now time.Duration, nid lnet.NID) {
	m.begin(now)
	if p := m.findOrCreate(nid); p != nil && !m.stopped && p.slot == 0 && !m.upToDate(p) {
		m.enqueue(p)
	}
	m.end()
}

// Heard says that a NID gives a sign of life after it was thought dead: a round with
// its peer that failed is tried again at once.
func (m *Machine) Heard(now time.Duration, nid lnet.NID) {
	m.begin(now)
	if i := m.nis[nid]; i != nil && !m.stopped && i.peer.state.Has(Rediscover) {
		i.peer.startOver()
		m.enqueue(i.peer)
	}
	m.end()
}

// PrimaryNID asks for the primary NID of the peer that has a NID (discovery 7.5). It is
// known at once if ok; else a Wake with that key brings it. With locked, nobody
// waits if the primary NID is locked: it stays what it is.
func (m *Machine) PrimaryNID(now time.Duration, nid lnet.NID, locked bool, key Key) (primary lnet.NID, ok bool) {
	if nid.IsLoopback() {
		return nid, true
	}
	m.begin(now)
	defer m.end()
	p := m.findOrCreate(nid)
	switch {
	case p == nil || m.stopped:
		return nid, true
	case m.local.Mode.passive() || m.upToDate(p):
		return p.primary, true
	}
	m.enqueue(p)
	if locked && p.state.Has(LockPrimary) {
		return p.primary, true
	}
	p.work.waiters = append(p.work.waiters, waiter{key: key, nid: nid})
	return lnet.NID{}, false
}

// IsDiscovered asks whether discovery of a NID's peer is done (discovery 7.5): nil if it
// is, else ErrPingFailed, ErrUnderWay, ErrNoPeer or, as one was begun, ErrAgain.
func (m *Machine) IsDiscovered(now time.Duration, nid lnet.NID) error {
	if nid.IsLoopback() {
		return nil
	}
	m.begin(now)
	defer m.end()
	const done = Discovered | NIDsUpToDate
	p := m.findOrCreate(nid)
	switch {
	case p == nil:
		return ErrNoPeer
	case p.state.Has(NoDiscovery) || p.state&done == done:
		return nil
	case p.state.Has(PingFailed):
		return ErrPingFailed
	case p.state.Has(Discovering):
		return ErrUnderWay
	case m.stopped:
		return ErrClosed
	}
	m.enqueue(p)
	return ErrAgain
}
