package portals_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// overdue returns the handles from AppendOverdue.
func overdue(table *portals.Table, now int64) []lnet.Handle {
	var handles []lnet.Handle
	for _, o := range table.AppendOverdue(nil, now) {
		handles = append(handles, o.Handle)
	}
	slices.SortFunc(handles, func(a, b lnet.Handle) int { return int(a.Object) - int(b.Object) })
	return handles
}

// Which requests are tracked, by parameter and option.
func TestTrackedResponses(t *testing.T) {
	// lnet-core 6.4 (1)-(3), 6.1 (5)
	const on, off = portals.TrackResponse, portals.NoTrackResponse
	for _, c := range []struct {
		begin     portals.Begin
		parameter bool
		options   portals.MDOptions
		want      int
	}{
		{get, true, 0, 1},
		{get, false, 0, 0},
		{get, false, on, 1},
		{get, true, off, 0},
		{get, true, on | off, 0},
		{putWithAck, true, 0, 1},
		{putWithAck, false, 0, 0},
		{putWithAck, false, on, 1},
		{putWithAck, true, off, 0},
		{putAlone, true, on, 0},
	} {
		table := newTable()
		h := bind(t, table, portals.MD{Threshold: 9, Options: c.options})
		b := tracked(c.begin, 1)
		b.Track = c.parameter
		o := begin(t, table, h, b)
		if got := table.Trackers(); got != c.want {
			t.Errorf("%+v: %d trackers", c, got)
		}
		if got := len(overdue(table, 1000)); got != c.want {
			t.Errorf("%+v: %d overdue", c, got)
		}
		table.Finish(o, nil)
	}
}

func TestOverdue(t *testing.T) {
	// lnet-core 6.4 tracker (1)-(2), 2.2 unlink (4)
	table := newTable()
	var r recorder
	h := bind(t, table, portals.MD{Threshold: 9, Handler: &r})
	first := begin(t, table, h, tracked(get, 1)) // until 101
	for now, want := range map[int64]int{100: 0, 101: 1, 102: 1} {
		if got := len(overdue(table, now)); got != want {
			t.Errorf("at %d: %d overdue", now, got)
		}
	}
	second := begin(t, table, h, tracked(get, 50)) // one tracker, until 150
	if got := overdue(table, 149); len(got) != 0 || table.Trackers() != 1 {
		t.Errorf("overdue %v, %d trackers", got, table.Trackers())
	}
	list := table.AppendOverdue([]portals.Overdue{{}}, 150)
	if d := cmp.Diff([]portals.Overdue{{}, {Handle: h, NextHop: there.NID}}, list, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
		t.Errorf("overdue (-want +got):\n%s", d)
	}
	table.SetNextHop(first, alias.NID)
	if list := table.AppendOverdue(nil, 150); len(list) != 1 || list[0].NextHop != alias.NID {
		t.Errorf("after a resend: %v", list)
	}
	table.Finish(first, nil)
	table.Finish(second, nil)
	r.take()
	if err := table.UnlinkOverdue(h, 150); err != nil {
		t.Fatal(err)
	}
	if got := r.take(); types(got) != "UNLINK!" || table.Trackers() != 0 || len(overdue(table, 150)) != 0 {
		t.Errorf("events %s, %d trackers", types(got), table.Trackers())
	}
}

// A PUT without an ACK does not change the next hop of a tracked request of the same MD.
func TestSetNextHopOfTrackedRequest(t *testing.T) {
	table := newTable()
	h := bind(t, table, portals.MD{Threshold: 9})
	plain := begin(t, table, h, putAlone)
	table.SetNextHop(plain, alias.NID)
	asked := begin(t, table, h, tracked(putWithAck, 1))
	table.SetNextHop(plain, alias.NID)
	if list := table.AppendOverdue(nil, 500); len(list) != 1 || list[0].NextHop != there.NID {
		t.Errorf("overdue %v", list)
	}
	table.Finish(plain, nil)
	table.Finish(asked, nil)
	if table.Trackers() != 1 {
		t.Error("the ACK is no longer waited for")
	}
}

