package inproc

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// When the node closes, all waiting ops end with ECANCELED, and then each TM reports that nothing will
// follow. Later ops are refused, and everything can be released.
//
// transport 3.5 ours (3)
func TestNodeCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := simulated(t, simConfig, nil, "10.4.0.1", "10.4.0.2")
		d := openOn(t, New(nodes[0]))
		here, idle := start(t, d, at(nidOf(nodes[0]), 34, 12)), start(t, d, at(nidOf(nodes[0]), 34, 13))
		memory, err := d.Alloc(t.Context(), 8192)
		if err != nil {
			t.Fatal(err)
		}
		queues := []transport.QueueType{transport.MsgRecv, transport.PassiveBulkRecv, transport.PassiveBulkSend, transport.ActiveBulkRecv}
		var buffers []*buffer
		for i, q := range queues {
			b := register(t, d, memory[100*i:100*(i+1)])
			buffers = append(buffers, b)
			o := op(q, b)
			o.Peer = at(nidOf(nodes[1]), 34, 12) // no TM was started there
			submit(t, here, o)
		}
		synctest.Wait()
		if here.Pending() {
			t.Fatalf("%+v", next(t, here))
		}
		if err := nodes[0].Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		for range queues {
			if c := next(t, here); !c.Final || !errors.Is(c.Err, syscall.ECANCELED) || c.Token == nil {
				t.Errorf("%+v", c)
			}
		}
		for _, of := range []*queuedTM{here, idle} {
			c := next(t, of)
			if !c.Down || c.Token != nil || !errors.Is(c.Err, syscall.EPIPE) || !errors.Is(c.Err, node.ErrClosed) || of.Pending() {
				t.Errorf("%+v", c)
			}
		}
		if _, err := here.Submit([]transport.Op{op(transport.MsgRecv, buffers[0])}); !errors.Is(err, syscall.ESHUTDOWN) {
			t.Errorf("submit: %v", err)
		}
		cannotStart(t, d, at(lnet.LoopbackNID, 34, 14), syscall.ESHUTDOWN)
		if _, err := d.Register(t.Context(), [][]byte{make([]byte, 1)}, nil); !errors.Is(err, syscall.ESHUTDOWN) {
			t.Errorf("register: %v", err)
		}
		if _, err := d.Alloc(t.Context(), 1); !errors.Is(err, syscall.ESHUTDOWN) {
			t.Errorf("alloc: %v", err)
		}
		if err := d.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("close a domain in use: %v", err)
		}
		for _, b := range buffers {
			if err := b.Deregister(); err != nil {
				t.Error(err)
			}
		}
		if err := d.Free(memory); err != nil {
			t.Error(err)
		}
		stop(t, here)
		stop(t, idle)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		cannotStart(t, openOn(t, New(nodes[0])), at(lnet.LoopbackNID, 34, 14), syscall.ESHUTDOWN)
	})
}

// An op that the driver is processing when the node closes ends when the driver releases its memory, and
// before the TM reports the end.
//
// transport 3.5 ours (3)
func TestNodeClosesWhileAnOpIsUnderWay(t *testing.T) {
	s := newStage(t)
	moving, waiting := s.buffer(8), s.buffer(8)
	first := s.submit(op(transport.PassiveBulkRecv, moving))
	s.submit(op(transport.MsgRecv, waiting))
	s.node.onUnlink = func(d *descriptor) {
		if d != first {
			d.unlink()
		}
	}
	s.node.atClose[0]()
	if c := s.one(); c.Token != waiting.token || !errors.Is(c.Err, syscall.ECANCELED) {
		t.Errorf("%+v", c)
	}
	first.fire(with(message(0, 5, true), func(e *portals.Event) { e.Err = portals.ErrTimedOut }))
	cs := s.reap()
	if len(cs) != 2 || cs[0].Token != moving.token || !errors.Is(cs[0].Err, syscall.ECANCELED) || !cs[1].Down {
		t.Errorf("%+v", cs)
	}
}

// An op submitted while the node closes is either refused, or ends.
//
// transport 3.5 ours (3)
func TestNodeClosesWhileOpsBegin(t *testing.T) {
	for name, prepare := range map[string]func(n *fakeNode){
		"unlinked in time": func(n *fakeNode) { n.onUnlink = (*descriptor).unlink },
		"gone":             func(n *fakeNode) { n.unlinkErr = node.ErrClosed },
		"a message is coming": func(n *fakeNode) {
			n.unlinkErr = node.ErrNotFound // all permitted events have happened
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			prepare(s.node)
			s.node.onAttach = s.node.atClose[0]
			b := s.buffer(8)
			d := s.submit(op(transport.MsgRecv, b))
			if errors.Is(s.node.unlinkErr, node.ErrNotFound) {
				if cs := s.reap(); len(cs) != 0 {
					t.Errorf("the driver has the memory yet: %+v", cs)
				}
				d.fire(with(message(0, 5, true), func(e *portals.Event) { e.Err = portals.ErrTimedOut }))
			}
			cs := s.reap()
			if len(cs) != 2 || cs[0].Token != b.token || !errors.Is(cs[0].Err, syscall.ECANCELED) || !cs[1].Down {
				t.Errorf("%+v", cs)
			}
		})
	}
}

// Ops begin and end on many TMs while the node closes. Each accepted op has one final completion. Each TM
// reports the end once, after all other completions.
//
// transport 3.5 ours (3)
func TestNodeClosesUnderLoad(t *testing.T) {
	for range 20 {
		n, err := node.New(node.Config{Parameters: static()})
		if err != nil {
			t.Fatal(err)
		}
		d := openOn(t, New(n))
		var wait sync.WaitGroup
		for id := uint16(1); id <= 4; id++ {
			of := start(t, d, at(lnet.LoopbackNID, 34, id))
			in, out := register(t, d, make([]byte, 8)), register(t, d, make([]byte, 8))
			wait.Go(func() { play(t, of, in, out) })
		}
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		wait.Wait()
	}
}

// play sends messages from the TM to itself until the node is closed.
func play(t *testing.T, of *queuedTM, in, out *buffer) {
	busy := map[*buffer]bool{}
	sequence, down := uint32(0), false
	for !down || len(busy) > 0 {
		for _, b := range []*buffer{in, out} {
			if busy[b] || down {
				continue
			}
			sequence++
			o := transport.Op{Queue: transport.MsgRecv, Buffer: b, Sequence: sequence, MinReceiveSize: 8, MaxMessages: 1}
			if b == out {
				o.Queue, o.Peer, o.Length = transport.MsgSend, of.Address(), 8
			}
			if n, _ := of.Submit([]transport.Op{o}); n == 1 {
				busy[b] = true
			}
		}
		var cs [4]transport.Completion
		of.Wait(time.Now().Add(time.Millisecond)) // refused ops are retried
		for _, c := range cs[:of.Reap(cs[:])] {
			if down {
				t.Errorf("after the end: %+v", c)
			}
			if c.Down {
				if down = true; len(busy) > 0 {
					t.Errorf("%d ops have not ended", len(busy))
				}
				continue
			}
			for _, b := range []*buffer{in, out} {
				if c.Token == b.token {
					if !busy[b] || !c.Final {
						t.Errorf("%+v", c)
					}
					delete(busy, b)
				}
			}
		}
	}
	if of.Pending() {
		t.Error("something comes after the end")
	}
}
