package o2iblnd_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// taker is an upper that places all arrivals in the same memory and counts them.
type taker struct {
	quiet
	i     atomic.Pointer[o2iblnd.Interface]
	into  memory.Vector
	reply memory.Vector
	took  atomic.Int64
	after func()
}

func (u *taker) Arrived(m *lnd.Rx) error {
	p := lnd.Placement{Done: u}
	if m.RDMA {
		p.Reply = u.reply.Slice(0, int(m.Header.Length))
	} else {
		p.Memory = u.into.Slice(0, int(m.Header.PayloadLength))
	}
	u.i.Load().Receive(m, p)
	return nil
}

func (u *taker) Received(*lnd.Rx, error) {
	u.took.Add(1)
	if u.after != nil {
		u.after()
	}
}

// quiet is an upper that ignores all other upcalls.
type quiet struct{}

func (quiet) Withdrawn(*lnd.Rx)               {}
func (quiet) PeerDown(lnd.PeerDown)           {}
func (quiet) ConnectionsLost(lnet.NID)        {}
func (quiet) PeerRestarted(lnet.NID)          {}
func (quiet) LNDTimeout() time.Duration       { return 0 }
func (quiet) Vouched(lnet.NID) bool           { return false }
func (quiet) PeerStalled(lnet.NID, time.Time) {}
func (quiet) LinkChanged(lnd.LinkState)       {}

// pair is two nodes that run in real time.
type pair struct {
	procs [2]verbs.Provider
	nids  [2]lnet.NID
	up    [2]*taker
	i     [2]*o2iblnd.Interface
	close func()
}

// newPair opens two nodes on a fabric in memory.
func newPair(t testing.TB, credits, room int, registered bool) *pair {
	t.Helper()
	fab := fabric.New(fabric.Config{})
	p := &pair{nids: [2]lnet.NID{nidOf(0), nidOf(1)}}
	for k := range 2 {
		p.procs[k] = fab.Host(fmt.Sprint("host", k), address(k)).Open()
	}
	p.open(t, credits, room, registered)
	ends := p.close
	p.close = func() {
		ends()
		fab.Close()
	}
	return p
}

func (p *pair) open(t testing.TB, credits, room int, registered bool) {
	t.Helper()
	var drivers [2]*o2iblnd.Driver
	for k := range 2 {
		inMemory, _ := p.procs[k].(*fabric.Process)
		c := config(t, inMemory)
		c.Provider = p.procs[k]
		c.Logger = slog.New(slog.DiscardHandler)
		d, err := o2iblnd.New(c)
		if err != nil {
			t.Fatal(err)
		}
		drivers[k] = d
		p.up[k] = &taker{into: memory.Of(make([]byte, room)), reply: memory.Of(make([]byte, room))}
		i, err := d.Open(context.Background(), lnd.Config{
			NID: p.nids[k], Upper: p.up[k], Tunables: lnd.Tunables{PeerTimeout: -1, PeerCredits: credits},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.i[k] = i.(*o2iblnd.Interface)
		p.up[k].i.Store(p.i[k])
		if registered {
			p.up[k].into, p.up[k].reply = p.region(t, k, room), p.region(t, k, room)
		}
	}
	p.close = func() {
		for k := range 2 {
			if err := p.i[k].Close(context.Background()); err != nil {
				t.Error(err)
			}
			if err := drivers[k].Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// region returns memory that is registered with node k's device.
func (p *pair) region(t testing.TB, k, size int) memory.Vector {
	t.Helper()
	r := memory.NewRegion(make([]byte, size), nil)
	if err := r.Register(p.i[k]); err != nil {
		t.Fatal(err)
	}
	return r.Slice(0, size)
}

// stream sends the same message again and again.
type stream struct {
	tx   lnd.Tx
	i    *o2iblnd.Interface
	left *atomic.Int64
	over chan error
}

func (s *stream) Sent(m *lnd.Tx, err error) {
	switch n := s.left.Add(-1); {
	case err != nil:
		s.over <- err
	case n >= 0:
		s.i.Send(m)
	default:
		s.over <- nil
	}
}

func (p *pair) message(typ lnet.MsgType, v memory.Vector) lnd.Tx {
	h := lnet.Header{
		Type: typ, Src: p.nids[0], Dest: p.nids[1], SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre, Handle: lnet.NoHandle,
	}
	m := lnd.Tx{To: lnet.ProcessID{NID: p.nids[1], PID: lnet.PIDLustre}}
	if typ == lnet.MsgGet {
		h.Length = uint32(v.Length)
		m.Sink = v
	} else {
		h.PayloadLength = uint32(v.Length)
		m.Payload = v
	}
	m.Header = h
	return m
}

// run sends n messages, up to inFlight at a time.
func (p *pair) run(t testing.TB, typ lnet.MsgType, v memory.Vector, n, inFlight int) {
	var left atomic.Int64
	left.Store(int64(n - inFlight))
	over := make(chan error, inFlight)
	streams := make([]stream, inFlight)
	for k := range streams {
		s := &streams[k]
		s.tx, s.i, s.left, s.over = p.message(typ, v), p.i[0], &left, over
		s.tx.Done = s
		s.i.Send(&s.tx)
	}
	for range streams {
		if err := <-over; err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkStream sends messages in one direction. It reports how often each node would call C code
// per message, as counted by the fabric.
func BenchmarkStream(b *testing.B) {
	benchmarkStream(b, newPair)
}

func benchmarkStream(b *testing.B, open func(t testing.TB, credits, room int, registered bool) *pair) {
	for _, c := range []struct {
		name       string
		typ        lnet.MsgType
		size       int
		inFlight   int
		registered bool
	}{
		{"Put0x1", lnet.MsgPut, 0, 1, false},
		{"Put0x64", lnet.MsgPut, 0, 64, false},
		{"Put3Kx64", lnet.MsgPut, 3000, 64, false},
		{"Put1Mx8", lnet.MsgPut, lnet.MTU, 8, false},
		{"Put1Mx8Registered", lnet.MsgPut, lnet.MTU, 8, true},
		{"Get1Mx8Registered", lnet.MsgGet, lnet.MTU, 8, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := open(b, 128, lnet.MTU, c.registered)
			defer p.close()
			v := memory.Of(make([]byte, c.size))
			if c.registered {
				v = p.region(b, 0, c.size)
			}
			p.run(b, c.typ, v, 2*c.inFlight+100, c.inFlight)
			before := p.procs[0].Crossings()
			other := p.procs[1].Crossings()
			b.ReportAllocs()
			b.SetBytes(int64(c.size))
			b.ResetTimer()
			p.run(b, c.typ, v, max(b.N, c.inFlight), c.inFlight)
			b.StopTimer()
			n := float64(max(b.N, c.inFlight))
			b.ReportMetric(float64(p.procs[0].Crossings().Sub(before).Data())/n, "crossings/sent")
			b.ReportMetric(float64(p.procs[1].Crossings().Sub(other).Data())/n, "crossings/received")
		})
	}
}
