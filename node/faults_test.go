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
	faults "github.com/lnetd/lnetd/node/fault"
)

func addFault(t testing.TB, n *node.Node, r faults.Rule) {
	t.Helper()
	if err := n.Admin().AddFault(r); err != nil {
		t.Fatal(err)
	}
}

// Given a NID set to fail, then requests to it are refused without an event and without
// using up the MD, and messages from it are dropped.
//
// lnet-core 5.2 (4), 6.1 (1), 3.3 (6), 11.4
func TestFailNID(t *testing.T) {
	p := newPair(t)
	var at, from recorder
	attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 1), Threshold: 3, Options: portals.OpPut | portals.ManageRemote, Handler: &at})
	h := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: 2, Handler: &from})
	if err := p.a.Admin().FailNID(p.idb.NID, 2); err != nil {
		t.Fatal(err)
	}
	if err := p.a.Put(h, p.idb, node.PutOptions{Portal: 1}); !errors.Is(err, node.ErrFailNID) {
		t.Errorf("PUT: %v, want ErrFailNID", err)
	}
	if err := p.a.Get(h, p.idb, node.GetOptions{Portal: 1}); !errors.Is(err, node.ErrFailNID) {
		t.Errorf("GET: %v, want ErrFailNID", err)
	}
	if e := from.take(); e != nil {
		t.Errorf("events of what was refused: %v", e)
	}
	put(t, p.a, h, p.idb, node.PutOptions{Portal: 1})
	if e := at.take(); len(e) != 1 {
		t.Errorf("after the second: %d messages taken, want 1", len(e))
	}

	if err := p.b.Admin().FailNID(lnet.AnyNID, faults.Forever); err != nil {
		t.Fatal(err)
	}
	put(t, p.a, h, p.idb, node.PutOptions{Portal: 1})
	if e := at.take(); e != nil {
		t.Errorf("taken though it fails: %v", e)
	}
	if c := p.b.Admin().Counters(); c.Dropped != 1 || c.DroppedBytes != 1 {
		t.Errorf("%d messages of %d bytes dropped, want 1 of 1", c.Dropped, c.DroppedBytes)
	}
	if err := p.b.Admin().FailNID(lnet.AnyNID, 0); err != nil {
		t.Fatal(err)
	}
	put(t, p.a, bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: 1}), p.idb, node.PutOptions{Portal: 1})
	if e := at.take(); len(e) != 1 {
		t.Errorf("after the end of it: %d messages taken, want 1", len(e))
	}
}

// A drop rule drops arrivals before matching. A filter for another NI, type or portal
// makes it not apply.
//
// lnet-core 5.2 (4), 4.5 (2)-(3), 11.1, 10.1
// lnetctl 15 (4)
func TestDropRulesOnArrival(t *testing.T) {
	p := newPair(t)
	mine := faults.Only(p.idb.NID)
	for _, c := range []struct {
		name string
		rule faults.Rule
		hits bool
	}{
		{"everything", faults.Rule{}, true},
		{"this NI", faults.Rule{Local: mine}, true},
		{"another NI", faults.Rule{Local: faults.Only(p.ida.NID)}, false},
		{"from here", faults.Rule{Source: faults.On(p.ida.NID.Net()), Dest: mine}, true},
		{"from elsewhere", faults.Rule{Source: mine}, false},
		{"PUTs", faults.Rule{Messages: faults.Put}, true},
		{"GETs", faults.Rule{Messages: faults.Get}, false},
		{"the portal", faults.Rule{Portals: 1 << 1}, true},
		{"another portal", faults.Rule{Portals: 1 << 2}, false},
		{"what is sent", faults.Rule{Statuses: faults.RandomStatus}, false},
	} {
		var at, from recorder
		target := attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{
			Bytes: make([]byte, 4), Threshold: 1, Options: portals.OpPut, Handler: &at})
		c.rule.Kind, c.rule.Rate = faults.Drop, 1
		addFault(t, p.b, c.rule)
		before := p.b.Admin().Counters()
		h := bind(t, p.a, portals.MD{Bytes: make([]byte, 4), Threshold: 2, Handler: &from})
		put(t, p.a, h, p.idb, node.PutOptions{Portal: 1, Ack: true})
		after := p.b.Admin().Counters()
		want, dropped := []portals.EventType{portals.EventSend, portals.EventAck}, uint64(0)
		if c.hits {
			want, dropped = want[:1], 1
		}
		if c.rule.Statuses != 0 { // b sends the ACK
			want = want[:1]
		}
		if d := cmp.Diff(want, from.types()); d != "" {
			t.Errorf("%s: sender's events (-want +got):\n%s", c.name, d)
		}
		if got := at.take(); (got == nil) != c.hits || after.Dropped-before.Dropped != dropped ||
			after.DroppedBytes-before.DroppedBytes != 4*dropped {
			t.Errorf("%s: events %v, dropped %d of %d bytes", c.name, got,
				after.Dropped-before.Dropped, after.DroppedBytes-before.DroppedBytes)
		}
		if n := p.b.Admin().RemoveFaults(faults.Drop, faults.NIDFilter{}, faults.NIDFilter{}); n != 1 {
			t.Errorf("%s: %d rules removed", c.name, n)
		}
		if c.hits { // its one operation is left
			put(t, p.a, bind(t, p.a, portals.MD{Threshold: 1}), p.idb, node.PutOptions{Portal: 1})
			if d := cmp.Diff([]portals.EventType{portals.EventPut}, at.types()); d != "" {
				t.Errorf("%s: without the rule (-want +got):\n%s", c.name, d)
			}
		}
		if err := p.b.Unlink(target); err != nil {
			t.Error(err)
		}
	}
}

