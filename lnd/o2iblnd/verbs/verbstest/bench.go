package verbstest

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Bench measures round trips of messages, and RDMA WRITEs, between the two processes of w. As in a driver, each
// end has a goroutine that waits at its completion queue and answers from there. spin is passed to CQ.Wait.
func Bench(b *testing.B, w *World, spin time.Duration) {
	b.Run("RoundTrip", func(b *testing.B) { roundTrips(b, w, 1, spin) })
	b.Run("RoundTrip64", func(b *testing.B) { roundTrips(b, w, 64, spin) })
	b.Run("WriteMegabyte", func(b *testing.B) { writes(b, w, spin) })
}

// pinger is one end of a connection, which answers each message with another one.
type pinger struct {
	b    *testing.B
	p    verbs.Provider
	ch   verbs.Channel
	l    verbs.ID
	d    verbs.Device
	q    verbs.CQ
	m    verbs.Memory
	i    verbs.ID
	left int // messages that are still to arrive
	own  int // number of these messages that it has to answer

	recvs    []verbs.Recv
	requests []verbs.Request
	pieces   [1]verbs.Piece
	wc       [64]verbs.Completion
}

const pingSlots = 128

func (x *pinger) must(err error) {
	x.b.Helper()
	if err != nil {
		x.b.Fatal(err)
	}
}

