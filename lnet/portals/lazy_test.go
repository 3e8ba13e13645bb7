package portals_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// delay sends PUTs that are delayed on portal 1, and returns them.
func delay(t *testing.T, table *portals.Table, bits ...uint64) []*portals.Operation {
	t.Helper()
	if err := table.SetLazy(1); err != nil {
		t.Fatal(err)
	}
	var list []*portals.Operation
	for _, b := range bits {
		o := newArrival(portals.EventPut, b, 2)
		match(t, table, o, portals.Delay)
		list = append(list, o)
	}
	return list
}

// checkOperations fails the test unless got holds the elements of all with the given indexes.
func checkOperations(t *testing.T, what string, all []*portals.Operation, got portals.Operations, want ...int) {
	t.Helper()
	var places []int
	for _, o := range operationsOf(got) {
		for i := range all {
			if all[i] == o {
				places = append(places, i)
			}
		}
	}
	if d := cmp.Diff(want, places); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestLazyPortalsExist(t *testing.T) {
	// lnet-core 4.6
	table := newTable()
	for portal, want := range map[uint32]error{0: nil, 63: nil, 64: portals.ErrInvalid} {
		if err := table.SetLazy(portal); !errors.Is(err, want) {
			t.Errorf("set %d: %v", portal, err)
		}
		if _, err := table.ClearLazy(portal); !errors.Is(err, want) {
			t.Errorf("clear %d: %v", portal, err)
		}
	}
}

// An MD gets the delayed PUTs that match, in order, until it is used up.
//
// lnet-wire 4.8 (2)
func TestDelayedAreOffered(t *testing.T) {
	// lnet-core 4.6 (1)-(2), 2.2 attach (3)
	table := newTable()
	all := delay(t, table, 1, 2, 1, 1, 1)
	all[2].Length = 9 // too long: dropped
	_, accepted, dropped, err := table.Attach(portals.Entry{Portal: 1, MatchBits: 1},
		portals.MD{Bytes: make([]byte, 8), Threshold: 2, Unlink: true, Options: portals.OpPut})
	if err != nil {
		t.Fatal(err)
	}
	checkOperations(t, "accepted", all, accepted, 0, 3)
	checkOperations(t, "dropped", all, dropped, 2)
	if all[3].Event.Offset != 2 || all[3].Memory().Length != 2 {
		t.Errorf("second PUT: %+v", all[3].Event)
	}
	table.Finish(all[3], nil)
	table.Finish(all[0], nil)
	if !all[0].Event.Unlinked {
		t.Error("the MD is not gone")
	}

	// An MD without OpPut accepts no delayed PUT, and neither does one that is used up.
	attach(t, table, portals.Entry{Portal: 1, IgnoreBits: 3}, portals.MD{Threshold: 2, Options: portals.OpGet})
	attach(t, table, portals.Entry{Portal: 1, IgnoreBits: 3}, portals.MD{Options: portals.OpPut})

	// Aliases of the initiator match too.
	all[4].Aliases = []lnet.NID{alias.NID}
	_, accepted, dropped, err = table.Attach(portals.Entry{Portal: 1, IgnoreBits: 3, Match: alias},
		portals.MD{Bytes: make([]byte, 8), Threshold: 2, Options: portals.OpPut})
	if err != nil {
		t.Fatal(err)
	}
	checkOperations(t, "accepted by alias", all, accepted, 4)
	checkOperations(t, "dropped by alias", all, dropped)
	checkOperations(t, "left", all, table.Close(), 1)
}

// PUTs that an MD did not match before it was used up stay in front of those that it was
// not offered.
func TestDelayedKeepTheirOrder(t *testing.T) {
	// lnet-core 4.6 (1)-(2)
	table := newTable()
	all := delay(t, table, 2, 1, 3)
	_, accepted, _, err := table.Attach(portals.Entry{Portal: 1, MatchBits: 1},
		portals.MD{Bytes: make([]byte, 8), Threshold: 1, Unlink: true, Options: portals.OpPut})
	if err != nil {
		t.Fatal(err)
	}
	checkOperations(t, "accepted", all, accepted, 1)
	checkOperations(t, "left", all, table.Close(), 0, 2)
}

func TestClearLazyDropsDelayed(t *testing.T) {
	// lnet-core 4.6 (3)
	table := newTable()
	all := delay(t, table, 1, 2, 3)
	dropped, err := table.ClearLazy(1)
	if err != nil {
		t.Fatal(err)
	}
	checkOperations(t, "dropped", all, dropped, 0, 1, 2)
	match(t, table, newArrival(portals.EventPut, 1, 0), portals.Drop)
	attach(t, table, portals.Entry{Portal: 1, MatchBits: 1}, portals.MD{Threshold: 1, Options: portals.OpPut})
}

func TestDropDelayed(t *testing.T) {
	// lnet-core 4.6 (4)
	table := newTable()
	all := delay(t, table, 1, 2, 1, 2)
	if err := table.SetLazy(2); err != nil {
		t.Fatal(err)
	}
	o := newArrival(portals.EventPut, 1, 0)
	o.Event.Portal = 2
	match(t, table, o, portals.Delay)
	all = append(all, o)
	checkOperations(t, "by choice", all, table.DropDelayed(func(o *portals.Operation) bool { return o.Event.MatchBits == 1 }), 0, 2, 4)
	checkOperations(t, "all", all, table.DropDelayed(nil), 1, 3)
	checkOperations(t, "nothing", all, table.DropDelayed(nil))

	// With Closing set and DropDelayed called, no operation stays behind.
	var gone atomic.Bool
	o.Closing = &gone
	match(t, table, o, portals.Delay)
	gone.Store(true)
	checkOperations(t, "gone", all, table.DropDelayed(func(o *portals.Operation) bool { return o.Closing == &gone }), 4)
	match(t, table, o, portals.Drop)
	attach(t, table, portals.Entry{Portal: 2, MatchBits: 1}, portals.MD{Threshold: 1, Options: portals.OpPut})
	match(t, table, o, portals.Accept)
}

// A lazy portal without entries delays a limited number of PUTs. Removing some makes room.
func TestDelayedAreBounded(t *testing.T) {
	// lnet-core 4.6 (1)
	const most = 16384
	table := newTable()
	all := delay(t, table, make([]uint64, most)...)
	match(t, table, newArrival(portals.EventPut, 0, 2), portals.Drop)
	if err := table.SetLazy(2); err != nil {
		t.Fatal(err)
	}
	other := newArrival(portals.EventPut, 0, 2)
	other.Event.Portal = 2
	match(t, table, other, portals.Delay) // the limit is per portal

	checkOperations(t, "dropped", all, table.DropDelayed(func(o *portals.Operation) bool { return o == all[7] }), 7)
	match(t, table, all[7], portals.Delay)
	match(t, table, newArrival(portals.EventPut, 0, 2), portals.Drop)
	_, accepted, dropped, err := table.Attach(portals.Entry{Portal: 1},
		portals.MD{Bytes: make([]byte, 6), Threshold: 3, Unlink: true, Options: portals.OpPut})
	if err != nil {
		t.Fatal(err)
	}
	checkOperations(t, "accepted", all, accepted, 0, 1, 2)
	checkOperations(t, "dropped", all, dropped)
	for range 3 {
		match(t, table, newArrival(portals.EventPut, 1, 2), portals.Delay)
	}
	match(t, table, newArrival(portals.EventPut, 1, 2), portals.Drop)
	if got := operationsOf(table.Close()); len(got) != most+1 {
		t.Errorf("%d delayed at the end", len(got))
	}
}