// A rule with a status makes a send fail with it, in each attempt. The driver never gets
// the message.
//
// lnet-core 11.1, 10.1
// discovery 9.6
// lnetctl 15 (4)
func TestDropRulesOnSending(t *testing.T) {
	for _, c := range []struct {
		status lnd.Status
		resent uint64
	}{
		{lnd.StatusLocalDropped, 2},
		{lnd.StatusLocalError, 0},
		{lnd.StatusRemoteDropped, 2},
		{lnd.StatusRemoteTimeout, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRails(t, static(), 2, 2)
			addFault(t, r.a, faults.Rule{Kind: faults.Drop, Rate: 1, Statuses: faults.StatusOf(c.status)})
			e := r.put(t, node.PutOptions{})
			if left := r.took(); left != nil {
				t.Errorf("%s: the driver got %+v", c.status, left)
			}
			if lnd.StatusOf(e.Err) != c.status {
				t.Errorf("%s: event's error %v", c.status, e.Err)
			}
			if got := r.a.Admin().Counters(); got.Resent != c.resent || got.FailedResends != c.resent/2 || got.Committed != 0 {
				t.Errorf("%s: %d resent, %d failed resends, want %d and %d",
					c.status, got.Resent, got.FailedResends, c.resent, c.resent/2)
			}
			if s := r.a.Admin().Faults(faults.Drop); len(s) != 1 || s[0].Counts.Hits != c.resent+1 {
				t.Errorf("%s: rules %+v, want one with %d hits", c.status, s, c.resent+1)
			}
		})
	}
}

// A delay rule holds an arrival before matching, for its latency or until the rule is
// removed.
//
// lnet-core 5.2 (9), 11.2
func TestDelayRuleOnArrival(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t)
			addFault(t, p.b, faults.Rule{Kind: faults.Delay, Rate: 1, Latency: 10 * time.Second, Messages: faults.Put})
			h := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: portals.Unlimited})
			put(t, p.a, h, p.idb, node.PutOptions{Portal: 1})
			time.Sleep(10*time.Second - time.Millisecond)
			synctest.Wait()
			var r recorder // attached only now: nothing was matched before
			attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{
				Bytes: make([]byte, 1), Threshold: 1, Options: portals.OpPut, Handler: &r})
			if e := r.take(); e != nil || p.b.Admin().Counters().Committed != 1 {
				t.Errorf("events %v, %d messages under way; want none and 1", e, p.b.Admin().Counters().Committed)
			}
			if removed {
				p.b.Admin().RemoveFaults(faults.Delay, faults.NIDFilter{}, faults.NIDFilter{})
			} else {
				time.Sleep(time.Second + time.Millisecond) // the monitor looks once a second
				synctest.Wait()
			}
			if d := cmp.Diff([]portals.EventType{portals.EventPut}, r.types()); d != "" {
				t.Errorf("removed %v: events (-want +got):\n%s", removed, d)
			}
		})
	}
}