// How tracking ends other than by Unlink.
func TestEndOfTracking(t *testing.T) {
	// lnet-core 3.4 (5), 6.4 tracker (3)
	bad := errors.New("bad")
	for _, c := range []struct {
		name string
		md   portals.MD
		run  func(table *portals.Table, h lnet.Handle, sent, reply *portals.Operation)
		want int
	}{
		{
			"response is there, the SEND is not through", portals.MD{Threshold: 9},
			func(table *portals.Table, h lnet.Handle, _, reply *portals.Operation) {
				table.BeginReply(h, reply, 0)
				table.Finish(reply, nil)
			}, 0,
		},
		{
			"SEND is through", portals.MD{Threshold: 9},
			func(table *portals.Table, _ lnet.Handle, sent, _ *portals.Operation) { table.Finish(sent, nil) }, 1,
		},
		{
			"SEND has failed for good", portals.MD{Threshold: 9},
			func(table *portals.Table, _ lnet.Handle, sent, _ *portals.Operation) { table.Finish(sent, bad) }, 1,
		},
		{
			"SEND has failed, unlimited MD", portals.MD{Threshold: portals.Unlimited},
			func(table *portals.Table, _ lnet.Handle, sent, _ *portals.Operation) { table.Finish(sent, bad) }, 0,
		},
		{
			"SEND has failed, unlinkable", portals.MD{Threshold: 1, Unlink: true},
			func(table *portals.Table, _ lnet.Handle, sent, _ *portals.Operation) { table.Finish(sent, bad) }, 0,
		},
		{
			"unlimited MD with nothing under way", portals.MD{Threshold: portals.Unlimited},
			func(table *portals.Table, _ lnet.Handle, sent, _ *portals.Operation) { table.Finish(sent, nil) }, 0,
		},
		{
			"one of two responses", portals.MD{Threshold: 9},
			func(table *portals.Table, h lnet.Handle, _, reply *portals.Operation) {
				begin(t, table, h, tracked(get, 1))
				table.BeginReply(h, reply, 0)
				table.Finish(reply, nil)
			}, 1,
		},
		{
			"both of two responses", portals.MD{Threshold: 9},
			func(table *portals.Table, h lnet.Handle, _, reply *portals.Operation) {
				begin(t, table, h, tracked(get, 1))
				for range 2 { // or a duplicate of the first, which looks the same
					table.BeginReply(h, reply, 0)
					table.Finish(reply, nil)
				}
			}, 1,
		},
		{
			"one response after the other", portals.MD{Threshold: 9},
			func(table *portals.Table, h lnet.Handle, _, reply *portals.Operation) {
				table.BeginReply(h, reply, 0)
				table.Finish(reply, nil)
				begin(t, table, h, tracked(get, 1))
				table.BeginReply(h, reply, 0)
				table.Finish(reply, nil)
			}, 0,
		},
		{
			"unlinkable", portals.MD{Threshold: 1, Unlink: true},
			func(table *portals.Table, _ lnet.Handle, sent, _ *portals.Operation) { table.Finish(sent, nil) }, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			h := bind(t, table, c.md)
			sent := begin(t, table, h, tracked(get, 1))
			c.run(table, h, sent, new(portals.Operation))
			if got := table.Trackers(); got != c.want {
				t.Errorf("%d trackers, want %d", got, c.want)
			}
		})
	}
}

