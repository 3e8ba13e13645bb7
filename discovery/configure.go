package discovery

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// ConfigureOptions are options for a peer that an administrator configures.
type ConfigureOptions struct {
	// SingleRail means that the peer is not Multi-Rail, and so has at most one NID per net.
	SingleRail bool
	// Lock locks the primary NID: it stays the same whatever the peer reports.
	Lock bool
}

func (o ConfigureOptions) state() State {
	s := Configured
	if !o.SingleRail {
		s |= MultiRail
	}
	if o.Lock {
		s |= LockPrimary
	}
	return s
}

// Configure creates a peer with these NIDs for an administrator, or adds the NIDs to it
// (discovery 7.7). A peer with this primary NID that was not configured before is
// replaced. If Configure returns an error, it has changed nothing. The error is a
// *PeerError with ErrInvalid, ErrExists, ErrLocked, ErrPermission, ErrBusy (the peer is a
// gateway) or ErrNotUnique.
func (m *Machine) Configure(now time.Duration, primary lnet.NID, others []lnet.NID, o ConfigureOptions) error {
	m.beginEvent(now)
	defer m.endEvent()
	if nid, err := m.checkConfigure(primary, others, o); err != nil {
		return peerError("add", primary, nid, err)
	}
	p, _ := m.createConfigured(primary, o.state())
	for _, nid := range others {
		_ = m.add(p, nid, !o.SingleRail, fromAdmin) // checkConfigure has checked it
	}
	return nil
}

// checkConfigure returns an error if Configure must fail, and the NID that causes the
// error.
func (m *Machine) checkConfigure(primary lnet.NID, others []lnet.NID, o ConfigureOptions) (lnet.NID, error) {
	if m.stopped {
		return primary, ErrClosed
	}
	if !usable(primary) {
		return primary, ErrInvalid
	}
	p, err := m.checkMake(primary, o.state())
	if err != nil {
		return primary, err
	}
	if p == nil || !p.state.Has(Configured) {
		p = &peer{primary: primary, nis: []*ni{{nid: primary}}, state: o.state()} // as createConfigured will create it
	}
	nets := map[lnet.Net]lnet.NID{primary.Net(): primary}
	for _, nid := range others {
		if !usable(nid) {
			return nid, ErrInvalid
		}
		if nid == primary {
			continue
		}
		if _, _, err := m.checkAdd(p, nid, !o.SingleRail, fromAdmin); err != nil {
			return nid, err
		}
		if has, ok := nets[nid.Net()]; o.SingleRail && ok && has != nid {
			return nid, ErrNotUnique
		}
		nets[nid.Net()] = nid
	}
	return lnet.NID{}, nil
}

// checkMake returns an error if createConfigured must not replace or reuse the existing
// peer that has the NID (discovery 7.6, 7.7). It also returns that peer, or nil if no peer
// has the NID. AddPeer ignores ErrExists and ErrLocked.
func (m *Machine) checkMake(nid lnet.NID, s State) (*peer, error) {
	i := m.nis[nid]
	if i == nil {
		return nil, nil
	}
	p := i.peer
	switch {
	case p.state.Has(Configured) && p.primary != nid:
		return p, ErrExists
	case p.state.Has(Configured) && p.state.Has(MultiRail) != s.Has(MultiRail):
		return p, ErrPermission
	case p.state.Has(Configured):
		return p, nil
	case p.state.Has(LockPrimary) && p.primary == nid:
		return p, ErrExists
	case p.state.Has(LockPrimary):
		return p, ErrLocked
	case p.primary == nid && !s.Has(Configured|LockPrimary):
		return p, ErrExists
	case p.routes > 0:
		return p, ErrBusy
	}
	return p, nil
}

// createConfigured creates a peer with the NID and the flags s. An existing peer that has
// the NID is replaced, unless it was configured (discovery 7.6). createConfigured returns
// the peer that has the NID afterwards.
func (m *Machine) createConfigured(nid lnet.NID, s State) (*peer, error) {
	p, err := m.checkMake(nid, s)
	switch {
	case err != nil, p != nil && p.state.Has(Configured):
		return p, err
	case p != nil:
		m.destroy(p)
	}
	p = m.create(nid)
	p.state = s
	if s.Has(LockPrimary) {
		p.lockTime = m.now
	}
	return p, nil
}

