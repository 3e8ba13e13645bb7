package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Forwarded messages wait for discovery of their destination, with buffers and router
// credits, when the router is closed, is stopped, loses an NI or deletes the peer.
func TestRouterChangesWhileForwardsWaitForDiscovery(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		change func(n *node.Node) error
		state  node.RoutingState
	}{
		{"closed", func(n *node.Node) error { return n.Close(ctx) }, node.RoutingDisabled},
		{"stopped", func(n *node.Node) error { n.Admin().DisableRouting(); return nil }, node.RoutingDisabled},
		{"loses the NI that they came over", func(n *node.Node) error { return n.RemoveNI(ctx, mustNID(gatewayNear)) }, node.RoutingEnabled},
		{"loses the NI on the way", func(n *node.Node) error { return n.RemoveNI(ctx, mustNID(gatewayFar)) }, node.RoutingEnabled},
		{"forgets who sent", func(n *node.Node) error { return n.Admin().ForceDeletePeer(ctx, mustNID(asker)) }, node.RoutingEnabled},
		{"forgets the destination", func(n *node.Node) error { return n.Admin().ForceDeletePeer(ctx, mustNID(behind)) }, node.RoutingEnabled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := node.DefaultParameters()
				f := newFabric()
				n := newNode(t, node.Config{Parameters: &p, Routing: true, Buffers: node.Buffers{Tiny: 20, Small: 20, Large: 20}})
				near := f.addNI(t, n, gatewayNear)
				f.addNI(t, n, gatewayFar)
				source, dest := newActor(t, f, asker), newActor(t, f, behind)
				dest.set(&dest.silent, true)
				send := func() {
					source.send(0, near.nid, lnet.Header{
						Src: source.ports[0].nid, Dest: dest.ports[0].nid, Type: lnet.MsgPut, Portal: 4, Handle: lnet.NoHandle,
					}, nil)
				}
				for range 3 {
					send()
				}
				synctest.Wait()
				if k := n.Admin().Routing().Pools[tiny]; k.Credits != k.Buffers-3 {
					t.Fatalf("pool %+v", k)
				}
				begin := time.Now()
				if err := c.change(n); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(begin); d > 12*time.Second {
					t.Errorf("it took %v", d)
				}
				time.Sleep(10 * time.Minute)
				sound(t, c.name, n)
				if s := n.Admin().Routing().State; s != c.state {
					t.Errorf("state %d; want %d", s, c.state)
				}
			})
		})
	}
}

// An NI is removed and added repeatedly while messages that arrived on it are in all
// stages in the router.
func TestNIsComeAndGoUnderARouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{Small: 3, Tiny: 2}, lnd.Tunables{PeerCredits: 3})
		ctx := context.Background()
		for round := range 30 {
			all := r.puts(t, asker, 5, 100)
			all = append(all, r.puts(t, otherAsker, 5, 0)...)
			for range 3 {
				all = append(all, r.far.message(t, lnet.MsgPut, behind, asker, 10))
			}
			r.far.finish(round%4, nil)
			which, nid := &r.near, gatewayNear
			if round%2 == 1 {
				which, nid = &r.far, gatewayFar
			}
			gone := *which
			if err := r.node.RemoveNI(ctx, parseNID(t, nid)); err != nil {
				t.Fatal(err)
			}
			*which = &hand{}
			addHand(t, r.node, *which, nid, lnd.Tunables{PeerCredits: 3})
			synctest.Wait()
			r.sound(t, "it is there again")
			for k, w := range were(all) {
				if w != "taken" && w != "dropped" && w != "failed" {
					t.Fatalf("round %d: message %d: %s", round, k, w)
				}
			}
			if n := gone.waiting(); n != 0 {
				t.Errorf("round %d: %d messages on an NI that is gone", round, n)
			}
		}
	})
}
