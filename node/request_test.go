package node_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given an MD for one operation, when a PUT of it waits for a credit, then it
// is spent already, and the MD lives until the PUT has left.
//
// lnet-core 6.1 (3), 6.3 (3)-(4), 3.4 (2)-(3)
func TestPutSpendsTheThresholdAtOnce(t *testing.T) {
	c := newCredited(t, 1, 1, "10.0.0.2@tcp")
	c.send(t, "10.0.0.2@tcp", 0, nil) // takes the credit
	var r recorder
	h := c.send(t, "10.0.0.2@tcp", 1, &r)
	if err := c.n.Put(h, process(t, "10.0.0.2@tcp"), node.PutOptions{}); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("a second PUT: %v, want ErrNotFound", err)
	}
	if got := c.pending(); got != 1 {
		t.Errorf("%d messages with the driver, want 1", got)
	}
	c.step()
	if e := r.take(); e != nil {
		t.Errorf("events before it has left: %v", e)
	}
	c.step()
	e := r.take()
	if len(e) != 1 || e[0].Type != portals.EventSend || !e[0].Unlinked || e[0].Err != nil {
		t.Errorf("events %+v, want the last SEND", e)
	}
	c.hold(false)
}

// Whether an MD's response is watched. A request that is answered, or fails,
// leaves nothing behind.
//
// lnet-core 6.1 (5), 6.2, 6.4 tracker (1), 6.4 tracker (3)
func TestTrackers(t *testing.T) {
	const answered, unanswered, nobody = 1, 9, "10.77.0.99@tcp"
	p := newPair(t)
	sink(t, p.b, portals.OpPut|portals.OpGet)
	md := func() lnet.Handle {
		return bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: portals.Unlimited})
	}
	check := func(step string, want uint64) {
		t.Helper()
		if got := p.a.Counters().Trackers; got != want {
			t.Errorf("%s: %d trackers, want %d", step, got, want)
		}
	}
	get := func(h lnet.Handle, portal uint32) {
		t.Helper()
		if err := p.a.Get(h, p.idb, node.GetOptions{Portal: portal}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, p.a, md(), p.idb, node.PutOptions{Portal: unanswered})
	check("PUT without an ACK", 0)
	put(t, p.a, md(), p.idb, node.PutOptions{Portal: answered, Ack: true})
	get(md(), answered)
	check("answered", 0)
	put(t, p.a, md(), process(t, nobody), node.PutOptions{Portal: answered, Ack: true})
	check("not sent", 0)

	waits := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: 9})
	put(t, p.a, waits, p.idb, node.PutOptions{Portal: unanswered, Ack: true})
	check("PUT with an ACK", 1)
	put(t, p.a, waits, p.idb, node.PutOptions{Portal: unanswered, Ack: true})
	check("another of the same MD", 1)
	second := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: 9})
	get(second, unanswered)
	check("GET of another MD", 2)
	for _, h := range []lnet.Handle{waits, second} { // lnet-core 2.2 unlink (4)
		if err := p.a.Unlink(h); err != nil {
			t.Fatal(err)
		}
	}
	check("unlinked", 0)
}

// Given two requests of one MD, 100 s apart, when neither is answered, then the
// MD goes with the first look after the second one's deadline.
//
// lnet-core 6.4 tracker (1), 6.4 tracker (4)
func TestSecondRequestMovesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		var r recorder
		h := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: 9, Handler: &r})
		ask := func() { put(t, p.a, h, p.idb, node.PutOptions{Portal: 9, Ack: true}) }
		ask()
		time.Sleep(100 * time.Second)
		ask()
		r.take()
		time.Sleep(150*time.Second - time.Millisecond) // looks at 75, 150, 225 s
		synctest.Wait()
		if e := r.take(); e != nil {
			t.Errorf("events before the second deadline: %v", e)
		}
		time.Sleep(53 * time.Second) // looks at 300 s, give or take a tick
		synctest.Wait()
		if d := cmp.Diff([]portals.EventType{portals.EventUnlink}, r.types()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}
