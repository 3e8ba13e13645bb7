package node_test

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// BenchmarkPutWait measures a PUT of 64 bytes with an ACK and a waiting caller, within a
// node and over TCP.
func BenchmarkPutWait(b *testing.B) {
	for _, w := range []struct {
		name string
		pair func(tb testing.TB) (from, at *node.Node, to lnet.ProcessID)
	}{
		{"lo", func(tb testing.TB) (from, at *node.Node, to lnet.ProcessID) {
			n := newNode(tb, node.Config{})
			return n, n, loID
		}},
		{"tcp", loopbackPair},
	} {
		b.Run(w.name, func(b *testing.B) {
			from, at, to := w.pair(b)
			sink(b, at, portals.OpPut)
			data := make([]byte, 64)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := from.PutWait(ctx, data, to, node.PutOptions{Portal: 1, Ack: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNext measures a PUT of 64 bytes over TCP whose ACK is read from a queue.
func BenchmarkNext(b *testing.B) {
	from, at, to := loopbackPair(b)
	sink(b, at, portals.OpPut)
	q := node.NewEventQueue(node.EventsOf(portals.EventAck))
	h := bind(b, from, portals.MD{Bytes: make([]byte, 64), Threshold: portals.Unlimited, Handler: q})
	var e portals.Event
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		put(b, from, h, to, node.PutOptions{Portal: 1, Ack: true})
		if err := q.Next(ctx, &e); err != nil {
			b.Fatal(err)
		}
	}
}
