package config

import (
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// withNIDs returns p with exactly the given NIDs, of which there must be at least one. If they include
// the primary NID of p, it stays the primary NID. Otherwise the first of them becomes the primary NID,
// which is not locked. Two NIDs on one net make the peer Multi-Rail.
func (p *Peer) withNIDs(nids []lnet.NID) Peer {
	out := *p
	if !slices.Contains(nids, p.Primary) {
		out.Primary, out.Locked = nids[0], false
	}
	kept := Without(p.nids(), Without(p.nids(), nids)) // those of nids that p has, in the order of p
	out.Others = Without(append(kept, Without(nids, kept)...), []lnet.NID{out.Primary})
	if _, clash := out.sameNet(); clash {
		out.SingleRail = false
	}
	return out
}

// Without returns the NIDs of a that are not in b.
func Without(a, b []lnet.NID) (out []lnet.NID) {
	for _, nid := range a {
		if !slices.Contains(b, nid) {
			out = append(out, nid)
		}
	}
	return out
}

// conflictText returns the message about a NID in the list p that belongs to another peer, whose primary
// NID is owner.
func (p *Peer) conflictText(nid, owner lnet.NID) string {
	return fmt.Sprintf("NID %d, %s, already belongs to the peer %s and is ignored", slices.Index(p.Listed, nid), nid, owner)
}

// updatePeer applies p, an entry of "peers", to c. If a peer of c has one of the entry's NIDs, the
// entry's NIDs replace all NIDs of that peer. Otherwise updatePeer adds a peer. NIDs that belong to a
// further peer are ignored with a warning.
func (c *Config) updatePeer(p Peer, f *filePeer, places *peerPositions) {
	owner, at, there := places.owner, 0, false
	for nid := range p.eachNID() {
		if primary, ok := owner[nid]; ok {
			at, there = places.first(primary)
			break
		}
	}
	if there {
		f.at.warn("the peer %s occurs twice: it gets the NIDs of the last entry", c.Peers[at].Primary).remedyf("write one entry for the peer")
		for nid := range c.Peers[at].eachNID() {
			delete(owner, nid)
		}
	}
	var nids []lnet.NID
	for nid := range p.eachNID() {
		if other, taken := owner[nid]; taken {
			f.at.warn("%s", p.conflictText(nid, other)).remedyf("remove it from one of them")
			continue
		}
		nids = append(nids, nid)
	}
	into := p
	if there {
		into = c.Peers[at]
		into.Listed, into.Where = p.Listed, p.Where
		delete(places.positions, into.key())
	} else {
		at = len(c.Peers)
		c.Peers = append(c.Peers, Peer{})
	}
	into = into.withNIDs(nids)
	for _, nid := range nids {
		owner[nid] = into.Primary
	}
	places.positions[into.key()] = at
	c.Peers[at] = into
}

// matchLists finds the peer of the node that each entry of "peers" in list describes. This is the owner
// of the first NID of the entry whose owner no earlier entry describes. The result maps positions in
// list to positions in m.Peers. NIDs that are not in an entry are removed from m.ownerIndex, so that
// other entries of the document may use them.
func (m *merge) matchLists(list []Peer) map[int]int {
	targets, claimed := map[int]int{}, map[int]bool{}
	for k := range list {
		if list[k].Listed == nil {
			continue
		}
		for nid := range list[k].eachNID() {
			if at, ok := m.ownerIndex[nid]; ok && !claimed[at] {
				targets[k], claimed[at] = at, true
				break
			}
		}
	}
	for k, at := range targets {
		for _, nid := range Without(m.Peers[at].nids(), list[k].nids()) {
			delete(m.ownerIndex, nid)
		}
	}
	return targets
}

// updatePeer sets the NIDs of the peer at the position at in m.Peers to those of p, an entry of "peers".
// If at is negative, it adds a peer. NIDs that belong to another peer are ignored with a warning.
func (m *merge) updatePeer(p *Peer, at int) {
	var nids []lnet.NID
	for nid := range p.eachNID() {
		if o, owned := m.ownerIndex[nid]; owned && o != at {
			m.warn(p.Where, p.conflictText(nid, m.Peers[o].Primary))
			continue
		}
		nids = append(nids, nid)
	}
	if len(nids) == 0 {
		return
	}
	into := *p
	if at >= 0 {
		into = m.Peers[at]
		if into.Locked && !slices.Contains(nids, into.Primary) {
			m.warn(p.Where, fmt.Sprintf("the locked primary NID %s is not in the list: the peer loses the NID and the lock", into.Primary))
		}
		into.Where = p.Where
	}
	into = into.withNIDs(nids)
	into.Locked = into.Locked || p.Locked && into.Primary == p.Primary
	if at < 0 {
		at = len(m.Peers)
		m.Peers = append(m.Peers, Peer{})
	}
	m.Peers[at] = into
	for _, nid := range nids {
		m.ownerIndex[nid] = at
	}
}

// deleteListed deletes the NIDs of p, an entry of "peers", from one peer: the owner of the first NID in
// the entry that belongs to a peer. It deletes the peer if no NID is left. It calls absent for each NID
// that belongs to another peer or to no peer.
func (m *merge) deleteListed(p *Peer, absent func(where, what string)) {
	at := -1
	for _, nid := range p.Listed {
		if o, ok := m.ownerIndex[nid]; ok {
			at = o
			break
		}
	}
	var gone []lnet.NID
	for k, nid := range p.Listed {
		switch o, ok := m.ownerIndex[nid]; {
		case !ok:
			absent(p.Where, fmt.Sprintf("NID %d, %s, does not belong to any peer; nothing is deleted", k, nid))
		case o != at:
			absent(p.Where, fmt.Sprintf("NID %d, %s, belongs to another peer, %s, and is not deleted", k, nid, m.Peers[o].Primary))
		default:
			gone = append(gone, nid)
		}
	}
	if at < 0 {
		return
	}
	has := &m.Peers[at]
	rest := Without(has.nids(), gone)
	if len(rest) > 0 && has.Found && rest[0] != has.Primary {
		absent(p.Where, fmt.Sprintf("the peer %s is not configured: without its primary NID the whole peer is deleted, until it is discovered again", has.Primary))
		rest = nil
	}
	for _, nid := range Without(has.nids(), rest) {
		delete(m.ownerIndex, nid)
	}
	if len(rest) == 0 {
		m.deleted[at] = true
		return
	}
	if has.Found {
		absent(p.Where, fmt.Sprintf("the peer %s is not configured: the deleted NIDs come back when it is discovered again", has.Primary))
	}
	*has = has.withNIDs(rest)
}
