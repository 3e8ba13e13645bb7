package daemon

import (
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// owns reports whether an NI of this node that is up has the NID.
func (t *nodeTask) owns(nid lnet.NID) bool { return slices.Contains(t.nids(), nid) }

// isForeign removes the NIDs of this node from a listed peer, and reports whether any are left.
// This node is not its own peer, although messages to itself, and discovery of itself, leave an
// entry. "peer show --nid" still shows that entry.
func isForeign(p *node.PeerInfo, own []lnet.NID) bool {
	p.NIs = slices.DeleteFunc(p.NIs, func(i node.PeerNIInfo) bool { return slices.Contains(own, i.NID) })
	return len(p.NIs) > 0
}

// withoutOwn returns the peers of a configuration without the NIDs of this host's NIs. A file for
// a whole site lists every server as a peer, including the host that reads it (decisions 97). An
// entry of "peers" keeps its other NIDs. An entry of "peer" is removed if its primary NID is this
// host's.
func (t *nodeTask) withoutOwn(peers []config.Peer, nis []config.NI) []config.Peer {
	if len(peers) == 0 {
		return peers
	}
	own := map[lnet.NID]bool{}
	for k := range nis {
		nid := nis[k].NID
		if d := t.drivers.of(nis[k].Net.Type()); nid.IsZero() && d.Usable != nil {
			nid, _, _ = d.Usable(&nis[k]) // zero if its interface is missing
		}
		own[nid], own[nis[k].Own] = true, true
	}
	isOwn := func(nid lnet.NID) bool { return own[nid] }
	var kept []config.Peer
	for _, p := range peers {
		if !isOwn(p.Primary) && !slices.ContainsFunc(p.Others, isOwn) {
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