// Issued is the time at which a tracked request was made.
func TestIssued(t *testing.T) {
	table := newTable()
	h := bind(t, table, portals.MD{Threshold: 9})
	begin(t, table, h, tracked(get, 5))
	begin(t, table, h, tracked(putWithAck, 7))
	var ack, reply, late portals.Operation
	if !table.BeginReply(h, &reply, 0) || reply.Issued != 7 {
		t.Errorf("REPLY: issued %d", reply.Issued)
	}
	if !table.BeginAck(h, &ack) || ack.Issued != 7 {
		t.Errorf("ACK: issued %d", ack.Issued)
	}
	table.Finish(&reply, nil)
	table.Finish(&ack, nil)
	if !table.BeginAck(h, &late) || late.Issued != 7 {
		t.Errorf("second ACK while both are watched: issued %d", late.Issued)
	}
	table.Finish(&late, nil)

	once := bind(t, table, portals.MD{Threshold: 9})
	begin(t, table, once, tracked(putWithAck, 5))
	for _, want := range []int64{5, 0} {
		if !table.BeginAck(once, &ack) || ack.Issued != want {
			t.Errorf("ACK of one request: issued %d, want %d", ack.Issued, want)
		}
		table.Finish(&ack, nil)
	}
}

// A request that could not be sent stays tracked: its MD gets an UNLINK event in the end.
func TestFailedSendExpires(t *testing.T) {
	// lnet-core 6.4 tracker (3), 6.4 tracker (5)
	table := newTable()
	var r recorder
	h := bind(t, table, portals.MD{Threshold: 2, Unlink: true, Handler: &r})
	table.Finish(begin(t, table, h, tracked(get, 1)), errors.New("no path"))
	for _, o := range table.AppendOverdue(nil, 101) {
		if err := table.UnlinkOverdue(o.Handle, 101); err != nil {
			t.Error(err)
		}
	}
	if got := types(r.take()); got != "SEND (no path) UNLINK!" {
		t.Errorf("events %s", got)
	}
}

// UnlinkOverdue takes changes since AppendOverdue into account.
func TestUnlinkOverdueRechecks(t *testing.T) {
	// lnet-core 6.4 tracker (1), 6.4 tracker (5)
	for _, c := range []struct {
		name string
		then func(table *portals.Table, h lnet.Handle)
		want error
	}{
		{"nothing happens", func(*portals.Table, lnet.Handle) {}, nil},
		{"the response comes", func(table *portals.Table, h lnet.Handle) {
			var o portals.Operation
			table.BeginReply(h, &o, 0)
			table.Finish(&o, nil)
		}, portals.ErrNotFound},
		{"another request is made", func(table *portals.Table, h lnet.Handle) {
			table.Finish(begin(t, table, h, tracked(get, 2)), nil)
		}, portals.ErrNotFound},
		{"it is unlinked", func(table *portals.Table, h lnet.Handle) {
			if err := table.Unlink(h); err != nil {
				t.Error(err)
			}
		}, portals.ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			h := bind(t, table, portals.MD{Threshold: 9})
			table.Finish(begin(t, table, h, tracked(get, 1)), nil)
			if got := overdue(table, 101); len(got) != 1 {
				t.Fatalf("overdue %v", got)
			}
			c.then(table, h)
			if err := table.UnlinkOverdue(h, 101); !errors.Is(err, c.want) {
				t.Errorf("unlink: %v, want %v", err, c.want)
			}
		})
	}
	table := newTable()
	attached := attach(t, table, portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut})
	for _, h := range []lnet.Handle{attached, lnet.NoHandle} {
		if err := table.UnlinkOverdue(h, 1<<62); !errors.Is(err, portals.ErrNotFound) {
			t.Errorf("%v: %v", h, err)
		}
	}
	match(t, table, newArrival(portals.EventPut, 0, 0), portals.Accept) // no lock is still held
}

// Tracked MDs are found among many others, in any shard.
func TestOverdueAmongMany(t *testing.T) {
	table := newTable()
	var want []lnet.Handle
	for i := range 50_000 {
		h := bind(t, table, portals.MD{Threshold: 9})
		if i%97 == 0 {
			begin(t, table, h, tracked(get, int64(i%2*1000+1)))
			if i%2 == 0 {
				want = append(want, h)
			}
		}
	}
	if d := cmp.Diff(want, overdue(table, 500)); d != "" {
		t.Errorf("overdue (-want +got):\n%s", d)
	}
}
