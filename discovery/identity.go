package discovery

import (
	"github.com/lnetd/lnetd/lnet"
)

// origin is the source of a request to add or remove a NID.
type origin uint8

const (
	fromPeer  origin = iota // the peer's ping info
	fromAdmin               // an administrator
)

// checkAdd returns an error if the NID cannot be added to p (discovery 7.4). owner is the
// current record of the NID, or nil. claimed means that another peer has the NID as its
// locked primary NID; the NID then stays with that peer, which is not an error.
func (m *Machine) checkAdd(p *peer, nid lnet.NID, multiRail bool, who origin) (owner *ni, claimed bool, err error) {
	owner = m.nis[nid]
	switch {
	case p.state.Has(Configured) && who != fromAdmin, !multiRail && p.state.Has(MultiRail):
		return owner, false, ErrPermission
	case owner == nil && who == fromPeer && m.full(p.primary):
		return nil, false, ErrFull
	case owner == nil:
	case owner.peer == p:
		return owner, false, nil
	case owner.peer.state.Has(Configured):
		return owner, false, ErrExists
	case owner.peer.primary == nid && owner.peer.state.Has(LockPrimary) && len(owner.peer.nis) > 1:
		return owner, true, nil
	}
	if !multiRail && !p.onNet(nid.Net()).IsZero() {
		return owner, false, ErrNotUnique
	}
	return owner, false, nil
}

// add adds a NID to p and removes it from the peer that has it (discovery 7.4). If it is
// the primary NID of that peer, the whole peer is removed.
func (m *Machine) add(p *peer, nid lnet.NID, multiRail bool, who origin) error {
	owner, claimed, err := m.checkAdd(p, nid, multiRail, who)
	if err != nil {
		return err
	}
	if multiRail {
		m.becomeMultiRail(p)
	}
	switch {
	case claimed:
		m.set(p, BadConfig)
		m.set(owner.peer, BadConfig)
		m.warn(p, "a configured NID of the peer is the locked primary NID of another peer; it stays with that peer", nid, nil)
	case owner == nil:
		m.attach(p, nid)
	case owner.peer == p:
	case owner.peer.primary == nid:
		m.absorb(p, owner.peer)
	default:
		m.move(p, owner)
	}
	return nil
}

// move moves the NID i to p from a peer that keeps other NIDs. The node's record of the
// NID, with credits and health, stays the same.
func (m *Machine) move(p *peer, i *ni) {
	x := i.peer
	x.remove(i)
	p.insert(i)
	m.changedNIDs(x)
	m.changedNIDs(p)
	m.emit(Attach{NID: i.nid, Peer: p.id, From: x.id})
	if i.routes > 0 {
		m.emit(MoveRoutes{From: i.nid, To: i.nid, Peer: p.id})
	}
	if x.state.Has(Discovered) {
		m.enqueue(x)
	}
}

// absorb removes the peer x and adds its primary NID to p. If x's primary NID is locked,
// it becomes the primary NID of p, unless that of p was locked earlier.
func (m *Machine) absorb(p, x *peer) {
	nid := x.primary
	gateways := x.gateways()
	locked := x.state.Has(LockPrimary) && (!p.state.Has(LockPrimary) || x.lockTime < p.lockTime)
	m.destroy(x)
	m.attach(p, nid)
	if locked {
		p.lockTime = x.lockTime
		m.set(p, LockPrimary)
		m.rename(p, nid)
	}
	for _, g := range gateways {
		to := p.primary
		if g.nid == nid {
			to = nid
		}
		m.addRoutes(p, to, g.routes)
		m.emit(MoveRoutes{From: g.nid, To: to, Peer: p.id})
	}
}

// rename makes nid, which the peer has, its primary NID.
func (m *Machine) rename(p *peer, nid lnet.NID) {
	if p.primary == nid {
		return
	}
	m.emit(SetPrimary{Peer: p.id, Old: p.primary, New: nid})
	p.primary = nid
	p.promote(nid)
	m.changedNIDs(p)
}

// setPrimary makes nid the primary NID of the peer, and adds it if necessary (discovery
// 7.4). A locked or configured primary NID is kept. If setPrimary returns an error,
// nothing has changed.
func (m *Machine) setPrimary(p *peer, nid lnet.NID) error {
	err := m.add(p, nid, p.state.Has(MultiRail), fromPeer)
	fixed := p.state.Has(LockPrimary | Configured)
	if err == nil && !fixed && m.nis[nid].peer == p {
		m.rename(p, nid)
	}
	if fixed {
		return nil
	}
	return err
}

// drop says what remove does with a primary NID.
type drop uint8

const (
	keepPrimary drop = iota // fail if the peer has other NIDs
	nextPrimary             // make another NID the primary NID; used for gateways
)

// remove removes a NID from p (discovery 7.8). If it is the last one, p is removed.
func (m *Machine) remove(p *peer, nid lnet.NID, d drop, who origin) error {
	i := m.nis[nid]
	switch {
	case p.state.Has(Configured) && who != fromAdmin, p.state.Has(LockPrimary) && p.primary == nid:
		return ErrPermission
	case i == nil:
		return ErrNotFound
	case i.peer != p:
		return ErrOtherPeer
	case d == keepPrimary && (p.routes > 0 || p.primary == nid && len(p.nis) > 1):
		return ErrBusy
	case len(p.nis) == 1:
		m.destroy(p)
		return nil
	}
	routes := i.routes
	p.remove(i)
	delete(m.nis, nid)
	m.emit(Detach{NID: nid, Peer: p.id})
	m.changedNIDs(p)
	if p.primary == nid {
		m.rename(p, p.nis[0].nid)
	}
	if routes > 0 {
		m.addRoutes(p, p.primary, routes)
		m.emit(MoveRoutes{From: nid, To: p.primary, Peer: p.id})
	}
	if p.state.Has(Discovered) && !m.stopped {
		m.enqueue(p)
	}
	return nil
}
