package daemon

import (
	"context"

	"github.com/lnetd/lnetd/discovery"
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
// It omits configured peers. The error is that of PeersOf.
func (t *nodeTask) foundPeers(ctx context.Context, entries []config.Peer) (found []config.Peer, err error) {
	for i, err := range t.PeersOf(ctx, namedNIDs(entries)) {
		if err != nil {
			return nil, err
		}
		if !i.State.Has(discovery.Configured) {
			found = append(found, configuredPeer(&i))
		}
	}
	return found, nil
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
func (t *nodeTask) keepPrimaries(ctx context.Context, peers []config.Peer) error {
	for k := range peers {
		p := &peers[k]
		if p.Listed == nil {
			continue
		}
		found, err := t.foundPeers(ctx, peers[k:k+1])
		if err != nil {
			return err
		}
		if len(found) > 0 {
			*p = p.WithPrimary(found[0].Primary)
		}
	}
	return nil
}
