package portals_test

import (
	"errors"
	"math"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// lnet-core 2.1 (1)
// lnet-wire 4.8 (1)
func TestAttachNeedsAPortal(t *testing.T) {
	table := newTable()
	d := portals.MD{Options: portals.OpPut, Threshold: 1}
	for portal, want := range map[uint32]error{0: nil, 63: nil, 64: portals.ErrInvalid, math.MaxUint32: portals.ErrInvalid} {
		h, _, _, err := table.Attach(portals.Entry{Portal: portal}, d)
		if !errors.Is(err, want) || (err != nil) != (h == lnet.NoHandle) {
			t.Errorf("portal %d: %v, %v", portal, h, err)
		}
	}
	if _, _, _, err := table.Attach(portals.Entry{Position: 3}, d); !errors.Is(err, portals.ErrInvalid) {
		t.Errorf("position 3: %v", err)
	}
}

// The class of an entry, and that the first entry determines the class of its portal, even
// after the portal is empty again.
func TestPortalClass(t *testing.T) {
	// lnet-core 2.1 (2)-(3)
	unique := portals.Entry{Match: here, MatchBits: 1}
	wildcards := map[string]portals.Entry{
		"ignore bits": {Match: here, MatchBits: 1, IgnoreBits: 1 << 63},
		"any NID":     {Match: lnet.ProcessID{NID: lnet.AnyNID, PID: 7}},
		"any PID":     {Match: lnet.ProcessID{NID: here.NID, PID: lnet.PIDAny}},
		"anybody":     {Match: anyProcess},
		"zero match":  {},
		"zero NID":    {Match: lnet.ProcessID{PID: here.PID}},
		"zero PID":    {Match: lnet.ProcessID{NID: here.NID}},
	}
	d := portals.MD{Options: portals.OpPut, Threshold: 1}
	for name, wildcard := range wildcards {
		for _, c := range []struct{ first, other portals.Entry }{{unique, wildcard}, {wildcard, unique}} {
			table := newTable()
			if err := table.Unlink(attach(t, table, c.first, d)); err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := table.Attach(c.other, d); !errors.Is(err, portals.ErrPortalClass) {
				t.Errorf("%s: the other class on an empty portal: %v", name, err)
			}
			attach(t, table, c.first, d)
			c.other.Portal = 9
			attach(t, table, c.other, d)
		}
	}
}

// A failed Attach leaves neither an entry nor a class behind.
func TestFailedAttachLeavesNothing(t *testing.T) {
	// lnet-core 2.2 attach (1), 2.1 lifetime
	table := newTable()
	for _, d := range []portals.MD{
		{Threshold: 1},
		{Threshold: 1, Options: portals.Truncate},
		{Threshold: 1, Options: portals.OpPut | portals.MaxSize, MaxSize: 1},
	} {
		if _, _, _, err := table.Attach(portals.Entry{Portal: 1, Match: here}, d); !errors.Is(err, portals.ErrInvalid) {
			t.Errorf("options %#x: %v", uint32(d.Options), err)
		}
	}
	match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
	// An MD that is used up from the start is attached nevertheless.
	attach(t, table, portals.Entry{Portal: 1}, portals.MD{Options: portals.OpPut})
	if _, _, _, err := table.Attach(portals.Entry{Portal: 1, Match: here}, portals.MD{Options: portals.OpPut}); !errors.Is(err, portals.ErrPortalClass) {
		t.Errorf("the other class: %v", err)
	}
}

// The rows of lnet-core 4.2: one entry on portal 1 with 10 bytes, one request.
//
// lnet-wire 4.8 (2)-(3), 12 (3)
func TestOneEntry(t *testing.T) {
	// lnet-core 4.2 (1)-(9), 4.2 quirk, 4.1, 2.2 options
	const put, get = portals.EventPut, portals.EventGet
	type entry = portals.Entry
	only := func(nid lnet.NID, pid lnet.PID) entry { return entry{Match: lnet.ProcessID{NID: nid, PID: pid}} }
	for _, c := range []struct {
		name      string
		entry     entry
		options   portals.MDOptions
		maxSize   int
		threshold int // 0 means unlimited
		usedUp    bool
		op        portals.EventType
		bits      uint64
		from      lnet.ProcessID // zero means here
		aliases   []lnet.NID
		offset    int
		length    int
		drop      bool
		want      int
		wantOff   int
	}{
		{name: "fits", length: 10, want: 10},
		{name: "nothing to carry", length: 0, want: 0},
		{name: "too long", length: 11, drop: true},
		{name: "too long, truncated", options: portals.Truncate, length: 11, want: 10},

		{name: "used up", usedUp: true, length: 1, drop: true},
		{name: "GET, PUT alone allowed", op: get, options: portals.OpPut, length: 1, drop: true},
		{name: "PUT, GET alone allowed", op: put, options: portals.OpGet, length: 1, drop: true},
		{name: "GET allowed", op: get, options: portals.OpGet, length: 3, want: 3},
		{name: "GET, truncated", op: get, options: portals.OpGet | portals.Truncate, length: 30, want: 10},
		{name: "GET, too long", op: get, options: portals.OpGet, length: 30, drop: true},

		{name: "zero NID", entry: only(lnet.NID{}, here.PID), length: 1, want: 1},
		{name: "zero NID, other PID", entry: only(lnet.NID{}, 7), length: 1, drop: true},
		{name: "zero PID", entry: only(here.NID, 0), length: 1, want: 1},
		{name: "zero PID, other NID", entry: only(there.NID, 0), length: 1, drop: true},

		{name: "other bits", bits: 1, length: 1, drop: true},
		{name: "other bits, ignored", entry: entry{IgnoreBits: 3}, bits: 1, length: 1, want: 1},
		{name: "other bits, others ignored", entry: entry{IgnoreBits: 2}, bits: 1, length: 1, drop: true},
		{name: "bits set in the entry only, ignored", entry: entry{MatchBits: 3, IgnoreBits: 3}, length: 1, want: 1},
		{name: "all ignored", entry: entry{IgnoreBits: math.MaxUint64}, bits: 12345, length: 1, want: 1},
		{name: "highest bit", entry: entry{MatchBits: lnet.PingMatchBits}, bits: lnet.PingMatchBits, length: 1, want: 1},

		{name: "other PID", entry: only(lnet.AnyNID, 1), length: 1, drop: true},
		{name: "same PID", entry: only(lnet.AnyNID, 12345), length: 1, want: 1},
		{name: "other NID", entry: only(there.NID, lnet.PIDAny), length: 1, drop: true},
		{name: "same NID", entry: only(here.NID, lnet.PIDAny), length: 1, want: 1},
		{name: "both", entry: only(here.NID, 12345), length: 1, want: 1},
		{name: "both, other PID", entry: only(here.NID, 1), length: 1, drop: true},
		{name: "another NID of the same peer", entry: only(alias.NID, 12345), aliases: []lnet.NID{alias.NID}, length: 1, want: 1},
		{name: "a NID of another peer", entry: only(there.NID, 12345), aliases: []lnet.NID{alias.NID}, length: 1, drop: true},
		{name: "same peer, other PID", entry: only(alias.NID, 1), aliases: []lnet.NID{alias.NID}, length: 1, drop: true},

		{name: "own offset", offset: 5, length: 10, want: 10},
		{name: "remote offset", options: portals.ManageRemote, offset: 5, length: 5, want: 5, wantOff: 5},
		{name: "remote offset, too long", options: portals.ManageRemote, offset: 5, length: 6, drop: true},
		{name: "remote offset, truncated", options: portals.ManageRemote | portals.Truncate, offset: 8, length: 6, want: 2, wantOff: 8},
		{name: "at the end", options: portals.ManageRemote | portals.Truncate, offset: 10, length: 6, want: 0, wantOff: 10},
		{name: "beyond the end", options: portals.ManageRemote, offset: 11, length: 1, drop: true},
		{name: "beyond the end, truncated", options: portals.ManageRemote | portals.Truncate, offset: 1 << 30, length: 6, want: 0, wantOff: 1 << 30},
		{name: "beyond the end, nothing to carry", options: portals.ManageRemote, offset: 99, length: 0, want: 0, wantOff: 99},
		{name: "beyond the end, max size", options: portals.ManageRemote | portals.MaxSize, maxSize: 4, offset: 11, length: 1, drop: true},
		{name: "last offset there is", options: portals.ManageRemote | portals.Truncate, offset: int(uint32(math.MaxInt32)), length: 6, want: 0, wantOff: math.MaxInt32},

		{name: "max size", options: portals.MaxSize, maxSize: 4, length: 4, want: 4},
		{name: "over max size", options: portals.MaxSize, maxSize: 4, length: 5, drop: true},
		{name: "over max size, truncated", options: portals.MaxSize | portals.Truncate, maxSize: 4, length: 5, want: 4},
		{name: "max size 0", options: portals.MaxSize, length: 1, drop: true},
		{name: "max size given, not said", maxSize: 4, length: 5, want: 5},
		{name: "max size beyond the end", options: portals.ManageRemote | portals.MaxSize | portals.Truncate, maxSize: 4, offset: 8, length: 4, want: 2, wantOff: 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			var r recorder
			if c.options&(portals.OpPut|portals.OpGet) == 0 {
				c.options |= portals.OpPut
			}
			if c.op == 0 {
				c.op = put
			}
			if c.from == (lnet.ProcessID{}) {
				c.from = here
			}
			d := portals.MD{
				Bytes: make([]byte, 10), Threshold: portals.Unlimited, Options: c.options, MaxSize: c.maxSize, Handler: &r,
			}
			if c.usedUp {
				d.Threshold = 0
			}
			c.entry.Portal = 1
			h := attach(t, table, c.entry, d)

			o := newArrival(c.op, c.bits, c.length)
			o.RemoteOffset, o.Aliases = c.offset, c.aliases
			o.Event.Initiator = c.from
			if c.drop {
				match(t, table, o, portals.Drop)
				if err := table.Unlink(h); err != nil || types(r.take()) != "UNLINK!" {
					t.Errorf("nothing was under way: %v", err)
				}
				return
			}
			match(t, table, o, portals.Accept)
			e := &o.Event
			if e.Length != c.want || e.Offset != c.wantOff {
				t.Errorf("%d bytes at %d, want %d at %d", e.Length, e.Offset, c.want, c.wantOff)
			}
			if m := o.Memory(); m.Length != c.want || m.Length > 0 && m.Offset != c.wantOff {
				t.Errorf("memory %d at %d, want %d at %d", m.Length, m.Offset, c.want, c.wantOff)
			}
			table.Finish(o, nil)
			if got := r.take(); len(got) != 1 || got[0].Type != c.op || got[0].Unlinked {
				t.Errorf("events %s", types(got))
			}
		})
	}
}

