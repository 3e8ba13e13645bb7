package node_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// Given two arrivals that wait, on a lazy portal or because of a delay rule, when the
// connection of one is lost, then it is dropped, and the other one continues at its time.
func TestWithdrawnArrivalIsDropped(t *testing.T) {
	for name, wait := range map[string]struct{ begin, end func(n *node.Node) }{
		"lazy": {
			func(n *node.Node) { _ = n.SetLazy(5) }, // portal 5 exists
			func(*node.Node) {},
		},
		"rule": {
			func(n *node.Node) {
				_ = n.Admin().AddFault(faults.Rule{Kind: faults.Delay, Rate: 1, Latency: time.Hour})
			},
			func(n *node.Node) { n.Admin().RemoveFaults(faults.Delay, faults.NIDFilter{}, faults.NIDFilter{}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, node.Config{})
			q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
			wait.begin(n)
			from := parseNID(t, "10.0.0.2@tcp")
			h := lnet.Header{Type: lnet.MsgPut, Src: from, Portal: 5, Handle: lnet.NoHandle, PayloadLength: 2, HdrData: 1}
			gone, err := q.announce(from, h, false)
			if err != nil {
				t.Fatal(err)
			}
			h.HdrData = 2
			if _, err := q.announce(from, h, false); err != nil {
				t.Fatal(err)
			}
			q.upper.Withdrawn(gone)
			calls := q.take()
			if len(calls) != 1 || calls[0].rx != gone || calls[0].place.Done != nil {
				t.Errorf("placements %+v, want the first message dropped", calls)
			}
			if c := n.Admin().Counters(); c.Committed != 1 || c.Dropped != 1 {
				t.Errorf("%d under way, %d dropped; want 1, 1", c.Committed, c.Dropped)
			}
			var r recorder
			attach(t, n, portals.Entry{Portal: 5}, portals.MD{
				Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &r})
			wait.end(n)
			for _, c := range q.take() {
				c.complete(nil)
			}
			var taken []uint64
			for _, e := range r.take() {
				taken = append(taken, e.HdrData)
			}
			if d := cmp.Diff([]uint64{2}, taken); d != "" {
				t.Errorf("taken (-want +got):\n%s", d)
			}
		})
	}
}

// Given an arrival that has its placement, when its connection is lost, then the node
// leaves it to the driver, which completes it.
func TestWithdrawnAfterItsPlacement(t *testing.T) {
	n := newNode(t, node.Config{})
	q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
	sink(t, n, portals.OpPut)
	from := parseNID(t, "10.0.0.2@tcp")
	rx, err := q.announce(from, lnet.Header{Type: lnet.MsgPut, Src: from, Portal: 1, Handle: lnet.NoHandle}, false)
	if err != nil {
		t.Fatal(err)
	}
	q.upper.Withdrawn(rx)
	calls := q.take()
	if len(calls) != 1 || calls[0].place.Done == nil || n.Admin().Counters().Committed != 1 {
		t.Fatalf("placements %+v, %d under way; want one that is taken, 1", calls, n.Admin().Counters().Committed)
	}
	calls[0].complete(nil)
	if c := n.Admin().Counters(); c.Committed != 0 || c.Dropped != 0 {
		t.Errorf("%d under way, %d dropped; want none", c.Committed, c.Dropped)
	}
}

// Given hosts whose PUTs wait on a lazy portal, when all but one of the hosts are gone,
// then the node keeps nothing of the others, and an MD accepts the remaining PUT.
func TestPutsOfHostsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 20
		s := newSimulated(t)
		n, id := s.node(t, "server", "10.0.0.1")
		if err := n.SetLazy(5); err != nil {
			t.Fatal(err)
		}
		for k := range uint64(hosts) {
			from, _ := s.node(t, fmt.Sprint("host", k), fmt.Sprintf("10.0.0.%d", 2+k))
			h := bind(t, from, portals.MD{Bytes: make([]byte, 1), Threshold: 1})
			put(t, from, h, id, node.PutOptions{Portal: 5, HdrData: k})
			time.Sleep(100 * time.Millisecond)
			if k < hosts-1 {
				if err := from.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(time.Second)
		if c := n.Admin().Counters(); c.Committed != 1 || c.Dropped != hosts-1 {
			t.Errorf("%d under way, %d dropped; want 1, %d", c.Committed, c.Dropped, hosts-1)
		}
		var r recorder
		attach(t, n, portals.Entry{Portal: 5}, portals.MD{
			Bytes: make([]byte, hosts), Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &r})
		time.Sleep(time.Second)
		if e := r.take(); len(e) != 1 || e[0].HdrData != hosts-1 || e[0].Err != nil {
			t.Errorf("events %+v, want the last host's PUT alone", e)
		}
	})
}
