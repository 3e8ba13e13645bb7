package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a check of a gateway whose ping was not answered yet, when the connections to the
// gateway are lost, then the ping is repeated at once, so that the gateway gets one in
// time to keep its NI up. This happens a few times in a row. Then the gateway counts as
// dead, and is checked again a little later.
//
// lnet-core 8.5 (2)
func TestCheckOfAGatewayThatCutsUsOff(t *testing.T) {
	for _, mode := range []discovery.Mode{discovery.On, discovery.Off} {
		synctest.Test(t, func(t *testing.T) {
			p := node.DefaultParameters()
			p.Discovery = mode
			g := newGuided(t, p)
			addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
			g.gateway.take()
			g.gateway.set(&g.gateway.silent, true)
			time.Sleep(61 * time.Second)
			if n := len(pings(g.gateway.take())); n != 1 {
				t.Fatalf("%d pings under way", n)
			}
			near := parseNID(t, gatewayNear)
			cut := func(nid lnet.NID) int {
				g.port.upper.ConnectionsLost(nid)
				synctest.Wait()
				return len(pings(g.gateway.take()))
			}
			if n := cut(parseNID(t, "10.77.0.99@tcp")); n != 0 {
				t.Errorf("another neighbour is lost: %d pings", n)
			}
			for range 4 {
				if n := cut(near); n != 1 {
					t.Errorf("cut off: %d pings", n)
				}
				if r := routeTo(t, g.node, "tcp1"); !r.Up {
					t.Errorf("cut off: %+v", r)
				}
			}
			if n := cut(near); n != 0 {
				t.Errorf("cut off once more: %d pings", n)
			}
			if r := routeTo(t, g.node, "tcp1"); r.Up {
				t.Errorf("cut off again and again: %+v", r)
			}
			g.gateway.set(&g.gateway.silent, false)
			time.Sleep(3 * time.Second)
			if n, r := len(pings(g.gateway.take())), routeTo(t, g.node, "tcp1"); n != 1 || !r.Up {
				t.Errorf("a little later: %d pings, %+v", n, r)
			}
			if c := g.node.Admin().Counters(); c.Trackers != 0 {
				t.Errorf("%d responses are still waited for", c.Trackers)
			}
		})
	}
}

// newPushOnItsWay returns a node whose gateway does not answer the push that was just
// sent to it.
func newPushOnItsWay(t *testing.T) *guided {
	t.Helper()
	g := newGuided(t, node.DefaultParameters())
	addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
	g.gateway.set(&g.gateway.silent, true)
	g.gateway.take()
	g.fabric.addNI(t, g.node, "10.77.7.1@tcp7") // the push is to report it to the gateway
	synctest.Wait()
	if n := len(pushes(g.gateway.take())); n != 1 {
		t.Fatalf("%d pushes", n)
	}
	return g
}

// The same applies to a push, which is repeated a little later, and to a recovery ping,
// which is sent when the next one is due.
//
// discovery 9.7
func TestPushAndRecoveryPingThatAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPushOnItsWay(t)
		near := parseNID(t, gatewayNear)
		g.port.upper.ConnectionsLost(near)
		g.gateway.set(&g.gateway.silent, false)
		time.Sleep(3 * time.Second)
		if n := len(pushes(g.gateway.take())); n != 1 {
			t.Errorf("cut off: %d pushes", n)
		}

		g.gateway.set(&g.gateway.silent, true)
		if err := g.node.Admin().SetPeerHealth(near, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if n := len(pings(g.gateway.take())); n != 1 {
			t.Fatalf("%d recovery pings, one is awaited", n)
		}
		g.port.upper.ConnectionsLost(near)
		time.Sleep(2 * time.Second)
		if n := len(pings(g.gateway.take())); n != 1 {
			t.Errorf("cut off: %d recovery pings", n)
		}
	})
}

// The same applies when our link goes down or the peer stalls while a push is under way.
// Otherwise this would be detected only when the push times out.
func TestPushThatIsHeldUp(t *testing.T) {
	for name, trouble := range map[string]func(g *guided){
		"link":  func(g *guided) { g.port.upper.LinkChanged(lnd.LinkDown) },
		"stall": func(g *guided) { g.port.upper.PeerStalled(parseNID(t, gatewayNear), time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newPushOnItsWay(t)
				trouble(g)
				g.gateway.set(&g.gateway.silent, false) // otherwise a check would wait for its answer
				time.Sleep(3 * time.Second)
				if n := len(pushes(g.gateway.take())); n == 0 {
					t.Error("the push is waited for")
				}
			})
		})
	}
}

// Requests of programs do not end when a connection is lost.
func TestProgramsWaitOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuided(t, node.DefaultParameters())
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		g.gateway.set(&g.gateway.silent, true)
		q := node.NewEventQueue(0)
		getMD(t, g.node, q, process(t, gatewayNear))
		g.port.upper.ConnectionsLost(parseNID(t, gatewayNear))
		g.port.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, gatewayNear), Err: lnd.ErrDisconnected})
		time.Sleep(10 * time.Second)
		if c := g.node.Admin().Counters(); c.Trackers < 1 || c.Trackers > 2 { // the second one is that of a check of the gateway
			t.Errorf("%d responses are waited for", c.Trackers)
		}
		for e := (portals.Event{}); q.TryNext(&e); {
			if e.Type != portals.EventSend || e.Err != nil {
				t.Errorf("%s: %v", e.Type, e.Err)
			}
		}
	})
}
