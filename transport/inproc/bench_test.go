package inproc

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// crowd starts n TMs on a node, on as many portals as they need, each with a receive
// buffer queued.
func crowd(t testing.TB, d *domain, n int) (all []*tm) {
	t.Helper()
	for k := range n {
		c := start(t, d, at(lnet.LoopbackNID, uint32(34+k/transport.MaxTMID), transport.Dynamic))
		submit(t, c, op(transport.MsgRecv, register(t, d, make([]byte, 64))))
		all = append(all, c)
	}
	return all
}

// BenchmarkMessageAmongTMs is a message to one of many TMs: what it costs does not depend
// on their number.
func BenchmarkMessageAmongTMs(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := openOn(b, New(newNode(b)))
			all := crowd(b, d, n)
			to, from := all[n/2], start(b, d, at(lnet.LoopbackNID, 33, 1))
			in, out := op(transport.MsgRecv, register(b, d, make([]byte, 64))), op(transport.MsgSend, register(b, d, make([]byte, 64)))
			in.MinReceiveSize, in.MaxMessages, out.Peer = 64, 1, to.Address()
			for out.Length = 1; to.ops.Load() > 0; { // what crowd has queued
				submit(b, from, out)
				next(b, to)
				next(b, from)
			}
			out.Length = 64
			b.ReportAllocs()
			for b.Loop() {
				submit(b, to, in)
				submit(b, from, out)
				next(b, to)
				next(b, from)
			}
		})
	}
}

// BenchmarkStart is starting and stopping one TM beside many.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := openOn(b, New(newNode(b)))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			began := time.Now()
			crowd(b, d, n)
			took := time.Since(began)
			runtime.GC()
			runtime.ReadMemStats(&after)
			for b.Loop() {
				stop(b, start(b, d, at(lnet.LoopbackNID, 36, transport.Dynamic)))
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/TM")
			b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/TM")
		})
	}
}
