package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// The effect of each class of failure, and whether the message is resent, with one NI and
// NID and with two of each.
//
// discovery 9.2, 9.4, 9.6
// lnet-core 6.3 errors (2), 10.1
// sanity-lnet 7 (204), 7 (205), 7 (207)
// socklnd 15.3
func TestFailureClasses(t *testing.T) {
	counter := func(c node.Counters, s lnd.Status) uint64 {
		return [...]uint64{
			0, c.LocalInterrupts, c.LocalDropped, c.LocalAborted, c.LocalNoRoute, c.LocalErrors, c.LocalTimeouts,
			c.RemoteErrors, c.RemoteDropped, c.RemoteTimeouts, c.NetworkTimeouts,
		}[s]
	}
	for _, c := range []struct {
		status        lnd.Status
		local, remote bool // whose health is lowered
		again         bool // it is resent if there is another path
	}{
		{lnd.StatusLocalInterrupt, true, false, true},
		{lnd.StatusLocalDropped, true, false, true},
		{lnd.StatusLocalAborted, true, false, true},
		{lnd.StatusLocalNoRoute, true, false, true},
		{lnd.StatusLocalError, true, false, false},
		{lnd.StatusLocalTimeout, true, false, true},
		{lnd.StatusRemoteError, false, true, false},
		{lnd.StatusRemoteDropped, false, true, true},
		{lnd.StatusRemoteTimeout, false, true, false},
		{lnd.StatusNetworkTimeout, true, true, false},
	} {
		for _, several := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				count := 1
				if several {
					count = 2
				}
				r := newRails(t, static(), count, count)
				r.fails(as(c.status))
				e := r.put(t, node.PutOptions{})
				tries := 1
				if c.again && several {
					tries = 3
				}
				if left := r.took(); len(left) != tries {
					t.Errorf("%s, several %v: %d transmissions, want %d", c.status, several, len(left), tries)
				}
				if lnd.StatusOf(e.Err) != c.status {
					t.Errorf("%s, several %v: event's error %v", c.status, several, e.Err)
				}
				wantLocal, wantRemote := 0, 0
				if c.local {
					wantLocal = 100 * tries
				}
				if c.remote && several {
					wantRemote = 100 * tries
				}
				nis, peers := r.healthOf()
				if lost(nis) != wantLocal || lost(peers) != wantRemote {
					t.Errorf("%s, several %v: NIs %v, peer NIs %v; want %d and %d lost",
						c.status, several, nis, peers, wantLocal, wantRemote)
				}
				got := r.a.Admin().Counters()
				failed := uint64(0)
				if tries > 1 {
					failed = 1
				}
				if counter(got, c.status) != uint64(tries) || got.Resent != uint64(tries-1) ||
					got.FailedResends != failed || got.SuccessfulResends != 0 || got.Sent != 0 || got.Committed != 0 {
					t.Errorf("%s, several %v: counters %+v", c.status, several, got)
				}
			})
		}
	}
}

// Given two rails, when the first transmission fails, then the second one uses the other
// rail, and the program gets a SEND event without an error.
//
// lnet-core 12.2
// discovery 9.6
// selection 4.7
func TestResendTakesAnotherPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []lnd.Status{lnd.StatusLocalDropped, lnd.StatusRemoteDropped} {
			r := newRails(t, static(), 2, 2)
			tries := 0
			r.fails(func(tx *lnd.Tx) error {
				if tries++; tries == 1 {
					return as(s)(tx)
				}
				return nil
			})
			if e := r.put(t, node.PutOptions{}); e.Err != nil || e.Target.NID != r.nb[0] {
				t.Errorf("%s: event %+v", s, e)
			}
			left := r.took()
			if len(left) != 2 || s == lnd.StatusLocalDropped && left[0].from == left[1].from ||
				s == lnd.StatusRemoteDropped && left[0].to == left[1].to {
				t.Errorf("%s: transmissions %+v, want two on different paths", s, left)
			}
			c := r.a.Admin().Counters()
			if c.Resent != 1 || c.SuccessfulResends != 1 || c.FailedResends != 0 || c.Sent != 1 || c.Committed != 0 {
				t.Errorf("%s: counters %+v", s, c)
			}
			for _, p := range peerNIs(r.a) {
				if p.Credits.Available != p.Credits.Max || p.QueuedBytes != 0 {
					t.Errorf("%s: peer %+v", s, p)
				}
			}
		}
	})
}

// If a source is given, a resend uses the same source and the same target.
//
// discovery 9.6
// lnet-core 6.2 self
// selection 3 (3), 4.7
func TestResendKeepsTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		r.fails(as(lnd.StatusLocalTimeout))
		r.put(t, node.PutOptions{Source: r.na[1]})
		left := r.took()
		if len(left) != 3 {
			t.Fatalf("%d transmissions, want 3", len(left))
		}
		for _, d := range left {
			if d.from != r.na[1] || d.to != r.nb[0] {
				t.Errorf("from %s to %s, want from %s to %s", d.from, d.to, r.na[1], r.nb[0])
			}
		}
	})
}

