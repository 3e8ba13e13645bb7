package inproc

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// Each of the six operations calls the node with the specified arguments.
//
// transport-tests G (63)-(64), I (81)
// transport 6.4, 6.5 (1), 6.5 (4), 6.7 (1)-(2), 6.7 (4)
func TestMappingOfOps(t *testing.T) {
	const (
		own    = uint64(12) << 52
		theirs = uint64(7) << 52
		hdr    = uint64(0x00c0000000000022)
	)
	for _, c := range []struct {
		queue   transport.QueueType
		op      func(o *transport.Op)
		entry   *portals.Entry
		options portals.MDOptions
		length  int
		maxSize int
		times   int // threshold
		put     *node.PutOptions
		get     *node.GetOptions
	}{
		{
			queue: transport.MsgRecv, op: func(o *transport.Op) { o.MinReceiveSize, o.MaxMessages = 50, 3 },
			entry:   &portals.Entry{Portal: 34, MatchBits: own, Position: portals.After},
			options: portals.OpPut | portals.MaxSize, length: 150, maxSize: 50, times: 3,
		},
		{
			queue: transport.MsgSend, op: func(o *transport.Op) { o.Length = 120 },
			length: 120, times: 1,
			put: &node.PutOptions{Source: here.NID, Portal: 35, MatchBits: theirs, HdrData: hdr},
		},
		{
			queue: transport.PassiveBulkRecv, op: func(o *transport.Op) {},
			entry:   &portals.Entry{Portal: 34, MatchBits: own | 9, Position: portals.After},
			options: portals.OpPut, length: 150, times: 1,
		},
		{
			queue: transport.PassiveBulkSend, op: func(o *transport.Op) { o.Length = 120 },
			entry:   &portals.Entry{Portal: 34, MatchBits: own | 9, Position: portals.After},
			options: portals.OpGet, length: 120, times: 1,
		},
		{
			queue: transport.ActiveBulkRecv, op: func(o *transport.Op) { o.Length = 120 },
			length: 120, times: 2,
			get: &node.GetOptions{Source: here.NID, Portal: 35, MatchBits: theirs | 5},
		},
		{
			queue: transport.ActiveBulkSend, op: func(o *transport.Op) { o.Length = 120 },
			length: 120, times: 1,
			put: &node.PutOptions{Source: here.NID, Portal: 35, MatchBits: theirs | 5, HdrData: hdr},
		},
	} {
		t.Run(c.queue.String(), func(t *testing.T) {
			s := newStage(t)
			b := s.buffer(100, 50)
			o := op(c.queue, b)
			c.op(&o)
			d := s.submit(o)
			md := &d.md
			if md.Threshold != c.times || md.Options != c.options || md.MaxSize != c.maxSize || !md.Unlink ||
				md.Memory.Length != c.length || md.Memory.Offset != 0 || md.Handler != portals.Handler(b) {
				t.Errorf("descriptor %+v", md)
			}
			if list := md.Memory.AppendSegments(nil); len(list) != 2 || len(list[0].Bytes) != 100 || len(list[1].Bytes) != c.length-100 {
				t.Errorf("memory %+v", list)
			}
			if c.entry != nil {
				c.entry.Claim = s.tm.claim
			}
			if (d.entry == nil) != (c.entry == nil) || c.entry != nil && *d.entry != *c.entry {
				t.Errorf("entry %+v, want %+v", d.entry, c.entry)
			}
			if (d.put == nil) != (c.put == nil) || c.put != nil && *d.put != *c.put {
				t.Errorf("put %+v, want %+v", d.put, c.put)
			}
			if (d.get == nil) != (c.get == nil) || c.get != nil && *d.get != *c.get {
				t.Errorf("get %+v, want %+v", d.get, c.get)
			}
			if (c.put != nil || c.get != nil) && d.to != (lnet.ProcessID{NID: there.NID, PID: lnet.PIDLustre}) {
				t.Errorf("to %v", d.to)
			}
			if b.memory.Length != 150 {
				t.Error("the buffer has become shorter")
			}
		})
	}
}

