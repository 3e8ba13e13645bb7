package node_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// discovery 2.4 (3), 6.2 gateway
// lnet-core 8.5 (1)-(3), 8.5 when
func TestChecksOfAGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		g := newGuided(t, p, "10.77.3.1@tcp3", "10.77.4.1@tcp4")
		g.fabric.addNI(t, g.node, "10.77.3.10@tcp3")
		g.fabric.addNI(t, g.node, "10.77.5.10@tcp5") // the gateway has no NI there
		time.Sleep(10 * time.Minute)
		if came := g.gateway.take(); len(came) != 0 {
			t.Errorf("without a route: %+v", came)
		}
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		preferNet(t, g.node, "tcp")  // for messages, not for checks
		time.Sleep(20 * time.Second) // it is known on both nets by now
		g.gateway.take()
		const minutes = 10
		time.Sleep(minutes * time.Minute)

		near, second := parseNID(t, gatewayNear), parseNID(t, "10.77.3.1@tcp3")
		last := map[lnet.NID]time.Time{}
		count := map[lnet.NID]int{}
		var before lnet.NID
		for _, a := range pings(g.gateway.take()) {
			if a.over != near && a.over != second {
				t.Errorf("ping over %s", a.over)
			}
			if a.over == before {
				t.Errorf("two pings in a row over %s", a.over)
			}
			if at, ok := last[a.over]; ok {
				if d := a.at.Sub(at); d < 60*time.Second || d > 62*time.Second {
					t.Errorf("pings over %s %v apart", a.over, d)
				}
			}
			last[a.over], before = a.at, a.over
			count[a.over]++
		}
		for nid, n := range count {
			if n < minutes-1 || n > minutes {
				t.Errorf("%d pings over %s in %d minutes", n, nid, minutes)
			}
		}
		if len(count) != 2 {
			t.Errorf("pings over %v", count)
		}

		if err := g.node.Admin().DeleteRoute(context.Background(), 0, lnet.NID{}); err != nil {
			t.Fatal(err)
		}
		g.gateway.take()
		time.Sleep(10 * time.Minute)
		if came := g.gateway.take(); len(came) != 0 {
			t.Errorf("without a route again: %+v", came)
		}
	})
}

// Events within a second do not search all routes for gateways again, except after a route
// was added.
func TestEventsDoNotSearchRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		g := newGuided(t, p)
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		time.Sleep(time.Minute)
		g.node.RunDiscoverer(func(checkRouters func() time.Duration) {
			checkRouters()
			if n := testing.AllocsPerRun(10, func() { checkRouters() }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if pause := checkRouters(); pause <= 0 || pause > time.Second {
				t.Errorf("the next search is in %v", pause)
			}
		})
		synctest.Wait() // a check of the gateway in progress would delay the next one
		g.gateway.take()
		now := time.Now()
		addRoute(t, g.node, "tcp2", gatewayNear, node.RouteOptions{})
		synctest.Wait()
		if came := pings(g.gateway.take()); len(came) != 1 || !came[0].at.Equal(now) {
			t.Errorf("a new route: %+v", came)
		}
	})
}

// preferNet makes a node prefer a net.
func preferNet(t *testing.T, n *node.Node, net string) {
	t.Helper()
	d, err := lnet.ParsePattern(net)
	if err != nil {
		t.Fatal(err)
	}
	err = n.Admin().ChangePolicies(t.Context(), func(p *selection.Policies) error {
		return p.Add(selection.Rule{Dst: d}, selection.Append)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Messages do not wait for a check or for its failure.
//
// lnet-core 8.5 (2)
func TestMessagesDoNotWaitForChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuided(t, node.DefaultParameters())
		takesPuts(t, g.node)
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		g.gateway.set(&g.gateway.silent, true)
		time.Sleep(61 * time.Second)
		if seen := pings(g.gateway.take()); len(seen) < 2 {
			t.Fatalf("%d pings", len(seen))
		}
		// A check is under way without an answer.
		h := bind(t, g.node, portals.MD{Threshold: 1, Unlink: true})
		put(t, g.node, h, process(t, gatewayNear), node.PutOptions{Portal: 4})
		synctest.Wait()
		if came := g.gateway.take(); len(came) != 1 || came[0].header.Portal != 4 {
			t.Errorf("%+v", came)
		}
	})
}