// A delay rule holds outgoing messages after they have acquired their credits. A message
// that waits for these credits beyond its deadline is dropped, and the held one is sent.
//
// lnet-core 7.2 (1), 7.2 (6), 7.2 counted, 11.2, 10.2
// lnetctl 15 (4)
func TestDelayRuleOnSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredited(t, 1, 1, "10.0.0.2@tcp")
		c.hold(false)
		p := c.n.Admin().Parameters()
		p.RetryCount = 0 // 51 s
		if err := c.n.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		addFault(t, c.n, faults.Rule{Kind: faults.Delay, Rate: 1, Latency: 55 * time.Second})
		var first, second recorder
		c.send(t, "10.0.0.2@tcp", 1, &first)
		c.send(t, "10.0.0.2@tcp", 2, &second)
		time.Sleep(55*time.Second - time.Millisecond)
		synctest.Wait()
		peer := peerNIs(c.n)[0]
		if e := first.take(); e != nil || peer.Credits.Available != -1 || c.n.NIs()[1].Credits.Available != 0 {
			t.Errorf("events %v, peer %+v, NI %+v", e, peer.Credits, c.n.NIs()[1].Credits)
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if d := cmp.Diff([]uint64{1}, *c.order); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
		if e := first.take(); len(e) != 1 || e[0].Err != nil {
			t.Errorf("the first one's events %+v", e)
		}
		if e := second.take(); len(e) != 1 || !errors.Is(e[0].Err, node.ErrTimedOut) {
			t.Errorf("the second one's events %+v", e)
		}
		peer = peerNIs(c.n)[0]
		if peer.Traffic.Dropped != (node.MessageCounts{Put: 1}) || peer.Credits.Available != 1 || peer.QueuedBytes != 0 {
			t.Errorf("peer %+v", peer)
		}
		if g := c.n.Admin().Counters(); g.Dropped != 1 || g.DroppedBytes != 28 || g.Committed != 0 {
			t.Errorf("counters %+v", g)
		}
	})
}

// If the MD of a held message is unlinked, the message is not sent when its time has
// come, and the message that waits for its credit continues.
//
// lnet-core 2.2 aborted (1), 11.2
func TestUnlinkedMessageThatIsHeld(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCredited(t, 1, 1, "10.0.0.2@tcp")
			c.hold(false)
			addFault(t, c.n, faults.Rule{Kind: faults.Delay, Rate: 1, Latency: 5 * time.Second})
			var r recorder
			h := c.send(t, "10.0.0.2@tcp", 1, &r)
			c.send(t, "10.0.0.2@tcp", 2, nil)
			if err := c.n.Unlink(h); err != nil {
				t.Fatal(err)
			}
			if removed {
				c.n.Admin().RemoveFaults(faults.Delay, faults.NIDFilter{}, faults.NIDFilter{})
			} else {
				time.Sleep(15 * time.Second)
			}
			synctest.Wait()
			if e := r.take(); len(e) != 1 || !e[0].Unlinked || !errors.Is(e[0].Err, node.ErrCanceled) {
				t.Errorf("removed %v: events %+v, want the last SEND, canceled", removed, e)
			}
			if d := cmp.Diff([]uint64{2}, *c.order); d != "" {
				t.Errorf("removed %v: sent (-want +got):\n%s", removed, d)
			}
		})
	}
}

// Messages to 0@lo reach no driver, so rules for sending do not apply to them.
//
// lnet-core 11.1, 12.3
func TestRulesLeaveLoopbackSendsAlone(t *testing.T) {
	n := newNode(t, node.Config{})
	sink(t, n, portals.OpPut)
	addFault(t, n, faults.Rule{Kind: faults.Drop, Rate: 1, Statuses: faults.RandomStatus})
	for range 10 {
		var r recorder
		put(t, n, bind(t, n, portals.MD{Threshold: 2, Unlink: true, Handler: &r}), loID, node.PutOptions{Portal: 1, Ack: true})
		events := r.take()
		for _, e := range events {
			if e.Err != nil {
				t.Errorf("%s: %v", e.Type, e.Err)
			}
		}
		if len(events) != 2 {
			t.Errorf("%d events, want SEND and ACK", len(events))
		}
	}
}