// An MD with its own offset fills up. An entry that drops a request ends the search.
func TestFirstMatchIsFinal(t *testing.T) {
	// lnet-core 4.2 (8)-(10), 4.3 (4), 2.2 exhausted, 2.1 lifetime
	table := newTable()
	var first, second recorder
	h := attach(t, table, portals.Entry{Portal: 1, Position: portals.After}, portals.MD{
		Bytes: make([]byte, 10), Threshold: portals.Unlimited, Unlink: true,
		Options: portals.OpPut | portals.MaxSize, MaxSize: 4, Handler: &first,
	})
	attach(t, table, portals.Entry{Portal: 1, Position: portals.After}, portals.MD{
		Bytes: make([]byte, 10), Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &second,
	})
	take := func(n int, want portals.Verdict) *portals.Operation {
		t.Helper()
		o := newArrival(portals.EventPut, 0, n)
		match(t, table, o, want)
		return o
	}
	table.Finish(take(4, portals.Accept), nil) // at 0
	take(5, portals.Drop)                      // above max_size, though the second entry has room
	last := take(3, portals.Accept)            // at 4; 3 are left, so it is used up
	if err := table.Unlink(h); !errors.Is(err, portals.ErrNotFound) {
		t.Errorf("a used up MD can be found: %v", err)
	}
	table.Finish(take(5, portals.Accept), nil) // matches the second entry
	table.Finish(last, nil)
	if got := first.take(); types(got) != "PUT PUT!" || got[1].Offset != 4 {
		t.Errorf("first entry: %s at %d", types(got), got[1].Offset)
	}
	if got := second.take(); types(got) != "PUT" || got[0].Offset != 0 {
		t.Errorf("second entry: %s", types(got))
	}
}

