package daemon

import (
	"slices"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/lnet"
)

// isFound tells whether discovery has found exactly the peer that an entry says, as a node's
// own export has it.
func (t *nodeTask) isFound(p config.Peer) bool {
	i, ok := t.Peer(p.Primary)
	if !ok {
		return false
	}
	found := configuredPeer(&i)
	return found.Found && found.Equal(&p)
}

// foundPeers returns the peers that discovery has found and that entries of a document name.
func (t *nodeTask) foundPeers(entries []config.Peer) (found []config.Peer) {
	for _, nid := range namedNIDs(entries) {
		i, ok := t.Peer(nid)
		if !ok {
			continue
		}
		p := configuredPeer(&i)
		if p.Found && !slices.ContainsFunc(found, func(o config.Peer) bool { return o.Primary == p.Primary }) {
			found = append(found, p)
		}
	}
	return found
}

// namedNIDs returns the NIDs by which entries of a document name peers.
func namedNIDs(entries []config.Peer) (nids []lnet.NID) {
	for k := range entries {
		nids = append(nids, entries[k].Named()...)
	}
	return nids
}

// keepPrimaries has peers that discovery has found keep their primary NIDs when lists of
// "peers" configure them, in whichever order these have their NIDs.
func (t *nodeTask) keepPrimaries(peers []config.Peer) {
	for k := range peers {
		p := &peers[k]
		if p.Listed == nil {
			continue
		}
		if found := t.foundPeers([]config.Peer{*p}); len(found) > 0 {
			*p = p.WithPrimary(found[0].Primary)
		}
	}
}
