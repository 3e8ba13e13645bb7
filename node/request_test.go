package node_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given an MD for one operation, when its PUT waits for a credit, then the MD is already
// used up, and it exists until the PUT was sent.
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

// Whether the response of an MD is tracked. A request that is answered, or fails, leaves
// no tracker.
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
		if got := p.a.Admin().Counters().Trackers; got != want {
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

// Given two requests of one MD, 100 s apart, when neither is answered, then the MD ends
// at the first search after the second one's deadline.
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
		time.Sleep(150*time.Second - time.Millisecond) // searches every 37 s
		synctest.Wait()
		if e := r.take(); e != nil {
			t.Errorf("events before the second deadline: %v", e)
		}
		time.Sleep(10 * time.Second) // a search at 259 s
		synctest.Wait()
		if d := cmp.Diff([]portals.EventType{portals.EventUnlink}, r.types()); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

// Given a driver without an LND timeout, then a message may wait for the transaction
// timeout.
//
// lnet-core 2.3
func TestDeadlineWithoutAnLNDTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &credited{fabric: newFabric(), n: newNode(t, node.Config{}), order: new([]uint64)}
		nid := parseNID(t, "10.0.0.1@tcp")
		_, err := c.n.AddNI(t.Context(), &patientDriver{driver{fabric: c.fabric, typ: lnet.TypeTCP}},
			lnd.Config{Net: nid.Net(), NID: nid, Tunables: lnd.Tunables{PeerCredits: 1, Credits: 1}})
		if err != nil {
			t.Fatal(err)
		}
		c.addNI(t, newNode(t, node.Config{}), "10.0.0.2@tcp")
		c.hold(true)
		var first, late, early recorder
		c.send(t, "10.0.0.2@tcp", 0, &first)
		c.send(t, "10.0.0.2@tcp", 1, &late)
		time.Sleep(2 * time.Second)
		c.send(t, "10.0.0.2@tcp", 2, &early)
		time.Sleep(148*time.Second + time.Millisecond)
		c.hold(false)
		if e := late.take(); len(e) != 1 || !errors.Is(e[0].Err, node.ErrTimedOut) {
			t.Errorf("after more than 150 s: events %+v, want a timeout", e)
		}
		if e := early.take(); len(e) != 1 || e[0].Err != nil {
			t.Errorf("after 148 s: events %+v, want SEND", e)
		}
	})
}

// Given a request without a path, then its SEND event has the reason, it is not tried
// again, and no health or counter changes.
//
// lnet-core 6.1 (6), 6.3 errors (1)
// selection 3 errors
func TestNoPathTouchesNoHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		before := r.a.Admin().Counters()
		for _, c := range []struct {
			to, source string
			want       error
		}{
			{to: "10.0.0.1@o2ib", want: node.ErrUnreachable},
			{to: "10.0.0.1@o2ib", source: r.na[0].String(), want: node.ErrUnreachable},
			{to: r.nb[0].String(), source: r.nb[0].String(), want: node.ErrInvalid},
		} {
			o := node.PutOptions{Portal: 1}
			if c.source != "" {
				o.Source = parseNID(t, c.source)
			}
			var e recorder
			h := bind(t, r.a, portals.MD{Threshold: 1, Unlink: true, Handler: &e})
			put(t, r.a, h, process(t, c.to), o)
			synctest.Wait()
			if got := e.take(); len(got) != 1 || got[0].Type != portals.EventSend || !errors.Is(got[0].Err, c.want) {
				t.Errorf("to %s from %q: events %+v, want SEND with %v", c.to, c.source, got, c.want)
			}
		}
		if nis, peers := r.healthOf(); lost(nis) != 0 || lost(peers) != 0 {
			t.Errorf("NIs %v, peer NIs %v", nis, peers)
		}
		if got := r.a.Admin().Counters(); got != before {
			t.Errorf("counters changed (-before +after):\n%s", cmp.Diff(before, got))
		}
	})
}

// A PID of 0 means 12345, on the wire and in the event.
//
// lnet-core 6.1 (4), 6.2
func TestPIDZeroIsLustre(t *testing.T) {
	p := newPair(t)
	sink(t, p.b, portals.OpPut|portals.OpGet)
	sink(t, p.a, portals.OpPut|portals.OpGet)
	p.fabric.sent = func(h lnet.Header, _ []byte) {
		if h.DestPID != lnet.PIDLustre {
			t.Errorf("%s to PID %d", h.Type, h.DestPID)
		}
	}
	for _, nid := range []lnet.NID{p.idb.NID, lnet.LoopbackNID} {
		var r recorder
		h := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: portals.Unlimited, Handler: &r})
		put(t, p.a, h, lnet.ProcessID{NID: nid}, node.PutOptions{Portal: 1, Ack: true})
		if err := p.a.Get(h, lnet.ProcessID{NID: nid}, node.GetOptions{Portal: 1}); err != nil {
			t.Fatal(err)
		}
		events := r.take()
		if len(events) != 4 {
			t.Errorf("to %s: %d events, want SEND, ACK, SEND and REPLY", nid, len(events))
		}
		for _, e := range events {
			if e.Type == portals.EventSend && e.Target.PID != lnet.PIDLustre {
				t.Errorf("to %s: SEND to %s", nid, e.Target)
			}
		}
	}
}
