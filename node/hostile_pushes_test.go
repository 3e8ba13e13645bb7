package node_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A neighbour that is not a gateway forges pushes from sources behind a router.
func TestForgedRoutedPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		gw := newNode(t, node.Config{Routing: true})
		f.addNI(t, gw, "10.0.0.9@tcp")
		f.addNI(t, gw, "10.0.1.9@tcp1")
		n := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
		q := f.addNI(t, n, "10.0.0.1@tcp")
		if err := n.Admin().AddRoute(context.Background(), parseNet(t, "tcp1"), parseNID(t, "10.0.0.9@tcp"), node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait() // all goroutines that use f.sent are blocked
		var mu sync.Mutex
		pings := 0
		f.show(func(h lnet.Header, b []byte) {
			mu.Lock()
			defer mu.Unlock()
			if h.Portal == 0 && (h.Type == lnet.MsgGet || h.Type == lnet.MsgPut) && h.Src == q.nid && h.Dest.Net() == parseNet(t, "tcp1") {
				pings++
			}
		})
		evil := parseNID(t, "10.0.0.66@tcp")
		const count = 2000
		for k := range count {
			src := lnet.NIDFromNumber(parseNet(t, "tcp1"), uint32(0x0a010100+k))
			b := infoWith(1, 0, src)
			if err := q.inject(evil, pushHeader(src, q.nid, b), b); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		before := len(n.Peers())
		time.Sleep(30 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if before > count/2 {
			t.Errorf("%d forged pushes of a stranger: %d peers, later %d; %d messages left for the forged sources", count, before, len(n.Peers()), pings)
		}
	})
}

// A neighbour claims our NID as its own.
func TestNeighbourThatNamesOurNID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
		q := f.addNI(t, n, "10.0.0.1@tcp")
		evil := parseNID(t, "10.0.0.66@tcp")
		b := infoWith(1, 0, evil, q.nid)
		if err := q.inject(evil, pushHeader(evil, q.nid, b), b); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, ok := n.Peer(q.nid); ok {
			t.Errorf("our NID belongs to %s", p.Primary)
		}
		if p, _ := n.Peer(evil); len(p.NIs) != 1 {
			t.Errorf("peer %+v", p)
		}
	})
}
