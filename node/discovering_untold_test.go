package node_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Pushes do not reach a peer for a while; no other messages are lost. The peer must be
// notified of our new NI afterwards, at the latest when there is traffic.
func TestPeerIsNeverTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		a, b := newNode(t, node.Config{Parameters: &p}), newNode(t, node.Config{Parameters: &p})
		f.addNI(t, a, "10.0.0.1@tcp")
		pb := f.addNI(t, b, "10.0.0.2@tcp")
		inbox(t, b)
		if err := say(t, a, "10.0.0.2@tcp"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var broken atomic.Bool
		f.failBy(func(tx *lnd.Tx) error {
			h := tx.Header
			if broken.Load() && h.Type == lnet.MsgPut && h.Portal == 0 && h.Dest == pb.nid {
				return fault(lnd.StatusNetworkTimeout, tx.To.NID, lnd.ErrUnreachable)
			}
			return nil
		})
		broken.Store(true)
		f.addNI(t, a, "10.0.0.3@tcp")
		time.Sleep(30 * time.Minute)
		broken.Store(false)
		for range 120 {
			if err := say(t, a, "10.0.0.2@tcp"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if q, _ := b.Peer(parseNID(t, "10.0.0.1@tcp")); len(q.NIs) != 2 {
			mine, _ := a.Peer(parseNID(t, "10.0.0.2@tcp"))
			t.Errorf("two hours of traffic later the peer knows %v; %d told, state %s", nidsOf(q), mine.AckedSeq, mine.State)
		}
	})
}

// A peer that pushes have not reached for long gets no more of them while nothing is sent
// to it. When a message arrives from it, it is notified of our new NI.
//
// discovery 6.1 timer
func TestPeerThatComesBackIsTold(t *testing.T) {
	for _, of := range []struct {
		nid            string
		ignorePeerDown bool
	}{{"10.0.0.2@tcp", false}, {"10.0.0.2@tcp", true}, {"10.0.1.2@tcp1", false}} {
		t.Run(fmt.Sprint(of), func(t *testing.T) { testPeerThatComesBackIsTold(t, of.nid, of.ignorePeerDown) })
	}
}

func testPeerThatComesBackIsTold(t *testing.T, nid string, ignorePeerDown bool) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		p.IgnorePeerDown = ignorePeerDown
		a, b := newNode(t, node.Config{Parameters: &p}), newNode(t, node.Config{Parameters: &p})
		pa := f.addNI(t, a, "10.0.0.1@tcp")
		pb := f.addNI(t, b, nid)
		if net := pb.nid.Net(); net != pa.nid.Net() {
			router := newNode(t, node.Config{Parameters: &p, Routing: true})
			f.addNI(t, router, "10.0.0.9@tcp")
			f.addNI(t, router, "10.0.1.9@tcp1")
			addRoute(t, a, "tcp1", "10.0.0.9@tcp", node.RouteOptions{})
			addRoute(t, b, "tcp", "10.0.1.9@tcp1", node.RouteOptions{})
		}
		inbox(t, a)
		inbox(t, b)
		if err := say(t, a, nid); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var pushes atomic.Int32
		var broken atomic.Bool
		broken.Store(true)
		f.failBy(func(tx *lnd.Tx) error {
			h := tx.Header
			if h.Type != lnet.MsgPut || h.Portal != 0 || h.Dest != pb.nid {
				return nil
			}
			pushes.Add(1)
			if !broken.Load() {
				return nil
			}
			return fault(lnd.StatusNetworkTimeout, tx.To.NID, lnd.ErrUnreachable)
		})
		f.addNI(t, a, "10.0.0.3@tcp")
		pa.upper.PeerDown(lnd.PeerDown{Peer: pb.nid, Err: lnd.ErrUnreachable})
		time.Sleep(time.Hour)
		if n := pushes.Load(); n != 9 {
			t.Errorf("%d pushes, want 9", n)
		}
		time.Sleep(24 * time.Hour)
		if n := pushes.Load(); n != 9 {
			t.Errorf("%d pushes a day later, want 9", n)
		}
		broken.Store(false)
		if err := say(t, b, "10.0.0.1@tcp"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if q, _ := b.Peer(parseNID(t, "10.0.0.1@tcp")); len(q.NIs) != 2 {
			mine, _ := a.Peer(pb.nid)
			t.Errorf("the peer knows %v; %d told, state %s", nidsOf(q), mine.AckedSeq, mine.State)
		}
	})
}
