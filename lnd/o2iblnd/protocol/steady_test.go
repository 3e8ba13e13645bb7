package protocol

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// loop has two connected Conns that exchange messages. Its own code allocates nothing, so that all
// allocations are those of the Conns.
type loop struct {
	conns   [2]*Conn
	batches [2]Batch
	buffers [2][][]byte
	posted  [2][]int
	txs     [3]Tx
	header  [3]lnet.Header
	source  []Segment
	sink    Descriptor
	through int
}

func newLoop() *loop {
	l := &loop{source: cut(0, 1<<20, 4), sink: *descriptor(0, 1<<20, 1)}
	s1, s2 := sessions(V2, 8, 256)
	for i, s := range []Session{s1, s2} {
		c := NewConn(Options{})
		for n := range ReceiveBuffers(V2, 8) {
			l.buffers[i] = append(l.buffers[i], make([]byte, MaxMessage))
			l.posted[i] = append(l.posted[i], n)
		}
		c.Accept()
		c.Establish(start, s, &l.batches[i])
		l.conns[i] = c
	}
	for i, t := range []lnet.MsgType{lnet.MsgPut, lnet.MsgPut, lnet.MsgGet} {
		l.header[i] = lnet.Header{Dest: nid2, Src: nid1, Type: t}
	}
	l.header[1].PayloadLength, l.header[2].Length = 1<<20, 1<<20
	return l
}

// carry carries out the batches of both until they are empty.
func (l *loop) carry() {
	for again := true; again; {
		again = false
		for i := range l.conns {
			again = l.carryOne(i) || again
		}
	}
}

func (l *loop) carryOne(i int) bool {
	b, c, other := &l.batches[i], l.conns[i], 1-i
	if b.Empty() {
		return false
	}
	l.posted[i] = append(l.posted[i], b.Receives...)
	b.Receives = b.Receives[:0]
	for k := range b.Sends {
		s := &b.Sends[k]
		n := l.posted[other][0]
		l.posted[other] = append(l.posted[other][:0], l.posted[other][1:]...)
		size := copy(l.buffers[other][n], b.Head(s))
		l.conns[other].Received(start, n, l.buffers[other][n][:size], &l.batches[other])
	}
	sends := len(b.Sends)
	for k := range sends {
		c.Completed(start, b.Sends[k].Slot, b)
	}
	b.Sends = b.Sends[:copy(b.Sends, b.Sends[sends:])]
	for _, rx := range b.Arrivals {
		switch rx.Type {
		case PutReq:
			c.Sink(start, rx, &l.sink, b)
		case GetReq:
			c.Reply(start, rx, l.source, b)
		default:
			c.Consumed(start, rx, b)
		}
	}
	b.Arrivals = b.Arrivals[:0]
	for _, p := range b.Placed {
		c.Release(p.Rx)
	}
	b.Placed = b.Placed[:0]
	for _, d := range b.Done {
		if d.Failure != nil {
			panic(d.Failure)
		}
		l.through++
	}
	b.Done = b.Done[:0]
	if len(b.Sends) == 0 && len(b.Receives) == 0 {
		b.Reset()
	}
	return true
}

func (l *loop) immediate() {
	l.conns[0].Immediate(start, &l.txs[0], &l.header[0], &l.batches[0])
	l.carry()
}

func (l *loop) put() {
	l.conns[0].Put(start, &l.txs[1], &l.header[1], l.source, &l.batches[0])
	l.carry()
}

func (l *loop) get() {
	l.conns[0].Get(start, &l.txs[2], &l.header[2], &l.sink, &l.batches[0])
	l.carry()
}

// In steady state a Conn allocates nothing.
func TestConnAllocatesNothing(t *testing.T) {
	l := newLoop()
	for range 100 {
		l.immediate()
		l.put()
		l.get()
	}
	if n := testing.AllocsPerRun(200, func() { l.immediate(); l.put(); l.get() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if l.through != 903 {
		t.Errorf("%d messages went through", l.through)
	}
}

func benchmark(b *testing.B, message func(l *loop)) {
	l := newLoop()
	message(l)
	b.ReportAllocs()
	for b.Loop() {
		message(l)
	}
}

// Both sides of one message, including the return of its credit.
func BenchmarkConnImmediate(b *testing.B) { benchmark(b, (*loop).immediate) }
func BenchmarkConnPut(b *testing.B)       { benchmark(b, (*loop).put) }
func BenchmarkConnGet(b *testing.B)       { benchmark(b, (*loop).get) }
