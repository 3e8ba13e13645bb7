package node_test

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given peers of which one never answers, one is configured, one is a gateway and one has
// answered, when ten minutes have passed since the last attempt, then the first one is
// gone and the others are there; while attempts go on, it stays.
//
// decisions 96
func TestAPeerThatNeverAnsweredExpires(t *testing.T) {
	for _, mode := range []discovery.Mode{discovery.Off, discovery.On} {
		synctest.Test(t, func(t *testing.T) {
			f := newFabric()
			p := node.DefaultParameters()
			p.Discovery = mode
			n := newNode(t, node.Config{Parameters: &p})
			f.addNI(t, n, "10.0.0.1@tcp")
			friend := newNode(t, node.Config{})
			f.addNI(t, friend, "10.0.0.2@tcp")
			nid := func(s string) lnet.NID { return parseNID(t, s) }
			ghost, answered, configured, gateway := nid("10.0.0.9@tcp"), nid("10.0.0.2@tcp"), nid("10.0.0.3@tcp"), nid("10.0.0.4@tcp")
			configure(t, n, configured)
			if err := n.Admin().AddRoute(context.Background(), parseNet(t, "tcp9"), gateway, node.RouteOptions{}); err != nil {
				t.Fatal(err)
			}
			f.failBy(func(tx *lnd.Tx) error {
				if tx.To.NID == answered || tx.Header.Src == answered {
					return nil
				}
				return fault(lnd.StatusRemoteDropped, tx.To.NID, syscall.ECONNREFUSED)
			})
			try := func() {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := n.Ping(ctx, lnet.ProcessID{NID: ghost}, node.PingOptions{}); err == nil {
					t.Fatal("a node that is not there answers")
				}
			}
			if err := ping(n, process(t, "10.0.0.2@tcp"), lnet.NID{}); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				try()
				time.Sleep(9 * time.Minute)
				if info, ok := n.Peer(ghost); !ok || info.Heard {
					t.Errorf("mode %v: while attempts go on: known %v, heard %v", mode, ok, info.Heard)
				}
			}
			time.Sleep(3 * time.Minute)
			if known(n, ghost) {
				t.Errorf("mode %v: the peer that never answered is still known", mode)
			}
			time.Sleep(time.Hour)
			for _, keep := range []lnet.NID{answered, configured, gateway} {
				if !known(n, keep) {
					t.Errorf("mode %v: %s has been forgotten", mode, keep)
				}
			}
			if info, _ := n.Peer(answered); !info.Heard {
				t.Errorf("mode %v: %s has answered, and counts as never heard", mode, answered)
			}
			try() // it is created again
			if !known(n, ghost) {
				t.Errorf("mode %v: the peer is not met again", mode)
			}
			sound(t, "node", n)
		})
	}
}
