package mem_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// A message allocates no memory, neither on the sending nor on the receiving side.
func TestMessagesDoNotAllocate(t *testing.T) {
	p := newPair(t, mem.Config{})
	in, out := p.buffer(0, "in", 100), p.buffer(1, "out", 100)
	dst := make([]transport.Completion, 4)
	to := p.tm[0].Address()
	rounds := []struct {
		name          string
		passive, then transport.Op
	}{
		{"message", transport.Op{Queue: transport.MsgRecv, MinReceiveSize: 50, MaxMessages: 1}, transport.Op{Queue: transport.MsgSend}},
		{"put", transport.Op{Queue: transport.PassiveBulkRecv, MatchBits: 1}, transport.Op{Queue: transport.ActiveBulkSend, MatchBits: 1}},
		{"get", transport.Op{Queue: transport.PassiveBulkSend, MatchBits: 1, Length: 50}, transport.Op{Queue: transport.ActiveBulkRecv, MatchBits: 1}},
		{"cancel", transport.Op{Queue: transport.MsgRecv, MinReceiveSize: 50, MaxMessages: 1}, transport.Op{}},
	}
	for _, r := range rounds {
		r.passive.Buffer = in.core
		r.then.Buffer, r.then.Length, r.then.Peer = out.core, 50, to
		ops, then, side := []transport.Op{r.passive}, []transport.Op{r.then}, 1
		if r.name == "cancel" {
			then[0], side = transport.Op{Cancel: true, Buffer: in.core}, 0
		}
		if n := testing.AllocsPerRun(100, func() {
			_, _ = p.tm[0].Submit(ops)
			_, _ = p.tm[side].Submit(then)
			if p.tm[0].Reap(dst) != 1 || p.tm[1].Reap(dst) != side {
				t.Fatalf("%s: other completions", r.name)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", r.name, n)
		}
	}
}

// receiver is a receive buffer for three messages of 64 bytes, each in a separate segment.
type receiver struct {
	*memory
	sequence uint32
	queued   bool
}

// receivers are all receive buffers of a TM.
type receivers struct {
	t    *testing.T
	tm   transport.CoreTM
	list []*receiver
	dst  []transport.Completion
}

func (x *receivers) submit(op transport.Op, r *receiver) {
	op.Buffer, op.Sequence = r.core, r.sequence
	if _, err := x.tm.Submit([]transport.Op{op}); err != nil {
		x.t.Fatal(err)
	}
}

// post queues all receivers that are not queued.
func (x *receivers) post() {
	for _, r := range x.list {
		if !r.queued {
			r.sequence++
			r.queued = true
			x.submit(transport.Op{Queue: transport.MsgRecv, MinReceiveSize: 64, MaxMessages: 3}, r)
		}
	}
}

// take checks completions: they belong to ops in progress, and a message of TM n contains only n.
func (x *receivers) take() {
	for _, c := range x.dst[:x.tm.Reap(x.dst)] {
		r := x.list[c.Token.(string)[0]-'0']
		if !r.queued || c.Sequence != r.sequence {
			x.t.Fatalf("buffer %v, queued %v, op %d: completion %+v", c.Token, r.queued, r.sequence, c)
		}
		if c.Err == nil {
			for _, b := range r.segments[c.Offset/64] {
				if b != byte(c.Sender.TMID) {
					x.t.Fatalf("a message of TM %d has byte %d", c.Sender.TMID, b)
				}
			}
		}
		r.queued = !c.Final
	}
}

// Many TMs send to one, whose buffers are cancelled at random. Each op ends exactly once, with any result,
// and each received message is complete.
func TestEveryOpEndsOnce(t *testing.T) {
	p := newPair(t, mem.Config{})
	var wg sync.WaitGroup
	for k := range uint16(4) {
		tm := start(t, p.d[1], at(nidB, 34, 100+k))
		b := p.buffer(1, "out", 64)
		for i := range b.segments[0] {
			b.segments[0][i] = byte(100 + k)
		}
		wg.Go(func() { sendMany(t, tm, b, p.tm[0].Address()) })
	}
	stop := make(chan struct{})
	go func() { wg.Wait(); close(stop) }()

	x := &receivers{t: t, tm: p.tm[0], dst: make([]transport.Completion, 16)}
	for i := range 8 {
		x.list = append(x.list, &receiver{memory: p.buffer(0, fmt.Sprint(i), 64, 64, 64)})
	}
	for i := 0; ; i++ {
		x.post()
		if i%5 == 0 {
			x.submit(transport.Op{Cancel: true}, x.list[i%len(x.list)])
		}
		x.tm.Wait(time.Now().Add(time.Millisecond))
		x.take()
		select {
		case <-stop:
			for _, r := range x.list {
				x.submit(transport.Op{Cancel: true}, r)
			}
			for x.tm.Pending() {
				x.take()
			}
			if err := x.tm.Stop(); err != nil {
				t.Error(err) // an op is still queued
			}
			return
		default:
		}
	}
}

// sendMany sends a buffer many times.
func sendMany(t *testing.T, tm transport.CoreTM, b *memory, to transport.Address) {
	dst := make([]transport.Completion, 2)
	for i := range uint32(2000) {
		op := transport.Op{Queue: transport.MsgSend, Buffer: b.core, Sequence: i, Length: 64, Peer: to}
		if n, err := tm.Submit([]transport.Op{op}); n != 1 || tm.Reap(dst) != 1 || dst[0].Sequence != i {
			t.Errorf("message %d: %v", i, err)
			return
		}
	}
}

// The time from Submit to Reap on both sides, for a message and for a bulk of a megabyte.
func BenchmarkMessage(b *testing.B) {
	for _, size := range []int{16, 4096, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			n := mem.New(mem.Config{})
			nids := []lnet.NID{nidA, nidB}
			var tms [2]transport.CoreTM
			var ops [2]transport.Op
			for k := range 2 {
				d, err := n.Host(nids[k]).Open(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if tms[k], err = d.StartTM(b.Context(), at(nids[k], 34, 1), 4); err != nil {
					b.Fatal(err)
				}
				ops[k].Buffer, err = d.Register(b.Context(), [][]byte{make([]byte, size)}, k+1)
				if err != nil {
					b.Fatal(err)
				}
			}
			ops[0].Queue, ops[0].MinReceiveSize, ops[0].MaxMessages = transport.MsgRecv, size, 1
			ops[1].Queue, ops[1].Length, ops[1].Peer = transport.MsgSend, size, tms[0].Address()
			dst := make([]transport.Completion, 4)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for k := range 2 {
					if _, err := tms[k].Submit(ops[k : k+1]); err != nil {
						b.Fatal(err)
					}
				}
				if tms[0].Reap(dst) != 1 || tms[1].Reap(dst) != 1 {
					b.Fatal("other completions")
				}
			}
		})
	}
}
