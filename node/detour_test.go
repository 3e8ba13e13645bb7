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

// Given two nodes with several paths between them, when one path fails and another one
// works, then Detour reports how long the most recent failure has been known. It reports
// nothing if all paths have failed, or no path has.
func TestDetour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		r.hears(t)
		want := func(when string, known time.Duration, is bool) {
			t.Helper()
			if d, ok := r.a.Detour(r.nb[1]); d != known || ok != is {
				t.Errorf("%s: detour for %v, %t, want %v, %t", when, d, ok, known, is)
			}
		}
		stall := func(i, k int, since time.Time) { r.ports[r.na[i]].upper.PeerStalled(r.nb[k], since) }
		want("at first", 0, false)
		stall(0, 0, time.Now())
		time.Sleep(3 * time.Second)
		want("one stalls", 3*time.Second, true)
		r.ports[r.na[1]].setLink(lnd.LinkDown)
		time.Sleep(2 * time.Second)
		want("a link is down", 2*time.Second, true)
		stall(0, 0, time.Now()) // not a new failure
		want("still", 2*time.Second, true)
		stall(0, 1, time.Now())
		want("nothing works", 0, false)
		stall(0, 0, time.Time{})
		want("one works", 0, true)
		stall(0, 1, time.Time{})
		r.ports[r.na[1]].setLink(lnd.LinkUp)
		want("all work", 0, false)
	})
}

// There is no detour to this node itself or to an unknown node. There is one to a node
// behind routers if a path to one of these has failed.
func TestDetourThroughRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := newNode(t, node.Config{Parameters: new(static())})
		port := f.addNI(t, a, "10.0.0.1@tcp")
		far := parseNID(t, "10.9.0.1@tcp9")
		gateways := []lnet.NID{parseNID(t, "10.0.0.21@tcp"), parseNID(t, "10.0.0.22@tcp")}
		for _, g := range gateways {
			if err := a.Admin().AddRoute(context.Background(), far.Net(), g, node.RouteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		configure(t, a, far)
		port.upper.PeerStalled(gateways[0], time.Now())
		time.Sleep(time.Second)
		for to, is := range map[lnet.NID]bool{far: true, gateways[1]: false, port.nid: false, lnet.LoopbackNID: false, parseNID(t, "10.0.0.9@tcp"): false} {
			if d, ok := a.Detour(to); ok != is || ok && d != time.Second {
				t.Errorf("%s: detour for %v, %t, want %t", to, d, ok, is)
			}
		}
	})
}
