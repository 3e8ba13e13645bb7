package node_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// A message for another node is held for a moment, and meanwhile its neighbour is deleted
// while all of its router credits are in use. The message must not wait for them where it
// could not be found.
func TestNeighbourGoesBeforeItsMessageWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{PeerCredits: 2})
		expect(t, "at first", r.puts(t, asker, 2, 100), 2, 0)
		addFault(t, r.node, faults.Rule{Kind: faults.Delay, Rate: 1, Latency: 5 * time.Second})
		held := r.puts(t, asker, 1, 100)
		if err := r.node.Admin().DeletePeer(context.Background(), parseNID(t, asker)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		expect(t, "held", held, 0, 1)
		r.node.Admin().RemoveFaults(faults.Delay, faults.NIDFilter{}, faults.NIDFilter{})
		synctest.Wait()
		expect(t, "let go", held, 1, 0)
		r.sound(t, "afterwards")
	})
}

// The same while routing ends: the message is dropped, and no message waits for buffers
// then.
//
// lnet-core 9.3 (1)
func TestRoutingEndsBeforeAMessageWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{})
		addFault(t, r.node, faults.Rule{Kind: faults.Delay, Rate: 1, Latency: time.Minute})
		held := r.puts(t, asker, 1, 100)
		r.node.Admin().DisableRouting()
		time.Sleep(30 * time.Second)
		if s := r.node.Admin().Routing().State; s != node.RoutingDisabled {
			t.Fatalf("state %v", s)
		}
		expect(t, "held", held, 0, 1)
		before := r.node.Admin().Drops()[node.DropNotRouter]
		time.Sleep(31 * time.Second)
		if got := were(held); !slices.Equal(got, []string{"dropped"}) {
			t.Errorf("let go: %v", got)
		}
		if n := r.node.Admin().Drops()[node.DropNotRouter] - before; n != 1 {
			t.Errorf("%d dropped", n)
		}
		r.sound(t, "afterwards")
	})
}

// A ping arrives at the moment in which its net is marked as silent.
//
// lnet-core 9.2 silent
func TestPingAtTheMomentOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{})
		time.Sleep(50 * time.Second) // no ping has arrived yet, but that is not long enough to be silent
		near := parseNID(t, gatewayNear)
		for _, c := range []struct {
			within time.Duration
			want   lnet.NIStatus
		}{{110 * time.Second, lnet.StatusUp}, {40 * time.Second, lnet.StatusDown}} {
			r.node.CallSilent(near, c.within)
			synctest.Wait()
			if s := statuses(r.node)[gatewayNear]; s != c.want {
				t.Errorf("no ping within %v: %v, want %v", c.within, s, c.want)
			}
		}
	})
}

// A gateway that discovery has merged into one node is split when discovery is turned
// off. Its routes lead through the resulting peers, and follow the reports of a driver.
//
// lnet-core 8.4 (4)
func TestGatewayIsRemade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		g := newGuided(t, p)
		takesPuts(t, g.node)
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		known := func(nids int) {
			t.Helper()
			if q, ok := g.node.Peer(parseNID(t, gatewayNear)); !ok || len(q.NIs) != nids || !q.Gateway {
				t.Errorf("the gateway is %+v, want %d NIDs", q, nids)
			}
		}
		known(2)
		p.Discovery = discovery.Off
		if err := g.node.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(130 * time.Second) // after the next check
		known(1)
		for _, up := range []bool{true, false, true} {
			if up {
				g.bring(t, behind)
			} else {
				g.port.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, gatewayNear), Err: lnd.ErrUnreachable})
				synctest.Wait()
			}
			if r := routeTo(t, g.node, "tcp1"); r.Up != up {
				t.Errorf("the driver says up %t: %+v", up, r)
			}
		}
		if err := ping(g.node, process(t, behind), lnet.NID{}); err != nil {
			t.Errorf("ping: %v", err)
		}
		sound(t, "afterwards", g.node)
	})
}
