//go:build !race

// These tests measure memory and wake-ups, which the race detector changes.

package node_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/cost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// meetAll sends a message to peers of the crowd, from number first on, so that the node discovers them. It
// returns when they are up to date. It is for synctest bubbles.
func meetAll(t *testing.T, n *node.Node, first, peers int) {
	t.Helper()
	for k := range peers {
		h := bind(t, n, portals.MD{Bytes: []byte("hello"), Threshold: 1, Unlink: true})
		put(t, n, h, lnet.ProcessID{NID: crowdNID(lnet.MakeNet(lnet.TypeTCP, 0), first+k)}, node.PutOptions{Portal: 5})
	}
	synctest.Wait()
	time.Sleep(10 * time.Second)
	if !settled(t, n, first+peers) {
		t.Fatal("discovery has not finished")
	}
}

// routesThrough returns routes to many nets, from number first on, in turn through gateways. The gateways are
// peers of the crowd, from number gateway on.
func routesThrough(gateway, gateways, first, count int) (routes []node.NewRoute) {
	for k := range count {
		routes = append(routes, node.NewRoute{
			Net:     lnet.MakeNet(lnet.TypeTCP, uint16(1000+first+k)),
			Gateway: crowdNID(lnet.MakeNet(lnet.TypeTCP, 0), gateway+k%gateways),
		})
	}
	return routes
}

func addAll(t *testing.T, n *node.Node, routes []node.NewRoute) {
	t.Helper()
	errs, err := n.Admin().AddRoutes(t.Context(), routes)
	for _, e := range append(errs, err) {
		if e != nil {
			t.Fatal(e)
		}
	}
	synctest.Wait()
	time.Sleep(10 * time.Second)
}

// A peer with two NIDs takes less than 3 KiB, and less than 2 KiB before the first message. A route takes little,
// and less than the peer that is its gateway.
func TestIdlePeersAndRoutesAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := newCrowd(t)
		meetAll(t, n, 0, 10)
		before := cost.Memory()
		meetAll(t, n, 10, 1000)
		cost.Bound(t, "idle peer of two NIDs", cost.Memory()-before, 1000, 3072)

		before = cost.Memory()
		for k := range 1000 {
			configure(t, n, crowdNID(lnet.MakeNet(lnet.TypeTCP, 0), 100000+k), crowdNID(lnet.MakeNet(lnet.TypeTCP, 1), 100000+k))
		}
		cost.Bound(t, "configured peer of two NIDs without messages", cost.Memory()-before, 1000, 2048)

		addAll(t, n, routesThrough(0, 16, 0, 16))
		before = cost.Memory()
		addAll(t, n, routesThrough(0, 16, 16, 5000))
		cost.Bound(t, "route", cost.Memory()-before, 5000, 256)

		before = cost.Memory()
		addAll(t, n, routesThrough(5000, 1000, 20000, 1000))
		cost.Bound(t, "route with a gateway of its own", cost.Memory()-before, 1000, 3072+512)
		runtime.KeepAlive(n)
	})
}

// While nothing happens, only the monitor and the discoverer run, however many peers and routes there are. The
// only messages are the pings that check gateways.
//
// lnet-core 12.2
func TestIdlePeersAndRoutesHaveNoTimers(t *testing.T) {
	type minute struct{ wakeups, sent uint64 }
	idle := func(peers, routes int) (m minute) {
		t.Run(fmt.Sprint(peers, " peers, ", routes, " routes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, n := newCrowd(t)
				meetAll(t, n, 0, peers)
				addAll(t, n, routesThrough(0, 2, 0, routes))
				time.Sleep(5 * time.Minute)
				before := n.Admin().Counters().Sent
				m.wakeups = cost.Wakeups(func() { time.Sleep(time.Minute) })
				m.sent = n.Admin().Counters().Sent - before
			})
		})
		return m
	}
	few, many := idle(10, 2), idle(1000, 1000)
	t.Logf("in a minute: %+v and %+v", few, many)
	if many.wakeups > few.wakeups+100 { // a wake-up of each peer or route would be 1000 more
		t.Errorf("%d wake-ups with 1000 peers and routes, %d with few", many.wakeups, few.wakeups)
	}
	if many.sent != few.sent {
		t.Errorf("%d messages with 1000 peers and routes, %d with few", many.sent, few.sent)
	}
}
