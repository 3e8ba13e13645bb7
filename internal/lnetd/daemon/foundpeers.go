package daemon

import (
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/lnet"
)

// isFound reports whether p is equal to a peer that the node has discovered and that is not
// configured. Such an entry comes from the node's own export.
func (t *nodeTask) isFound(p config.Peer) bool {
	i, ok := t.Peer(p.Primary)
	if !ok {
		return false
	}
	found := configuredPeer(&i)
	return found.Found && found.Equal(&p)
}

// foundPeers returns the peers that entries of a document refer to and that the node has discovered.
// It omits configured peers.
func (t *nodeTask) foundPeers(entries []config.Peer) (found []config.Peer) {
	seen := map[lnet.NID]bool{} // primary NIDs
	for _, nid := range namedNIDs(entries) {
		i, ok := t.Peer(nid)
		if !ok || seen[i.Primary] {
			continue
		}
		seen[i.Primary] = true
		if p := configuredPeer(&i); p.Found {
			found = append(found, p)
		}
	}
	return found
}

// namedNIDs returns the NIDs by which entries of a document identify peers.
func namedNIDs(entries []config.Peer) (nids []lnet.NID) {
	for k := range entries {
		nids = append(nids, entries[k].Named()...)
	}
	return nids
}

// keepPrimaries changes the entries of "peers" that describe a discovered peer, so that the peer keeps
// its primary NID. Otherwise the first NID that the entry lists would become the primary one.
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
