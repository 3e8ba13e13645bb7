package node_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// loID is a node itself.
var loID = lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}

// A handler sends to 0@lo again, a million times. The stack does not grow.
//
// lnet-core 3.3 (7)
func TestMillionDeepLoopback(t *testing.T) {
	depth := 1_000_000
	if testenv.Race { // it makes each message take twenty times as long
		depth = 100_000
	}
	n := newNode(t, node.Config{})
	var (
		h        lnet.Handle
		received int
		deepest  int
		pcs      [128]uintptr
		over     = make(chan struct{})
	)
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote,
		Handler: portals.HandlerFunc(func(*portals.Event) {
			received++
			if received%1000 == 1 {
				deepest = max(deepest, runtime.Callers(0, pcs[:]))
			}
			if received < depth {
				if err := n.Put(h, loID, node.PutOptions{Portal: 1, Ack: true}); err != nil {
					t.Error(err)
				}
			}
		}),
	})
	acks := 0
	h = bind(t, n, portals.MD{Bytes: make([]byte, 8), Threshold: portals.Unlimited, Handler: portals.HandlerFunc(func(e *portals.Event) {
		if e.Type == portals.EventAck {
			if acks++; acks == depth {
				close(over)
			}
		}
	})})
	put(t, n, h, loID, node.PutOptions{Portal: 1, Ack: true})
	<-over
	if received != depth || acks != depth {
		t.Errorf("%d messages and %d ACKs, want %d", received, acks, depth)
	}
	if deepest >= 64 {
		t.Errorf("%d frames on the stack", deepest)
	}
}

// A caller that sends to 0@lo returns even if other goroutines keep sending there.
func TestLoopbackLetsGo(t *testing.T) {
	n := newNode(t, node.Config{})
	var (
		h    lnet.Handle
		sent atomic.Bool
		over = make(chan struct{})
	)
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote,
		Handler: portals.HandlerFunc(func(*portals.Event) {
			if sent.Load() {
				close(over)
				return
			}
			if err := n.Put(h, loID, node.PutOptions{Portal: 1}); err != nil {
				t.Error(err)
			}
		}),
	})
	h = bind(t, n, portals.MD{Bytes: make([]byte, 8), Threshold: portals.Unlimited})
	put(t, n, h, loID, node.PutOptions{Portal: 1})
	sent.Store(true)
	<-over
}

// The same over a driver: the driver iterates, and the node adds no recursion.
func TestDeepPingPong(t *testing.T) {
	const depth = 20_000
	p := newPair(t)
	var (
		h     lnet.Handle
		acked int
	)
	sink(t, p.b, portals.OpPut)
	h = bind(t, p.a, portals.MD{Bytes: make([]byte, 8), Threshold: portals.Unlimited, Handler: portals.HandlerFunc(func(e *portals.Event) {
		if e.Type != portals.EventAck {
			return
		}
		if acked++; acked < depth {
			if err := p.a.Put(h, p.idb, node.PutOptions{Portal: 1, Ack: true}); err != nil {
				t.Error(err)
			}
		}
	})})
	put(t, p.a, h, p.idb, node.PutOptions{Portal: 1, Ack: true})
	if acked != depth {
		t.Errorf("%d ACKs, want %d", acked, depth)
	}
}

// lnet-core 7.1 loopback, 12.3
// lnet-wire 2.7 (1)-(2)
func TestLoopbackMessages(t *testing.T) {
	p := newPair(t)
	var at, from recorder
	attach(t, p.a, portals.Entry{Portal: 1}, portals.MD{
		Bytes: []byte("0123456789"), Threshold: portals.Unlimited, Options: portals.OpPut | portals.OpGet | portals.Truncate, Handler: &at})
	h := bind(t, p.a, portals.MD{Bytes: []byte("abc"), Threshold: 4, Unlink: true, Handler: &from})
	put(t, p.a, h, loID, node.PutOptions{Portal: 1, Ack: true, Source: p.ida.NID})
	if err := p.a.Get(h, loID, node.GetOptions{Portal: 1}); err != nil {
		t.Fatal(err)
	}
	events := at.take()
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	for _, e := range events {
		if e.Source != loID || e.Target != loID || e.Initiator != loID || e.Sender != loID.NID {
			t.Errorf("%s: from %s by %s to %s over %s", e.Type, e.Source, e.Initiator, e.Target, e.Sender)
		}
	}
	want := []portals.EventType{portals.EventSend, portals.EventAck, portals.EventSend, portals.EventReply}
	if d := cmp.Diff(want, from.types()); d != "" {
		t.Error(d)
	}
	nis := p.a.NIs()
	if c := nis[0].Credits; c != (node.CreditInfo{}) || len(p.a.Peers()) != 0 {
		t.Errorf("0@lo has credits %+v, and peers %+v", c, p.a.Peers())
	}
	if lo := nis[0].Traffic; lo.Sent != (node.MessageCounts{Put: 2, Get: 2}) ||
		lo.Received != (node.MessageCounts{Put: 1, Get: 1, Reply: 1, Ack: 1}) {
		t.Errorf("traffic of 0@lo: %+v", lo)
	}
	if tcp := nis[1].Traffic; tcp != (node.Traffic{}) {
		t.Errorf("traffic of tcp: %+v", tcp)
	}
}

// A PUT to 0@lo that must wait for an entry is accepted when one is attached, also by a
// handler.
func TestDelayedLoopback(t *testing.T) {
	const waiting = 50
	n := newNode(t, node.Config{})
	if err := n.SetLazy(2); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	var post func()
	depth := 0
	post = func() {
		attach(t, n, portals.Entry{Portal: 2}, portals.MD{
			Bytes: make([]byte, 8), Threshold: 1, Unlink: true, Options: portals.OpPut,
			Handler: portals.HandlerFunc(func(e *portals.Event) {
				if depth++; depth > 1 {
					t.Error("a handler ran within another")
				}
				got = append(got, e.HdrData)
				post()
				depth--
			})})
	}
	var sent recorder
	var want []uint64
	for k := range uint64(waiting) {
		h := bind(t, n, portals.MD{Bytes: make([]byte, 8), Threshold: 1, Unlink: true, Handler: &sent})
		put(t, n, h, loID, node.PutOptions{Portal: 2, HdrData: k})
		want = append(want, k)
	}
	if e := sent.take(); e != nil {
		t.Errorf("SEND events while the messages wait: %v", e)
	}
	post()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("taken (-want +got):\n%s", d)
	}
	if e := sent.take(); len(e) != waiting {
		t.Errorf("%d SEND events, want %d", len(e), waiting)
	}
}

// A message to another NID of this node goes through the driver (decisions 1).
//
// lnet-core 12.3
func TestOwnNIDGoesThroughTheDriver(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	f.addNI(t, n, "10.0.0.1@tcp")
	f.addNI(t, n, "10.0.0.2@tcp")
	seen := watch(f)
	sink(t, n, portals.OpPut)
	h := bind(t, n, portals.MD{Bytes: make([]byte, 1), Threshold: 9})
	for _, to := range []string{"10.0.0.2@tcp", "10.0.0.1@tcp"} {
		put(t, n, h, process(t, to), node.PutOptions{Portal: 1})
	}
	if len(*seen) != 2 {
		t.Errorf("%d frames, want 2", len(*seen))
	}
}
