package node_test

import (
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/node"
)

// The counters of a peer that is removed remain in the totals of removed peer NIs until they are reset.
func TestRemovedPeersStayCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 1)
		const messages = 3
		for range messages {
			r.put(t, node.PutOptions{})
		}
		info := func() node.PeerNIsInfo { return r.a.Admin().PeerNIs() }
		if got := info().Removed; got != (node.RemovedPeerNIs{}) {
			t.Errorf("before: %+v", got)
		}
		p, ok := r.a.Peer(r.nb[0])
		if !ok {
			t.Fatal("the peer is unknown")
		}
		if err := r.a.Admin().DeletePeer(t.Context(), p.Primary); err != nil {
			t.Fatal(err)
		}
		want := node.MessageCounts{Put: messages}
		if got := info(); got.Removed.Sent != want || got.Removed.Sent.Total() != p.NIs[0].Traffic.Sent.Total() || got.Resets != 0 {
			t.Errorf("removed: %+v, want %+v", got, want)
		}
		r.a.Admin().ResetCounters()
		if got := info(); got.Removed.Sent.Total() != 0 || got.Resets != 2 {
			t.Errorf("after a reset: %+v", got)
		}
	})
}
