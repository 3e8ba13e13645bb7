//go:build !race

package node_test

import (
	"context"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// traffic is an exchange that a test or a benchmark repeats.
type traffic struct {
	name string
	make func(t testing.TB) func()
}

func traffics() []traffic {
	return []traffic{
		{"put", func(t testing.TB) func() { p := newPair(t); return putting(t, p.a, p.b, p.idb, false) }},
		{"put with ack", func(t testing.TB) func() { p := newPair(t); return putting(t, p.a, p.b, p.idb, true) }},
		{"put with ack on 0@lo", func(t testing.TB) func() {
			n := newNode(t, node.Config{})
			return putting(t, n, n, loID, true)
		}},
		{"get", func(t testing.TB) func() { p := newPair(t); return getting(t, p.a, p.b, p.idb) }},
		{"get on 0@lo", func(t testing.TB) func() {
			n := newNode(t, node.Config{})
			return getting(t, n, n, loID)
		}},
		{"put with ack, discovered rails", func(t testing.TB) func() {
			p := newDiscoveredPair(t)
			return putting(t, p.a, p.b, p.idb, true)
		}},
		{"get, discovered rails", func(t testing.TB) func() {
			p := newDiscoveredPair(t)
			return getting(t, p.a, p.b, p.idb)
		}},
		{"bind, put, auto unlink", func(t testing.TB) func() {
			p := newPair(t)
			sink(t, p.b, portals.OpPut)
			acks := 0
			data := make([]byte, 64)
			var h portals.Handler = portals.HandlerFunc(func(e *portals.Event) {
				if e.Type == portals.EventAck && e.Unlinked {
					acks++
				}
			})
			return func() {
				before := acks
				md := bind(t, p.a, portals.MD{Bytes: data, Threshold: 2, Unlink: true, Handler: h})
				put(t, p.a, md, p.idb, node.PutOptions{Portal: 1, Ack: true})
				if acks != before+1 {
					t.Fatal("no ACK")
				}
			}
		}},
		{"put with ack that is waited for", func(t testing.TB) func() {
			p := newPair(t)
			sink(t, p.b, portals.OpPut)
			data := make([]byte, 64)
			return func() {
				if _, err := p.a.PutWait(context.Background(), data, p.idb, node.PutOptions{Portal: 1, Ack: true}); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"bind, put of registered memory", func(t testing.TB) func() {
			p := newPair(t)
			sink(t, p.b, portals.OpPut)
			r, err := p.a.Register(context.Background(), make([]byte, 64))
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				md := bind(t, p.a, portals.MD{Memory: r.Slice(10, 20), Threshold: 1, Unlink: true})
				put(t, p.a, md, p.idb, node.PutOptions{Portal: 1})
			}
		}},
		{"attach, put, auto unlink", func(t testing.TB) func() {
			p := newPair(t)
			data := make([]byte, 64)
			h := bind(t, p.a, portals.MD{Bytes: data, Threshold: portals.Unlimited})
			room := make([]byte, 64)
			return func() {
				attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{Bytes: room, Threshold: 1, Unlink: true, Options: portals.OpPut})
				put(t, p.a, h, p.idb, node.PutOptions{Portal: 1})
			}
		}},
		{"put with ack to an inbox", func(t testing.TB) func() {
			p := newPair(t)
			b := openInbox(t, p.b, node.InboxConfig{Portal: 1, Size: 64, Buffers: 2})
			h := bind(t, p.a, portals.MD{Bytes: make([]byte, 64), Threshold: portals.Unlimited})
			return func() {
				put(t, p.a, h, p.idb, node.PutOptions{Portal: 1, Ack: true})
				m, err := b.Next(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				m.Release()
			}
		}},
		{"dropped put", func(t testing.TB) func() {
			p := newPair(t)
			h := bind(t, p.a, portals.MD{Bytes: make([]byte, 64), Threshold: portals.Unlimited})
			return func() { put(t, p.a, h, p.idb, node.PutOptions{Portal: 2}) }
		}},
		{"waiting for an ack", func(t testing.TB) func() {
			p := newPair(t)
			sink(t, p.b, portals.OpPut)
			q := node.NewEventQueue(node.EventsOf(portals.EventAck))
			h := bind(t, p.a, portals.MD{Bytes: make([]byte, 64), Threshold: portals.Unlimited, Handler: q})
			var e portals.Event
			ctx := context.Background()
			return func() {
				put(t, p.a, h, p.idb, node.PutOptions{Portal: 1, Ack: true})
				if err := q.Next(ctx, &e); err != nil || e.Type != portals.EventAck {
					t.Fatal(e.Type, err)
				}
			}
		}},
		{"queued for credits", func(t testing.TB) func() {
			p := newPair(t)
			sink(t, p.b, portals.OpPut)
			h := bind(t, p.a, portals.MD{Bytes: make([]byte, 64), Threshold: portals.Unlimited})
			return func() {
				p.fabric.hold(true)
				for range 20 {
					put(t, p.a, h, p.idb, node.PutOptions{Portal: 1, Ack: true})
				}
				p.fabric.hold(false)
			}
		}},
	}
}

// newDiscoveredPair returns a pair with two NIs each that has completed discovery in both
// directions.
func newDiscoveredPair(t testing.TB) *pair {
	t.Helper()
	on := node.DefaultParameters()
	p := newPairOf(t, node.Config{Parameters: &on}, node.Config{Parameters: &on})
	p.fabric.addNI(t, p.a, "10.77.0.21@tcp")
	p.fabric.addNI(t, p.b, "10.77.0.22@tcp")
	done := func(n *node.Node, nid lnet.NID) bool {
		const flags = discovery.MultiRail | discovery.Discovered | discovery.NIDsUpToDate
		q, _ := n.Peer(nid)
		return q.State == flags && q.AckedSeq == 3
	}
	for range 10 { // the end of a round may start a round in the other direction
		for n, nid := range map[*node.Node]lnet.NID{p.a: p.idb.NID, p.b: p.ida.NID} {
			if _, err := n.Discover(context.Background(), nid); err != nil {
				t.Fatal(err)
			}
		}
		if done(p.a, p.idb.NID) && done(p.b, p.ida.NID) {
			p.fabric.awaitIdle()
			return p
		}
	}
	t.Fatal("discovery does not end")
	return nil
}

func putting(t testing.TB, from, at *node.Node, to lnet.ProcessID, ack bool) func() {
	t.Helper()
	sink(t, at, portals.OpPut)
	acks := 0
	h := bind(t, from, portals.MD{
		Bytes: make([]byte, 64), Threshold: portals.Unlimited,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if e.Type == portals.EventAck {
				acks++
			}
		}),
	})
	return func() {
		before := acks
		put(t, from, h, to, node.PutOptions{Portal: 1, Ack: ack})
		if ack && acks != before+1 {
			t.Fatal("no ACK")
		}
	}
}

func getting(t testing.TB, from, at *node.Node, to lnet.ProcessID) func() {
	t.Helper()
	sink(t, at, portals.OpGet)
	replies := 0
	h := bind(t, from, portals.MD{
		Bytes: make([]byte, 64), Threshold: portals.Unlimited,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if e.Type == portals.EventReply {
				replies++
			}
		}),
	})
	return func() {
		before := replies
		if err := from.Get(h, to, node.GetOptions{Portal: 1}); err != nil {
			t.Fatal(err)
		}
		if replies != before+1 {
			t.Fatal("no REPLY")
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, c := range traffics() {
		t.Run(c.name, func(t *testing.T) {
			f := c.make(t)
			for range 300 { // pools and tables grow to their working size
				f()
			}
			if got := testing.AllocsPerRun(1000, f); got != 0 {
				t.Errorf("%v allocations per run, want 0", got)
			}
		})
	}
}

// BenchmarkTraffic measures the cost of the node itself, because the fabric in memory has
// no latency.
func BenchmarkTraffic(b *testing.B) {
	for _, c := range traffics() {
		b.Run(c.name, func(b *testing.B) {
			f := c.make(b)
			f()
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