// A gateway that does not answer is checked again after pauses that double up to 8 s, and
// are longer at random by up to a quarter. So its routes can be used soon after it has come
// back, however long it was away. The driver is asked to connect at once for each check.
//
// lnet-core 8.5 (3)
func TestChecksOfADeadGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuided(t, node.DefaultParameters())
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		time.Sleep(time.Minute + 10*time.Second)
		var dead atomic.Bool
		var mu sync.Mutex          // guards the variables below
		var checks []time.Duration // since died
		var died time.Time
		// restart forgets the checks, and returns them.
		restart := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			before := checks
			checks, died = nil, time.Now()
			return before
		}
		g.fabric.failBy(func(tx *lnd.Tx) error {
			if !dead.Load() || tx.To.NID != parseNID(t, gatewayNear) {
				return nil
			}
			if tx.Header.Type == lnet.MsgGet && tx.Reconnect {
				mu.Lock()
				defer mu.Unlock()
				checks = append(checks, time.Since(died).Round(time.Second))
			}
			return fault(lnd.StatusRemoteDropped, tx.To.NID, syscall.ECONNREFUSED) // would be resent to another NID
		})
		for range 2 { // the pauses begin anew
			dead.Store(true)
			for routeTo(t, g.node, "tcp1").Up {
				time.Sleep(time.Second)
			}
			restart()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			checks := restart()
			if n := len(checks); n < 18 || n > 25 || checks[3] > 20*time.Second {
				t.Errorf("checks after %v", checks)
			}
			dead.Store(false)
			time.Sleep(11 * time.Second)
			if !routeTo(t, g.node, "tcp1").Up {
				t.Fatal("the route is down although the gateway has come back")
			}
		}
		dead.Store(true)
		for routeTo(t, g.node, "tcp1").Up {
			time.Sleep(time.Second)
		}
		dead.Store(false)
		time.Sleep(2 * time.Second)
		if !routeTo(t, g.node, "tcp1").Up {
			t.Error("the route is down after a short absence of the gateway")
		}
	})
}

// lnet-core 8.5 never, 9.3 (4), 8.5 when
// selection 5.5 (5)
// discovery 5.1 routed
func TestGatewaysThatAreNotChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.RouterCheckInterval = 0
		r := newRouted(t, 1, p)
		type leg struct {
			src, dest string // in the header
			to        string // the next hop
			typ       lnet.MsgType
		}
		var mu sync.Mutex
		var seen []leg
		r.fabric.failBy(func(tx *lnd.Tx) error {
			if h := &tx.Header; h.Type != lnet.MsgPut || h.Portal != lnet.ReservedPortal { // no message waits for pushes
				mu.Lock()
				seen = append(seen, leg{h.Src.String(), h.Dest.String(), tx.To.NID.String(), h.Type})
				mu.Unlock()
			}
			return nil
		})
		time.Sleep(30 * time.Second) // less than the time after which the router marks silent nets as down
		synctest.Wait()
		mu.Lock()
		if len(seen) != 0 {
			t.Errorf("without use: %v", seen)
		}
		mu.Unlock()
		if err := r.put(t, []byte("a")); err != nil {
			t.Fatal(err)
		}
		const client, server = "10.77.0.10@tcp", "10.77.1.20@tcp1"
		near, far := routerNIDs[0][0], routerNIDs[0][1]
		synctest.Wait()
		mu.Lock()
		all := slices.Clone(seen)
		mu.Unlock()
		at := -1
		for _, l := range []leg{
			{client, near, near, lnet.MsgGet}, // the client pings the gateway before it uses it
			{near, client, client, lnet.MsgReply},
			{client, server, near, lnet.MsgPut},
			{far, server, server, lnet.MsgGet}, // and the gateway pings the server
			{server, far, far, lnet.MsgReply},
			{client, server, server, lnet.MsgPut},
			{server, client, far, lnet.MsgAck},
			{server, client, client, lnet.MsgAck},
		} {
			next := slices.Index(all[at+1:], l)
			if next < 0 {
				t.Fatalf("%v does not come, or too early: %v", l, all)
			}
			at += 1 + next
		}
		for _, n := range []*node.Node{r.client, r.server, r.routers[0]} {
			sound(t, "afterwards", n)
		}
	})
}

// Gateways that were not checked are down, as peers too.
//
// lnet-core 8.5 before
func TestPeersAreDownBeforeTheyAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.CheckRoutersBeforeUse = true
		g := newGuided(t, p)
		g.gateway.set(&g.gateway.silent, true)
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		if r, i := routeTo(t, g.node, "tcp1"), peerNI(t, g.node, gatewayNear); r.Up || i.Aliveness != node.AliveDown {
			t.Errorf("unchecked: %+v, %v", r, i.Aliveness)
		}
		g.gateway.set(&g.gateway.silent, false)
		time.Sleep(5 * time.Minute)
		if r, i := routeTo(t, g.node, "tcp1"), peerNI(t, g.node, gatewayNear); !r.Up || i.Aliveness != node.AliveUp {
			t.Errorf("checked: %+v, %v", r, i.Aliveness)
		}
	})
}

// Given a gateway whose NI on our net is down, then without discovery its answer to a
// check marks the routes through it as down.
//
// lnet-core 8.3 (2)
func TestGatewayDownOnTheNearNetWithoutDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.Discovery = discovery.Off
		p.HealthSensitivity, p.RetryCount = 0, 0 // no recovery ping, whose answer would mark it as up
		g := newGuided(t, p)
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		time.Sleep(2 * time.Minute)
		if r := routeTo(t, g.node, "tcp1"); !r.Up {
			t.Fatalf("%+v", r)
		}
		g.gateway.tell(func(info *lnet.PingInfo) { info.NIs[0].Status = lnet.StatusDown })
		time.Sleep(2*time.Minute + 30*time.Second) // between two checks
		synctest.Wait()
		if r := routeTo(t, g.node, "tcp1"); r.Up {
			t.Errorf("its NI on our net is down: %+v", r)
		}
	})
}
