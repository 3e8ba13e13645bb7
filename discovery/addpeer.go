package discovery

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// AddPeer records that one node has all these NIDs, on behalf of an upper layer (discovery
// 7.6). The first usable NID identifies the node; AddPeer returns it as the reference. If
// lock is true, the reference remains the primary NID whatever the node reports, and the
// peers of the other NIDs are merged into the peer of the reference. If no NID can be the
// reference, AddPeer returns ErrNoPeer, or the error for the last NID that it tried.
func (m *Machine) AddPeer(now time.Duration, nids []lnet.NID, lock bool) (lnet.NID, error) {
	m.beginEvent(now)
	defer m.endEvent()
	if m.stopped {
		return lnet.NID{}, ErrClosed
	}
	flags := State(0)
	if !m.local.Mode.passive() {
		flags = MultiRail
	}
	first := flags
	if lock {
		first |= LockPrimary
	}
	var reference lnet.NID
	err := ErrNoPeer
	for _, nid := range nids {
		switch {
		case !usable(nid) || m.local.Mode.passive() && !m.isLocal(nid.Net()):
		case reference.IsZero():
			if reference, err = m.addReference(nid, first); err != nil {
				reference = lnet.NID{}
			}
		case m.local.Mode.passive():
			_, _ = m.createConfigured(nid, first) // a NID that belongs to another peer stays there
		default:
			m.addAlias(nid, reference, flags, lock)
		}
	}
	if reference.IsZero() {
		return reference, err
	}
	return reference, nil
}

func (m *Machine) addReference(nid lnet.NID, s State) (lnet.NID, error) {
	p, err := m.createConfigured(nid, s)
	switch {
	case errors.Is(err, ErrLocked):
		return p.primary, nil
	case err == nil, errors.Is(err, ErrExists):
		if !m.local.Mode.passive() {
			m.handleLateEvent(p)
		}
		return nid, nil
	}
	return nid, peerError("add", nid, nid, err)
}

// addAlias starts discovery of nid, which is said to belong to the same node as reference.
// If lock is true, the first reply from nid merges its peer into the peer of reference.
// addAlias does nothing if nid already belongs to that peer.
func (m *Machine) addAlias(nid, reference lnet.NID, s State, lock bool) {
	to := m.nis[reference]
	if i := m.nis[nid]; i != nil && to != nil && i.peer == to.peer {
		return
	}
	p, err := m.createConfigured(nid, s)
	if err != nil && !errors.Is(err, ErrExists) {
		return
	}
	created := err == nil && !p.state.Has(Configured)
	marked := lock && !p.state.Has(Configured|LockPrimary)
	if marked {
		p.startWork().mergeInto = reference
		m.clear(p, NIDsUpToDate)
		m.set(p, ForcePing)
	}
	if created || marked {
		m.handleLateEvent(p)
	}
}
