package inproc

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// crowd starts n TMs on a node, on as many portals as needed, each with a queued receive buffer.
func crowd(t testing.TB, d *domain, n int) (all []*queuedTM) {
	t.Helper()
	for k := range n {
		c := start(t, d, at(lnet.LoopbackNID, uint32(34+k/transport.MaxTMID), transport.Dynamic))
		submit(t, c, op(transport.MsgRecv, register(t, d, make([]byte, 64))))
		all = append(all, c)
	}
	return all
}

// BenchmarkMessageAmongTMs measures a message to one of many TMs. The cost does not depend on their number.
func BenchmarkMessageAmongTMs(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := openOn(b, New(newNode(b)))
			all := crowd(b, d, n)
			to, from := all[n/2], start(b, d, at(lnet.LoopbackNID, 33, 1))
			in, out := op(transport.MsgRecv, register(b, d, make([]byte, 64))), op(transport.MsgSend, register(b, d, make([]byte, 64)))
			in.MinReceiveSize, in.MaxMessages, out.Peer = 64, 1, to.Address()
			for out.Length = 1; to.ops.Load() > 0; { // use up the buffers that crowd has queued
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

// BenchmarkStart measures starting and stopping one TM while many others exist.
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

// BenchmarkTransferMachine is BenchmarkStart with the engine, in which each TM has a worker.
func BenchmarkTransferMachine(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := context.Background()
			d, err := transport.NewDomain(ctx, New(newNode(b)))
			if err != nil {
				b.Fatal(err)
			}
			open := func(portal int) *transport.TransferMachine {
				tm, err := d.Open(ctx, fmt.Sprintf("0@lo:12345:%d:*", portal), nil)
				if err != nil {
					b.Fatal(err)
				}
				return tm
			}
			shut := func(tm *transport.TransferMachine) {
				if err := tm.Shutdown(ctx); err != nil {
					b.Fatal(err)
				}
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			began := time.Now()
			all := make([]*transport.TransferMachine, n)
			for k := range all {
				all[k] = open(34 + k/transport.MaxTMID)
			}
			took := time.Since(began)
			runtime.GC()
			runtime.ReadMemStats(&after)
			for b.Loop() {
				shut(open(40))
			}
			began = time.Now()
			for _, tm := range all {
				shut(tm)
			}
			use := func(m *runtime.MemStats) float64 { return float64(m.HeapAlloc + m.StackInuse) }
			b.ReportMetric((use(&after)-use(&before))/float64(n), "B/TM")
			b.ReportMetric(float64(took.Nanoseconds())/float64(n), "start-ns/TM")
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(n), "stop-ns/TM")
		})
	}
}
