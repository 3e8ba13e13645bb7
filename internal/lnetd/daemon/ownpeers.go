package daemon

import (
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// owns reports whether nid is the NID of an NI of this node that is up.
func (t *nodeTask) owns(nid lnet.NID) bool { return slices.Contains(t.nids(), nid) }

// isForeign removes the NIDs of this node, own, from the peer p and reports whether p still has NIDs.
// Without NIDs, p is this node itself and is not listed among its peers. Such an entry exists if the
// node has sent messages to itself or discovered itself. "peer show --nid" still shows it.
func isForeign(p *node.PeerInfo, own []lnet.NID) bool {
	p.NIs = slices.DeleteFunc(p.NIs, func(i node.PeerNIInfo) bool { return slices.Contains(own, i.NID) })
	return len(p.NIs) > 0
}

// withoutOwn returns the configured peers without the NIDs of this host, whose NIs are nis. A file for
// a whole site lists every server as a peer, including the host that reads it (decisions 97). An entry
// that loses all of its NIDs is removed. An entry of "peer", unlike one of "peers", is also removed if
// its primary NID belongs to this host.
func (t *nodeTask) withoutOwn(peers []config.Peer, nis []config.NI) []config.Peer {
	if len(peers) == 0 {
		return peers
	}
	own := map[lnet.NID]bool{}
	for k := range nis {
		nid := nis[k].NID
		if d := t.drivers.of(nis[k].Net.Type()); nid.IsZero() && d.Usable != nil {
			nid, _, _ = d.Usable(&nis[k]) // zero if the interface is missing
		}
		own[nid], own[nis[k].Own] = true, true
	}
	isOwn := func(nid lnet.NID) bool { return own[nid] }
	hasOwn := func(p config.Peer) bool { return isOwn(p.Primary) || slices.ContainsFunc(p.Others, isOwn) }
	if !slices.ContainsFunc(peers, hasOwn) {
		return peers // not a copy, because there may be very many
	}
	var kept []config.Peer
	for _, p := range peers {
		if !hasOwn(p) {
			kept = append(kept, p)
			continue
		}
		others := slices.DeleteFunc(slices.Clone(p.Others), isOwn)
		if isOwn(p.Primary) && (p.Listed == nil || len(others) == 0) {
			t.log.Info("ignoring a configured peer that is this node", "primary", p.Primary.String())
			continue
		}
		t.log.Info("ignoring NIDs of a configured peer that belong to this node", "primary", p.Primary.String())
		if isOwn(p.Primary) {
			p.Primary, p.Locked, others = others[0], false, others[1:]
		}
		p.Others = others
		kept = append(kept, p)
	}
	return kept
}