// Remote offsets move the running offset, so that max_size applies to them.
//
// lnet-wire 12 (3)
func TestRemoteOffsetsMoveTheRunningOffset(t *testing.T) {
	// lnet-core 4.2 (9), 4.2 quirk, 2.2 exhausted
	for _, c := range []struct {
		name            string
		maxSize, offset int
		usedUp          bool
	}{
		{"room left", 4, 4, false},
		{"no room left", 4, 5, true},
		{"beyond the end", 4, 1 << 30, true},
		{"beyond the end, max size 0", 0, 11, true},
		{"at the end, max size 0", 0, 8, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			attach(t, table, portals.Entry{Portal: 1}, portals.MD{
				Bytes: make([]byte, 10), Threshold: portals.Unlimited, MaxSize: c.maxSize,
				Options: portals.OpPut | portals.ManageRemote | portals.MaxSize | portals.Truncate,
			})
			o := newArrival(portals.EventPut, 0, 2)
			o.RemoteOffset = c.offset
			match(t, table, o, portals.Accept)
			table.Finish(o, nil)
			want := portals.Accept
			if c.usedUp {
				want = portals.Drop
			}
			match(t, table, newArrival(portals.EventPut, 0, 0), want)
		})
	}
}

// The order of the search. Entries are attached in a given order, and requests that all of
// them match show which one is first.
func TestOrderOfEntries(t *testing.T) {
	// lnet-core 2.1 (4), 4.3 (4)
	const before, after, local = portals.Before, portals.After, portals.Local
	type entry = portals.Entry
	for _, c := range []struct {
		name    string
		entries []entry
		want    []int // order in which the entries match
	}{
		{"at the tail", []entry{{Position: after}, {Position: after}, {Position: local}}, []int{0, 1, 2}},
		{"at the head", []entry{{}, {}, {}}, []int{2, 1, 0}},
		{"mixed", []entry{{Position: after}, {Position: before}, {Position: after}, {Position: before}}, []int{3, 1, 0, 2}},
		{"ignore bits beat an exact match", []entry{{Position: before}, {Position: after, IgnoreBits: 4}}, []int{1, 0}},
		{
			"shapes stand in one order", []entry{
				{Position: after, IgnoreBits: 1},
				{Position: after, IgnoreBits: 2},
				{Position: before, IgnoreBits: 4},
				{Position: after, IgnoreBits: 1},
				{Position: after, Match: here, IgnoreBits: 1},
				{Position: before, Match: alias, IgnoreBits: 9},
			}, []int{5, 2, 0, 1, 3, 4},
		},
		{
			"exact shapes stand in one order", []entry{
				{Position: after, Match: lnet.ProcessID{NID: here.NID, PID: lnet.PIDAny}},
				{Position: after},
				{Position: before, Match: lnet.ProcessID{NID: lnet.AnyNID, PID: here.PID}},
				{Position: after, Match: lnet.ProcessID{NID: alias.NID, PID: lnet.PIDAny}},
			}, []int{2, 0, 1, 3},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			for i, e := range c.entries {
				e.Portal = 1
				options := portals.OpPut
				if i%2 == 1 {
					options |= portals.OpGet // another shape, but the same order
				}
				attach(t, table, e, portals.MD{Threshold: 1, Options: options, UserPtr: i})
			}
			for step, want := range c.want {
				o := newArrival(portals.EventPut, 0, 0)
				o.Aliases = []lnet.NID{alias.NID}
				match(t, table, o, portals.Accept)
				if o.Event.UserPtr != want {
					t.Errorf("step %d: entry %v, want %d", step, o.Event.UserPtr, want)
				}
				table.Finish(o, nil)
			}
			match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
		})
	}
}

