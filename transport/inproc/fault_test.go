package inproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// lost returns a buffer of adopted memory of which only the first good bytes, or as many as fit in a page,
// exist.
func lost(t *testing.T, d *domain, length, good int) *buffer {
	t.Helper()
	page := os.Getpagesize()
	kept := (good + page - 1) / page * page
	size := kept + (length+page-1)/page*page
	b, cut := testenv.Mapped(t, size)
	if err := d.Adopt(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r := register(t, d, slices.Collect(slices.Chunk(b[kept-good:kept-good+length], 4096))...)
	t.Cleanup(func() {
		if err := errors.Join(r.Deregister(), d.Free(b)); err != nil {
			t.Error(err)
		}
	})
	cut(kept)
	return r
}

// faults are two TMs, one of which has lost memory. They may be on one node.
type faults struct {
	domains [2]*domain
	tms     [2]*queuedTM
	nodes   []*node.Node
	breaks  bool // the connections end
}

func newFaults(t *testing.T, nodes []*node.Node, nids ...lnet.NID) *faults {
	f := &faults{nodes: nodes}
	for i, nid := range nids {
		d := openOn(t, New(nodes[i%len(nodes)]))
		f.domains[i] = d
		f.tms[i] = start(t, d, at(nid, 34, uint16(7+i)))
	}
	return f
}

// sound returns a buffer whose memory exists.
func (f *faults) sound(t *testing.T, of, length int) *buffer {
	return register(t, f.domains[of], slices.Collect(slices.Chunk(bytes.Repeat([]byte{byte(of + 1)}, length), 4096))...)
}

// pair returns a waiting operation at TM 0, and the matching active one at TM 1.
func (f *faults) pair(passive transport.QueueType, waits, acts *buffer) [2]transport.Op {
	bits := transport.MakeMatchBits(f.tms[0].Address().TMID, 9)
	n := acts.memory.Length
	p := transport.Op{Queue: passive, Buffer: waits, Sequence: 1, MatchBits: bits}
	a := transport.Op{Buffer: acts, Sequence: 1, MatchBits: bits, Length: n, Peer: f.tms[0].Address()}
	switch passive {
	case transport.MsgRecv:
		p.MinReceiveSize, p.MaxMessages, p.MatchBits = n, 1, 0
		a.Queue, a.MatchBits = transport.MsgSend, 0
	case transport.PassiveBulkRecv:
		a.Queue = transport.ActiveBulkSend
	default:
		p.Length = n
		a.Queue = transport.ActiveBulkRecv
	}
	return [2]transport.Op{p, a}
}

// works checks that bulk can be moved between the two TMs.
func (f *faults) works(t *testing.T, length int) {
	t.Helper()
	waits, acts := f.sound(t, 0, length), f.sound(t, 1, length)
	ops := f.pair(transport.PassiveBulkSend, waits, acts)
	for i := range ops {
		submit(t, f.tms[i], ops[i])
	}
	for i, b := range []*buffer{waits, acts} {
		if c := f.end(t, i, b); c.Err != nil {
			t.Errorf("afterwards: %+v", c)
		}
	}
}

// end returns the final completion of a buffer's operation.
func (f *faults) end(t *testing.T, of int, b *buffer) transport.Completion {
	t.Helper()
	for {
		if c := next(t, f.tms[of]); c.Token == b.token && c.Final {
			return c
		}
	}
}

// closes returns the number of connections that a node has closed.
func closes(t *testing.T, n *node.Node) uint64 {
	t.Helper()
	for _, c := range n.NIs()[1].Driver {
		if c.Name == "closes_total" {
			return c.Value
		}
	}
	t.Fatal("connections are not counted")
	return 0
}

// The side whose memory is lost gets EFAULT, and the node keeps working, for any size of the payload. Over
// TCP the connections survive, too, unless a part of the payload was already written. Then they end, and
// are replaced.
//
// transport 9.9 (8)
func TestLostMemory(t *testing.T) {
	for _, passive := range []transport.QueueType{transport.MsgRecv, transport.PassiveBulkRecv, transport.PassiveBulkSend} {
		for _, c := range []loss{
			{length: 100, good: 50}, {length: 5000, good: 50}, {length: 200_000, good: 50}, {length: 900_000, good: 800_000},
		} {
			for c.whose = range 2 {
				t.Run(fmt.Sprintf("Local/%v/%+v", passive, c), func(t *testing.T) {
					n := newNode(t)
					newFaults(t, []*node.Node{n}, lnet.LoopbackNID, lnet.LoopbackNID).lose(t, passive, c)
				})
				t.Run(fmt.Sprintf("TCP/%v/%+v", passive, c), func(t *testing.T) {
					nodes := overTCP(t, 2)
					f := newFaults(t, nodes, nidOf(nodes[0]), nidOf(nodes[1]))
					f.breaks = c.good > 100_000 && passive == transport.PassiveBulkSend == (c.whose == 0)
					f.lose(t, passive, c)
					if closed := closes(t, nodes[0]) + closes(t, nodes[1]); closed > 0 != f.breaks {
						t.Errorf("%d connections were closed", closed)
					}
					for _, n := range nodes {
						// Connections that end also end the other operations on them.
						if h := n.NIs()[1].Health.HealthCounters; h != (node.HealthCounters{}) && !f.breaks {
							t.Errorf("an NI is blamed: %+v", h)
						}
					}
				})
			}
		}
	}
}

// The peer of a side with lost memory gets EIO, not EFAULT.
//
// transport 9.9 (8)
func TestLostMemoryOfThePeer(t *testing.T) {
	for _, passive := range []transport.QueueType{transport.MsgRecv, transport.PassiveBulkRecv, transport.PassiveBulkSend} {
		sender := 1
		if passive == transport.PassiveBulkSend {
			sender = 0
		}
		f := newFaults(t, []*node.Node{newNode(t)}, lnet.LoopbackNID, lnet.LoopbackNID)
		var buffers [2]*buffer
		buffers[sender], buffers[1-sender] = lost(t, f.domains[sender], 5000, 50), f.sound(t, 1-sender, 5000)
		ops := f.pair(passive, buffers[0], buffers[1])
		for i := range ops {
			submit(t, f.tms[i], ops[i])
		}
		for i, want := range map[int]syscall.Errno{sender: syscall.EFAULT, 1 - sender: syscall.EIO} {
			if c := f.end(t, i, buffers[i]); errnoIn(t, c.Err) != want {
				t.Errorf("%v: %+v, want %v", passive, c, want)
			}
		}
	}
}

// loss describes a buffer with lost memory: its length, the number of bytes that exist, and the index of its
// TM.
type loss struct{ length, good, whose int }

// lose carries out a pair of operations with lost memory on one side.
func (f *faults) lose(t *testing.T, passive transport.QueueType, c loss) {
	f.works(t, c.length)
	var buffers [2]*buffer
	buffers[c.whose], buffers[1-c.whose] = lost(t, f.domains[c.whose], c.length, c.good), f.sound(t, 1-c.whose, c.length)
	ops := f.pair(passive, buffers[0], buffers[1])
	for i := range ops {
		submit(t, f.tms[i], ops[i])
	}
	if c := f.end(t, c.whose, buffers[c.whose]); errnoIn(t, c.Err) != syscall.EFAULT {
		t.Errorf("%+v", c)
	}
	for _, n := range f.nodes {
		// Data sent on a connection that the peer has closed is lost.
		for f.breaks && closes(t, n) == 0 {
			runtime.Gosched()
		}
	}
	f.works(t, c.length)
	submit(t, f.tms[1-c.whose], transport.Op{Cancel: true, Buffer: buffers[1-c.whose], Sequence: 1})
}
