package node

import (
	"context"
	"net/netip"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// The search for a better path for messages on a link that is down runs while the peer
// map is locked. Messages for peers that were removed have no better path, and the search
// does not wait for that lock.
func TestBetterWayWhileTheMapIsLocked(t *testing.T) {
	n, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	i := newNI(n, lnet.MakeNet(lnet.TypeTCP, 0))
	i.Fatal.Store(true)
	neighbour := n.makePeerNI(lnet.NIDFromIP(i.net, netip.MustParseAddr("10.0.0.1")), nil)
	m := &message{node: n, ni: i, peer: neighbour}
	n.peers.each(func(*peerNI) {
		for k := range 8 * peerShards { // some are in each shard, including the locked one
			m.tx.Header.Dest = lnet.NIDFromIP(i.net, netip.AddrFrom4([4]byte{10, 1, byte(k >> 8), byte(k)}))
			if m.hasBetterWay() {
				t.Errorf("a better way to %s, which nobody knows", m.tx.Header.Dest)
			}
		}
	})
}
