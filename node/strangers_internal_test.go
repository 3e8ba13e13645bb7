package node

import (
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// Given a peer with two NIDs, when a message is under way with either of them, then the
// peer is not idle and cannot be evicted. When it has ended, the peer is idle.
func TestAPeerWithSomethingUnderWayIsNotIdle(t *testing.T) {
	n, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	net := lnet.MakeNet(lnet.TypeTCP, 0)
	nids := []lnet.NID{lnet.NIDFromNumber(net, 1), lnet.NIDFromNumber(net, 2)}
	view := &discovery.View{NIDs: append([]lnet.NID{lnet.NIDFromNumber(net, 3)}, nids...)} // the first one is unknown
	for _, nid := range nids {
		n.peers.get(nid, newPeerNI)
	}
	check := func(when string, want bool) {
		t.Helper()
		if _, idle := n.evictionRank(view); idle != want {
			t.Errorf("%s: idle %v, want %v", when, idle, want)
		}
	}
	check("nothing under way", true)
	for _, nid := range nids {
		p := n.peers.find(nid)
		for what, set := range map[string]func(on bool){
			"bytes queued": func(on bool) {
				p.Queued.Store(0)
				if on {
					p.Queued.Store(1)
				}
			},
			"a router buffer in use": func(on bool) {
				p.router.available.Store(int64(p.router.limit.Load()))
				if on {
					p.router.available.Add(-1)
				}
			},
			"a recovery ping": p.health.pending.Store,
		} {
			set(true)
			check(what+" of "+nid.String(), false)
			set(false)
			check(what+" of "+nid.String()+" is over", true)
		}
	}
}
