package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// outcome runs f in a goroutine and returns a channel for its error.
func outcome(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// awaits checks that c has no error yet although all goroutines are blocked.
func awaits(t testing.TB, step string, c <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		t.Fatalf("%s: returned already: %v", step, err)
	default:
	}
}

// Given RemoveNI that waits for the driver, when the node is closed, then RemoveNI
// returns, and Close returns when the driver has finished, not before.
//
// lnet-core 12.6
func TestCloseDuringRemoveNI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		s := newFabric().addStubborn(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp")})
		removed := outcome(func() error { return n.RemoveNI(context.Background(), s.nid) })
		<-s.closing
		closed := outcome(func() error { return n.Close(context.Background()) })
		if err := <-removed; !errors.Is(err, node.ErrClosed) {
			t.Errorf("RemoveNI: %v, want ErrClosed", err)
		}
		awaits(t, "Close while the driver is busy", closed)
		close(s.release)
		if err := <-closed; err != nil || !s.isClosed() {
			t.Errorf("Close: %v, interface closed: %v", err, s.isClosed())
		}
	})
}

// Given a Close that timed out, when it is called again, then it waits for the driver,
// which is not closed a second time.
//
// lnet-core 12.6
func TestCloseAgainAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		s := newFabric().addStubborn(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("first: %v, want DeadlineExceeded", err)
		}
		again := outcome(func() error { return n.Close(context.Background()) })
		awaits(t, "second", again)
		close(s.release)
		if err := <-again; err != nil || !s.isClosed() {
			t.Errorf("second: %v, interface closed: %v", err, s.isClosed())
		}
	})
}

// Given a handler that blocks the monitor, when the node is closed with a timeout, then
// Close returns in time. It succeeds once the handler has returned.
//
// lnet-core 12.6
func TestCloseIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{})
		f := newFabric()
		f.addNI(t, n, "10.0.0.1@tcp")
		f.addNI(t, newNode(t, node.Config{}), "10.0.0.2@tcp")
		entered, leave := make(chan struct{}), make(chan struct{})
		h := bind(t, n, portals.MD{Threshold: 2, Unlink: true, Handler: portals.HandlerFunc(func(e *portals.Event) {
			if e.Type == portals.EventUnlink { // the monitor finds the request overdue
				close(entered)
				<-leave
			}
		})})
		put(t, n, h, process(t, "10.0.0.2@tcp"), node.PutOptions{Portal: 3, Ack: true})
		<-entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := n.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v; want DeadlineExceeded after 1s", time.Since(began), err)
		}
		again := outcome(func() error { return n.Close(context.Background()) })
		awaits(t, "while the handler is busy", again)
		close(leave)
		if err := <-again; err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// Given messages that a delay rule holds, when their NI is removed or the node is closed,
// then they are canceled and not sent.
//
// lnet-core 11.2, 12.6
func TestHeldMessagesAreCanceledAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(*node.Node) error{
		"close":  func(n *node.Node) error { return n.Close(context.Background()) },
		"remove": func(n *node.Node) error { return n.RemoveNI(context.Background(), n.NID()) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			seen := watch(p.fabric)
			addFault(t, p.a, faults.Rule{Kind: faults.Delay, Rate: 1, Latency: 10 * time.Hour})
			var r recorder
			for k := range 2 {
				h := bind(t, p.a, portals.MD{Threshold: 1, Unlink: true, Handler: &r})
				put(t, p.a, h, p.idb, node.PutOptions{Portal: 1})
				if k == 1 {
					if err := p.a.Unlink(h); err != nil {
						t.Fatal(err)
					}
				}
			}
			if e := r.take(); e != nil {
				t.Fatalf("not held: %v", e)
			}
			if err := end(p.a); err != nil {
				t.Fatal(err)
			}
			events := r.take()
			for _, e := range events {
				if e.Type != portals.EventSend || !e.Unlinked || !errors.Is(e.Err, node.ErrCanceled) {
					t.Errorf("event %+v, want the last SEND, canceled", e)
				}
			}
			if len(events) != 2 || len(*seen) != 0 || p.a.Admin().Counters().Committed != 0 {
				t.Errorf("%d events, %d sent, %d under way; want 2, 0, 0", len(events), len(*seen), p.a.Admin().Counters().Committed)
			}
		})
	}
}

// Given an NI that is being removed, when a message arrives before the driver has
// finished, then neither a delay rule nor a lazy portal holds it.
//
// lnet-core 4.6 (4), 11.2, 12.5
func TestNothingIsHeldWhileAnNIGoes(t *testing.T) {
	end := map[string]func(n *node.Node) error{
		"close":  func(n *node.Node) error { return n.Close(context.Background()) },
		"remove": func(n *node.Node) error { return n.RemoveNI(context.Background(), n.NID()) },
	}
	delays := map[string]func(n *node.Node) error{
		"rule": func(n *node.Node) error {
			return n.Admin().AddFault(faults.Rule{Kind: faults.Delay, Rate: 1, Latency: 10 * time.Hour})
		},
		"lazy": func(n *node.Node) error { return n.SetLazy(9) },
	}
	for name, end := range end {
		for by, delay := range delays {
			t.Run(name+"/"+by, func(t *testing.T) {
				n := newNode(t, node.Config{})
				s := newFabric().addStubborn(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp")})
				if err := delay(n); err != nil {
					t.Fatal(err)
				}
				fr := &frame{fabric: s.fabric, to: s.port, inCall: true}
				from := parseNID(t, "10.0.0.2@tcp")
				fr.rx = lnd.Rx{Driver: fr, From: lnet.ProcessID{NID: from, PID: lnet.PIDLustre}, Header: lnet.Header{
					Type: lnet.MsgPut, Src: from, Dest: s.nid, Portal: 9, Handle: lnet.NoHandle}}
				s.during = func() {
					if err := s.upper.Arrived(&fr.rx); err != nil {
						t.Error(err)
					}
				}
				close(s.release)
				if err := end(n); err != nil {
					t.Fatal(err)
				}
				if !fr.placed || fr.placement.Done != nil || n.Admin().Counters().Committed != 0 {
					t.Errorf("placed %v, %+v, %d under way; want it dropped", fr.placed, fr.placement, n.Admin().Counters().Committed)
				}
			})
		}
	}
}

// Given an NI that has sent messages, when it is removed, then the node's totals include
// them before, during and after the removal.
//
// lnet-core 10.1
func TestCountersDoNotDipWhenAnNIGoes(t *testing.T) {
	n := newNode(t, node.Config{})
	f := newFabric()
	s := f.addStubborn(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp")})
	f.addNI(t, newNode(t, node.Config{}), "10.0.0.2@tcp")
	put(t, n, bind(t, n, portals.MD{Bytes: make([]byte, 5), Threshold: 1}), process(t, "10.0.0.2@tcp"), node.PutOptions{})
	before := n.Admin().Counters()
	var during node.Counters
	s.during = func() { during = n.Admin().Counters() }
	close(s.release)
	if err := n.RemoveNI(t.Context(), s.nid); err != nil {
		t.Fatal(err)
	}
	if before.Sent != 1 || before.SentBytes != 5 || during != before || n.Admin().Counters() != before {
		t.Errorf("before %+v, during %+v, after %+v", before, during, n.Admin().Counters())
	}
}
