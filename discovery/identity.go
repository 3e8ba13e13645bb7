package discovery

import (
	"github.com/lnetd/lnetd/lnet"
)

// by says who wants a NID added or removed.
type by uint8

const (
	byPeer  by = iota // the peer's own word
	byAdmin           // an administrator
)

// checkAdd is why a NID cannot be added to p; owner is who has it, if anyone
// (discovery 7.4). claimed says that it stays with another locked peer, which is no error.
func (m *Machine) checkAdd(p *peer, nid lnet.NID, multiRail bool, who by) (owner *ni, claimed bool, err error) {
	owner = m.nis[nid]
	switch {
	case p.state.Has(Configured) && who != byAdmin, !multiRail && p.state.Has(MultiRail):
		return owner, false, ErrPermission
	case owner == nil && who == byPeer && m.full(p.primary):
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

// add adds a NID to p, taking it from the peer that has it (discovery 7.4). A peer that
// thereby loses its primary NID is gone.
func (m *Machine) add(p *peer, nid lnet.NID, multiRail bool, who by) error {
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
		m.warn(p, "a NID that the peer should have is the locked primary NID of another", nid, nil)
	case owner == nil:
		m.attach(p, nid)
	case owner.peer == p:
	case owner.peer.primary == nid:
		m.takeOver(p, owner.peer)
	default:
		m.move(p, owner)
	}
	return nil
}

// move takes a NID, with all that the node has of it, from its peer, which keeps
// others.
func (m *Machine) move(p *peer, i *ni) {
	x := i.peer
	x.remove(i)
	p.insert(i)
	m.changedNIDs(x)
	m.changedNIDs(p)
	m.act(Attach{NID: i.nid, Peer: p.id, From: x.id})
	if i.routes > 0 {
		m.act(MoveRoutes{From: i.nid, To: i.nid, Peer: p.id})
	}
	if x.state.Has(Discovered) {
		m.enqueue(x)
	}
}

// takeOver gives p the primary NID of x, which goes. The older of two locks
// holds, with its primary NID.
func (m *Machine) takeOver(p, x *peer) {
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
		m.act(MoveRoutes{From: g.nid, To: to, Peer: p.id})
	}
}

// rename makes a NID of the peer its primary one.
func (m *Machine) rename(p *peer, nid lnet.NID) {
	if p.primary == nid {
		return
	}
	m.act(SetPrimary{Peer: p.id, Old: p.primary, New: nid})
	p.primary = nid
	p.promote(nid)
	m.changedNIDs(p)
}

// setPrimary makes a NID, which may be new to it, a peer's primary one, unless
// that is locked (discovery 7.4). Where it cannot, all stays as it was.
func (m *Machine) setPrimary(p *peer, nid lnet.NID) error {
	err := m.add(p, nid, p.state.Has(MultiRail), byPeer)
	fixed := p.state.Has(LockPrimary | Configured)
	if err == nil && !fixed && m.nis[nid].peer == p {
		m.rename(p, nid)
	}
	if fixed {
		return nil
	}
	return err
}

// drop is what to do about the primary NID of a peer that must go.
type drop uint8

const (
	keepPrimary drop = iota // refuse, while there are others
	nextPrimary             // another NID becomes the primary one; so for gateways
)

// remove takes a NID from p (discovery 7.8). The last one takes the peer with it.
func (m *Machine) remove(p *peer, nid lnet.NID, d drop, who by) error {
	i := m.nis[nid]
	switch {
	case p.state.Has(Configured) && who != byAdmin, p.state.Has(LockPrimary) && p.primary == nid:
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
	m.act(Detach{NID: nid, Peer: p.id})
	m.changedNIDs(p)
	if p.primary == nid {
		m.rename(p, p.nis[0].nid)
	}
	if routes > 0 {
		m.addRoutes(p, p.primary, routes)
		m.act(MoveRoutes{From: nid, To: p.primary, Peer: p.id})
	}
	if p.state.Has(Discovered) && !m.stopped {
		m.enqueue(p)
	}
	return nil
}