// Each transmission has the full time limit of a message.
//
// discovery 9.6
// lnet-core 2.3
func TestResendRenewsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		r.fails(func(tx *lnd.Tx) error {
			if tx.Header.Type == lnet.MsgPut {
				return as(lnd.StatusLocalDropped)(tx)
			}
			return nil
		})
		var e recorder
		h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Unlink: true, Handler: &e})
		r.hold(true)
		put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
		puts := 0
		for k := range 3 {
			time.Sleep(140 * time.Second) // of 151 s
			for range r.pending() {       // not those that are resent meanwhile
				r.step()
			}
			for _, d := range r.took() {
				if d.typ == lnet.MsgPut {
					puts++
				}
			}
			if puts != k+1 {
				t.Fatalf("%d transmissions after %d periods", puts, k+1)
			}
		}
		if got := e.take(); len(got) != 1 || lnd.StatusOf(got[0].Err) != lnd.StatusLocalDropped {
			t.Errorf("events %+v", got)
		}
		r.hold(false)
	})
}

// After its deadline a failure has no effect, and the message is not resent. A late
// success counts like any other.
//
// discovery 9.3
// lnet-core 10.1 skipped
func TestLateCompletions(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := static()
			p.RetryCount = 0 // 51 s
			r := newRails(t, p, 2, 2)
			r.fails(as(lnd.StatusLocalDropped))
			var e recorder
			h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Unlink: true, Handler: &e})
			r.hold(true)
			put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
			time.Sleep(50 * time.Second)
			want := uint64(1)
			if late {
				time.Sleep(2 * time.Second)
				want = 0
			}
			r.step()
			synctest.Wait()
			if got := e.take(); len(got) != 1 || got[0].Err == nil {
				t.Errorf("late %v: events %+v", late, got)
			}
			nis, _ := r.healthOf()
			if got := r.a.Admin().Counters().LocalDropped; got != want || lost(nis) != 100*int(want) {
				t.Errorf("late %v: %d counted, NIs %v", late, got, nis)
			}
			r.fails(nil)
			r.hold(false)
		})
	}
}

// A message whose MD was unlinked is not resent.
//
// discovery 9.6
// lnet-core 2.2 aborted (1)
func TestUnlinkedMessageIsNotResent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		r.fails(as(lnd.StatusLocalDropped))
		var e recorder
		h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: 2, Handler: &e})
		r.hold(true)
		put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
		if err := r.a.Unlink(h); err != nil {
			t.Fatal(err)
		}
		r.hold(false)
		if left := r.took(); len(left) != 1 {
			t.Errorf("%d transmissions, want 1", len(left))
		}
		if got := e.take(); len(got) != 1 || !got[0].Unlinked || got[0].Err == nil {
			t.Errorf("events %+v", got)
		}
		if c := r.a.Admin().Counters(); c.Resent != 0 || c.Committed != 0 {
			t.Errorf("counters %+v", c)
		}
	})
}

// Closing a node ends every message, including those that failed once, and no message is
// resent.
//
// discovery 9.6
// lnet-core 12.6
func TestCloseEndsResends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 100
		r := newRails(t, static(), 2, 2)
		r.fails(as(lnd.StatusLocalDropped))
		var e recorder
		h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: portals.Unlimited, Handler: &e})
		r.hold(true)
		for range messages {
			put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
		}
		for range 10 {
			r.step() // fails; the monitor may resend it before Close
		}
		if err := r.a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.hold(false)
		events := e.take()
		if len(events) != messages {
			t.Errorf("%d events, want %d", len(events), messages)
		}
		for _, e := range events {
			if e.Err == nil {
				t.Errorf("event %+v, want an error", e)
			}
		}
		if c := r.a.Admin().Counters(); c.Committed != 0 {
			t.Errorf("counters %+v", c)
		}
	})
}

// A retry count above 255 ends too.
//
// discovery 9.6
func TestManyRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retries = 300
		p := static()
		p.RetryCount, p.TransactionTimeout = retries, 1000*time.Second
		r := newRails(t, p, 2, 2)
		tries := 0
		r.fails(func(tx *lnd.Tx) error {
			if tries++; tries > 2*retries {
				return nil // it would never end
			}
			return as(lnd.StatusLocalDropped)(tx)
		})
		if e := r.put(t, node.PutOptions{}); tries != retries+1 || e.Err == nil {
			t.Errorf("%d transmissions, event's error %v; want %d and one", tries, e.Err, retries+1)
		}
		r.fails(nil)
	})
}

// Given two rails with messages on both and more in the queues, when one is removed, then
// its messages are sent over the other one.
//
// discovery 9.6
// lnet-core 12.5
func TestRemovedRailLeavesItsMessagesToTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 40
		r := newRails(t, static(), 2, 2)
		r.hold(true)
		var e recorder
		h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: portals.Unlimited, Handler: &e})
		for range messages {
			put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
		}
		if err := r.a.RemoveNI(t.Context(), r.na[1]); err != nil {
			t.Fatal(err)
		}
		r.hold(false)
		synctest.Wait()
		events := e.take()
		for _, e := range events {
			if e.Err != nil {
				t.Errorf("%v, though another rail stands by", e.Err)
			}
		}
		if c := r.a.Admin().Counters(); len(events) != messages || c.Resent == 0 || c.Committed != 0 {
			t.Errorf("%d events, %d resent, %d under way; want %d, some, 0", len(events), c.Resent, c.Committed, messages)
		}
	})
}
