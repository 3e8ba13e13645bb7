package discovery

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Discover begins a round with the peer that has the NID, even if the peer is up to date
// (discovery 5.2). It creates the peer if necessary. A Wake with the key waiter reports
// the result of the round.
func (m *Machine) Discover(now time.Duration, nid lnet.NID, waiter Key) {
	m.discover(now, nid, waiter, 0)
}

// ForceDiscover is like Discover, but always sends a ping and a push.
func (m *Machine) ForceDiscover(now time.Duration, nid lnet.NID, waiter Key) {
	m.discover(now, nid, waiter, ForcePing|ForcePush)
}

func (m *Machine) discover(now time.Duration, nid lnet.NID, key Key, force State) {
	m.beginEvent(now)
	w := waiter{key: key, nid: nid}
	switch p := m.findOrCreate(nid); {
	case m.stopped:
		m.ready(w, ErrClosed)
	case p == nil:
		m.ready(w, ErrNoPeer)
	default:
		m.clear(p, NIDsUpToDate)
		m.set(p, force)
		p.resetFailures()
		m.enqueue(p)
		p.work.waiters = append(p.work.waiters, w)
	}
	m.endEvent()
}

// StartRound begins a round with the peer that has the NID, for a message that is sent
// without waiting for the round. It does nothing if the peer is up to date, or if a timer
// for a retry or a timeout is running.
func (m *Machine) StartRound(now time.Duration, nid lnet.NID) {
	m.beginEvent(now)
	if p := m.findOrCreate(nid); p != nil && !m.stopped && p.timerIndex == 0 && !m.upToDate(p) {
		m.enqueue(p)
	}
	m.endEvent()
}

// NoteAlive reports to the Machine that a message has arrived from a NID that was
// considered dead. If the last round with its peer failed, a new one begins immediately.
func (m *Machine) NoteAlive(now time.Duration, nid lnet.NID) {
	m.beginEvent(now)
	if i := m.nis[nid]; i != nil && !m.stopped && i.peer.state.Has(Rediscover) {
		i.peer.resetFailures()
		m.enqueue(i.peer)
	}
	m.endEvent()
}

// PrimaryNID returns the primary NID of the peer that has the NID, and true (discovery
// 7.5). If the peer is not up to date, it begins a round and returns false; a Wake with
// the key reports the primary NID later. If locked is true and the primary NID is locked,
// PrimaryNID does not wait for the round, because the round cannot change it. If no peer
// can have the NID, or discovery is stopped, it returns nid itself and true.
func (m *Machine) PrimaryNID(now time.Duration, nid lnet.NID, locked bool, key Key) (primary lnet.NID, ok bool) {
	if nid.IsLoopback() {
		return nid, true
	}
	m.beginEvent(now)
	defer m.endEvent()
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

// IsDiscovered returns nil if discovery of the peer that has the NID is complete
// (discovery 7.5). Otherwise it returns ErrPingFailed, ErrUnderWay, ErrNoPeer or
// ErrClosed; or it begins a round and returns ErrAgain.
func (m *Machine) IsDiscovered(now time.Duration, nid lnet.NID) error {
	if nid.IsLoopback() {
		return nil
	}
	m.beginEvent(now)
	defer m.endEvent()
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