// AddNID adds a NID to the configured peer with the primary NID (discovery 7.7). o must
// have the SingleRail with which the peer was configured. The error is a *PeerError with
// ErrInvalid, ErrNotFound, ErrNotPrimary, ErrPermission, ErrExists or ErrNotUnique.
func (m *Machine) AddNID(now time.Duration, primary, nid lnet.NID, o ConfigureOptions) error {
	m.beginEvent(now)
	defer m.endEvent()
	if !usable(nid) {
		return peerError("add to", primary, nid, ErrInvalid)
	}
	i := m.nis[primary]
	var err error
	switch {
	case i == nil || !i.peer.state.Has(Configured):
		err = ErrNotFound
	case i.peer.primary != primary:
		err = ErrNotPrimary
	case i.peer.state.Has(MultiRail) == o.SingleRail:
		err = ErrPermission
	default:
		err = m.add(i.peer, nid, !o.SingleRail, fromAdmin)
	}
	return peerError("add to", primary, nid, err)
}

// Delete deletes the peer with the primary NID (discovery 7.7). If the primary NID is
// locked, the peer is kept with only that NID, and the next message to it discovers it
// again. The error is a *PeerError with ErrNotFound, ErrNotPrimary or ErrBusy (the peer is
// a gateway).
func (m *Machine) Delete(now time.Duration, primary lnet.NID) error {
	return m.deletePeer(now, primary, func(p *peer) {
		if !p.state.Has(LockPrimary) {
			m.destroy(p)
			return
		}
		for _, i := range append([]*ni(nil), p.nis...) {
			if i.nid != primary {
				_ = m.remove(p, i.nid, keepPrimary, fromAdmin) // not a gateway, and not the primary NID
			}
		}
		m.clear(p, NIDsUpToDate)
	})
}

// ForceDelete is like Delete, but also deletes a peer whose primary NID is locked.
func (m *Machine) ForceDelete(now time.Duration, primary lnet.NID) error {
	return m.deletePeer(now, primary, m.destroy)
}

func (m *Machine) deletePeer(now time.Duration, primary lnet.NID, how func(*peer)) error {
	m.beginEvent(now)
	defer m.endEvent()
	p, err := m.findPrimary(primary)
	switch {
	case err != nil:
	case p.routes > 0:
		err = ErrBusy
	default:
		how(p)
	}
	return peerError("delete", primary, primary, err)
}

// findPrimary returns the peer with this primary NID. It returns ErrNotPrimary if primary
// is another NID of a peer, and ErrNotFound if no peer has it.
func (m *Machine) findPrimary(primary lnet.NID) (*peer, error) {
	i := m.nis[primary]
	switch {
	case i == nil:
		return nil, ErrNotFound
	case i.peer.primary != primary:
		return nil, ErrNotPrimary
	}
	return i.peer, nil
}

// DeleteNID removes a NID from the peer with the primary NID (discovery 7.8). If nid is
// the primary NID, DeleteNID does the same as Delete. The error is a *PeerError with
// ErrNotFound, ErrNotPrimary, ErrOtherPeer, ErrBusy or ErrPermission.
func (m *Machine) DeleteNID(now time.Duration, primary, nid lnet.NID) error {
	if nid == primary {
		return m.Delete(now, primary)
	}
	m.beginEvent(now)
	defer m.endEvent()
	p, err := m.findPrimary(primary)
	if err == nil {
		found := !p.state.Has(Configured)
		if err = m.remove(p, nid, keepPrimary, fromAdmin); err == nil && found {
			m.warn(p, "removed a NID that discovery had found; it comes back if the peer reports it again", nid, nil)
		}
	}
	return peerError("delete from", primary, nid, err)
}

// settableFlags are the flags that SetState can change. They describe the peer; all others
// describe work in progress.
const settableFlags = MultiRail | Configured | Discovered | NIDsUpToDate | LockPrimary

// SetState sets the settable flags of the peer that has the NID to their values in s, for
// tests (lnetctl 4.11). Other flags in s are ignored. It returns ErrNotFound if no peer
// has the NID.
func (m *Machine) SetState(now time.Duration, nid lnet.NID, s State) error {
	m.beginEvent(now)
	defer m.endEvent()
	i := m.nis[nid]
	if i == nil {
		return peerError("set the state of", nid, nid, ErrNotFound)
	}
	m.set(i.peer, s&settableFlags)
	m.clear(i.peer, settableFlags&^s)
	return nil
}