// Requests that match no entry are dropped or delayed.
func TestNothingMatched(t *testing.T) {
	// lnet-core 4.3 (1)-(3), 4.3 (5), 4.6 (1), 5.3 (1), 5.4 (1)
	closed := newTable()
	attach(t, closed, portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut})
	if err := closed.SetLazy(1); err != nil {
		t.Fatal(err)
	}
	closed.Close()
	match(t, closed, newArrival(portals.EventPut, 0, 0), portals.Drop)

	for _, used := range []bool{false, true} { // a portal without a class and one with a class
		table := newTable()
		if used {
			if err := table.Unlink(attach(t, table, portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut})); err != nil {
				t.Fatal(err)
			}
		}
		match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
		match(t, table, newArrival(portals.EventGet, 0, 0), portals.Drop)
		if err := table.SetLazy(1); err != nil {
			t.Fatal(err)
		}
		match(t, table, newArrival(portals.EventPut, 0, 0), portals.Delay)
		match(t, table, newArrival(portals.EventGet, 0, 0), portals.Drop)
		match(t, table, newArrival(portals.EventAck, 0, 0), portals.Drop)
		o := newArrival(portals.EventPut, 0, 0)
		o.Event.Portal = 64
		match(t, table, o, portals.Drop)
		match(t, table, newArrival(portals.EventPut, 0, -1), portals.Drop)
	}
}

// An ACK is due for a PUT that asks for one, unless the MD has AckDisable.
func TestAckIsRequested(t *testing.T) {
	// lnet-core 5.3 (2), 2.2 options
	asked := lnet.Handle{Interface: 5, Object: 9}
	for _, c := range []struct {
		op      portals.EventType
		handle  lnet.Handle
		options portals.MDOptions
		want    bool
	}{
		{portals.EventPut, asked, 0, true},
		{portals.EventPut, lnet.NoHandle, 0, false},
		{portals.EventPut, asked, portals.AckDisable, false},
		{portals.EventGet, asked, 0, false},
	} {
		table := newTable()
		attach(t, table, portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut | portals.OpGet | c.options})
		o := newArrival(c.op, 0, 0)
		o.Handle, o.Ack = c.handle, !c.want
		match(t, table, o, portals.Accept)
		if o.Ack != c.want {
			t.Errorf("%+v: ACK due: %v", c, o.Ack)
		}
		table.Finish(o, nil)
	}
}