// If the node refuses an op during Submit, the op has no completion and leaves no descriptor.
//
// transport 6.7 (3)
func TestRefusals(t *testing.T) {
	why := fmt.Errorf("no way: %w", node.ErrUnreachable)
	for _, c := range []struct {
		queue   transport.QueueType
		refuse  func(n *fakeNode)
		unlinks int
	}{
		{transport.MsgRecv, func(n *fakeNode) { n.attachErr = why }, 0},
		{transport.PassiveBulkRecv, func(n *fakeNode) { n.attachErr = why }, 0},
		{transport.PassiveBulkSend, func(n *fakeNode) { n.attachErr = why }, 0},
		{transport.MsgSend, func(n *fakeNode) { n.bindErr = why }, 0},
		{transport.MsgSend, func(n *fakeNode) { n.putErr = why }, 1},
		{transport.ActiveBulkSend, func(n *fakeNode) { n.putErr = why }, 1},
		{transport.ActiveBulkRecv, func(n *fakeNode) { n.getErr = why }, 1},
	} {
		t.Run(fmt.Sprint(c.queue, c.unlinks), func(t *testing.T) {
			s := newStage(t)
			s.node.onUnlink = (*descriptor).unlink
			b := s.buffer(100)
			good := op(transport.PassiveBulkRecv, s.buffer(100))
			if _, err := s.tm.Submit([]transport.Op{good}); err != nil {
				t.Fatal(err)
			}
			c.refuse(s.node)
			n, err := s.tm.Submit([]transport.Op{op(c.queue, b), op(c.queue, b)})
			if n != 0 || errnoIn(t, err) != syscall.EHOSTUNREACH || !errors.Is(err, node.ErrUnreachable) {
				t.Errorf("%d, %v", n, err)
			}
			if len(s.node.unlinked) != c.unlinks {
				t.Errorf("%d descriptors unlinked, want %d", len(s.node.unlinked), c.unlinks)
			}
			if cs := s.reap(); len(cs) != 0 {
				t.Errorf("completions %+v", cs)
			}
			*s.node = fakeNode{table: s.node.table, descriptors: s.node.descriptors}
			s.submit(op(c.queue, b)) // the buffer is free
		})
	}
}

// Invalid ops are refused with EINVAL, and ops on a busy buffer with EBUSY.
//
// r.m0.net.xprt.lnet.dev.assert-free
func TestImpossibleOps(t *testing.T) {
	s := newStage(t)
	b := s.buffer(100)
	other := &stage{t: t, node: s.node, domain: openOn(t, s.domain.core)}
	foreign := op(transport.MsgRecv, other.buffer(10))
	long, short := op(transport.MsgSend, b), op(transport.ActiveBulkRecv, b)
	long.Length, short.Length = 101, 0
	for name, o := range map[string]transport.Op{
		"foreign": foreign, "no buffer": {}, "long": long, "short": short, "queue": {Queue: transport.QueueTypes, Buffer: b, Length: 1},
	} {
		if n, err := s.tm.Submit([]transport.Op{o}); n != 0 || errnoIn(t, err) != syscall.EINVAL {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	s.submit(op(transport.MsgRecv, b))
	if n, err := s.tm.Submit([]transport.Op{op(transport.MsgRecv, b)}); n != 0 || errnoIn(t, err) != syscall.EBUSY {
		t.Errorf("twice: %d, %v", n, err)
	}
	if err := b.Deregister(); errnoIn(t, err) != syscall.EBUSY {
		t.Errorf("deregister: %v", err)
	}
	if err := s.tm.Stop(); errnoIn(t, err) != syscall.EBUSY {
		t.Errorf("stop: %v", err)
	}
	waiting := s.node.last()
	s.submit(op(transport.MsgSend, s.buffer(1))).fire(portals.Event{Type: portals.EventSend, Unlinked: true})
	waiting.unlink()
	s.reap()
	if err := s.tm.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.tm.Stop(); err != nil {
		t.Errorf("again: %v", err)
	}
	if n, err := s.tm.Submit([]transport.Op{op(transport.MsgRecv, b)}); n != 0 || errnoIn(t, err) != syscall.ESHUTDOWN {
		t.Errorf("stopped: %d, %v", n, err)
	}
	if err := b.Deregister(); err != nil {
		t.Error(err)
	}
	if err := b.Deregister(); errnoIn(t, err) != syscall.EINVAL {
		t.Errorf("deregister again: %v", err)
	}
}