// newPinger opens an end without a connection, at the address of A if caller is set, and otherwise at that of
// B.
func newPinger(b *testing.B, p verbs.Provider, w *World, caller bool) *pinger {
	b.Helper()
	x := &pinger{b: b, p: p}
	addr := w.AddrB
	if caller {
		addr = w.AddrA
	}
	var err error
	x.ch, err = p.OpenChannel()
	x.must(err)
	x.l, err = x.ch.Listen(netip.AddrPortFrom(addr, w.Port), 8)
	x.must(err)
	x.d, _, err = x.l.Device()
	x.must(err)
	x.m, err = x.d.Alloc(2<<20, true, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	x.must(err)
	x.q, err = x.d.NewCQ(1024, 0)
	x.must(err)
	x.pieces[0] = verbs.Piece{Addr: x.m.Addr() + pingSlots*64, Len: 60, LKey: x.m.LKey()}
	return x
}

// event waits for an event of the given kind and returns its ID.
func (x *pinger) event(kind verbs.EventKind) verbs.ID {
	x.b.Helper()
	var ev [1]verbs.Event
	for {
		_, err := x.ch.Events(ev[:])
		x.must(err)
		if ev[0].Kind == kind {
			return ev[0].ID
		}
		if ev[0].Kind != verbs.EventTimewaitExit {
			x.b.Fatalf("%s, status %d, want %s", ev[0].Kind, ev[0].Status, kind)
		}
	}
}

// prepare creates the queue pair of i and posts all receives.
func (x *pinger) prepare(i verbs.ID) {
	x.b.Helper()
	x.i = i
	x.must(i.CreateQP(&verbs.QP{CQ: x.q, Sends: 2 * pingSlots, Recvs: pingSlots, SendPieces: 1}))
	for k := range uint64(pingSlots) {
		x.recvs = append(x.recvs, verbs.Recv{WRID: k, Addr: x.m.Addr() + k*64, Len: 64, LKey: x.m.LKey()})
	}
	_, _, err := i.Post(x.recvs, nil, nil)
	x.must(err)
	x.recvs = x.recvs[:0]
}

// pingers returns two connected ends.
func pingers(b *testing.B, w *World) (x, y *pinger) {
	b.Helper()
	x, y = newPinger(b, w.A, w, true), newPinger(b, w.B, w, false)
	i, err := x.ch.Dial(verbs.Dial{From: w.AddrA, To: netip.AddrPortFrom(w.AddrB, w.Port), Timeout: timeout})
	x.must(err)
	x.event(verbs.EventAddrResolved)
	x.must(i.ResolveRoute(timeout))
	x.event(verbs.EventRouteResolved)
	x.prepare(i)
	x.must(i.Connect(param))
	y.prepare(y.event(verbs.EventConnectRequest))
	y.must(y.i.Accept(param))
	x.event(verbs.EventEstablished)
	y.event(verbs.EventEstablished)
	return x, y
}

func (x *pinger) close() {
	x.b.Helper()
	x.i.Destroy()
	x.l.Destroy()
	x.must(x.q.Close())
	x.must(x.m.Close())
	x.must(x.d.Close())
	x.must(x.ch.Close())
}

// post posts n messages, of which only the last has a completion. It also posts again the receives that have
// completed.
func (x *pinger) post(n int) {
	for range n {
		x.requests = append(x.requests, verbs.Request{Count: 1})
	}
	if n > 0 {
		x.requests[n-1].Flags = verbs.FlagSignalled
	}
	if _, _, err := x.i.Post(x.recvs, x.requests, x.pieces[:]); err != nil {
		x.b.Error(err)
	}
	x.requests, x.recvs = x.requests[:0], x.recvs[:0]
}

// serve answers messages until left is 0.
func (x *pinger) serve(spin time.Duration) {
	for x.left > 0 {
		n, err := x.q.Wait(x.wc[:], spin)
		if err != nil {
			x.b.Error(err)
			return
		}
		came := 0
		for k := range x.wc[:n] {
			c := &x.wc[k]
			if c.Status != verbs.Success {
				x.b.Errorf("%s", c.Status)
				return
			}
			if c.Op == verbs.CompletedRecv {
				came++
				x.recvs = append(x.recvs, verbs.Recv{WRID: c.WRID, Addr: x.m.Addr() + c.WRID*64, Len: 64, LKey: x.m.LKey()})
			}
		}
		if came == 0 {
			continue
		}
		x.left -= came
		answers := min(came, x.own)
		x.own -= answers
		x.post(answers)
	}
}

// roundTrips measures round trips of which flight are in progress at a time.
func roundTrips(b *testing.B, w *World, flight int, spin time.Duration) {
	x, y := pingers(b, w)
	flight = min(flight, b.N)
	x.left, x.own = b.N, b.N-flight
	y.left, y.own = b.N, b.N
	before := w.A.Crossings()
	b.ReportAllocs()
	b.ResetTimer()
	var ends sync.WaitGroup
	ends.Go(func() { y.serve(spin) })
	x.post(flight)
	x.serve(spin)
	ends.Wait()
	b.StopTimer()
	// Each round trip has two messages at this end: one sent and one received.
	b.ReportMetric(float64(w.A.Crossings().Sub(before).Data())/float64(2*b.N), "crossings/msg")
	x.close()
	y.close()
}

// writes measures RDMA WRITEs of 1 MiB, each followed by a message that the other end answers.
func writes(b *testing.B, w *World, spin time.Duration) {
	x, y := pingers(b, w)
	const size = 1 << 20
	y.left, y.own = b.N, b.N
	before := w.A.Crossings()
	b.ReportAllocs()
	b.SetBytes(size)
	b.ResetTimer()
	var ends sync.WaitGroup
	ends.Go(func() { y.serve(spin) })
	requests := []verbs.Request{
		{Op: verbs.RDMAWrite, Remote: y.m.Addr() + size, RKey: y.m.RKey(), Count: 1},
		{First: 1, Count: 1, Flags: verbs.FlagSignalled},
	}
	pieces := []verbs.Piece{{Addr: x.m.Addr() + size, Len: size, LKey: x.m.LKey()}, x.pieces[0]}
	for range b.N {
		if _, _, err := x.i.Post(x.recvs, requests, pieces); err != nil {
			b.Fatal(err)
		}
		x.recvs = x.recvs[:0]
		x.left = 1
		x.serveOne(spin)
	}
	ends.Wait()
	b.StopTimer()
	b.ReportMetric(float64(w.A.Crossings().Sub(before).Data())/float64(b.N), "crossings/op")
	x.close()
	y.close()
}

// serveOne waits for one answer. The next post uses its receive again.
func (x *pinger) serveOne(spin time.Duration) {
	for x.left > 0 {
		n, err := x.q.Wait(x.wc[:], spin)
		if err != nil {
			x.b.Fatal(err)
		}
		for k := range x.wc[:n] {
			c := &x.wc[k]
			if c.Status != verbs.Success {
				x.b.Fatal(c.Status)
			}
			if c.Op == verbs.CompletedRecv {
				x.left--
				x.recvs = append(x.recvs, verbs.Recv{WRID: c.WRID, Addr: x.m.Addr() + c.WRID*64, Len: 64, LKey: x.m.LKey()})
			}
		}
	}
}
