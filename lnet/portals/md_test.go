package portals_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
)

// MDs that both Attach and Bind reject.
func TestInvalidMDs(t *testing.T) {
	// lnet-core 2.2 validate (1)-(2), 2.2 validate (4), 2.2 fields
	long := make([]int, lnet.MaxFragments+1)
	type md = portals.MD
	for _, c := range []struct {
		name string
		md   md
		ok   bool
	}{
		{"nothing", md{}, true},
		{"bytes", md{Bytes: make([]byte, 3)}, true},
		{"segments", md{Memory: vectorOf(3, 4)}, true},
		{"256 segments", md{Memory: vectorOf(long[1:]...)}, true},
		{"257 segments", md{Memory: vectorOf(long...)}, false},
		{"length without memory", md{Memory: memory.Vector{Length: 1}}, false},
		{"more length than memory", md{Memory: memory.Vector{Segments: vectorOf(3, 4).Segments, Length: 8}}, false},
		{"beyond the end", md{Memory: memory.Vector{Segments: vectorOf(3, 4).Segments, Offset: 5, Length: 3}}, false},
		{"to the end", md{Memory: memory.Vector{Segments: vectorOf(3, 4).Segments, Offset: 5, Length: 2}}, true},
		{"negative offset", md{Memory: memory.Vector{Segments: vectorOf(3).Segments, Offset: -1, Length: 1}}, false},
		{"negative length", md{Memory: memory.Vector{Segments: vectorOf(3).Segments, Length: -1}}, false},
		{"bytes and segments", md{Bytes: make([]byte, 3), Memory: vectorOf(3)}, false},
		{"threshold -2", md{Threshold: -2}, false},
		{"option that there is not", md{Options: 0x8}, false},
		{"max size", md{Bytes: make([]byte, 3), Options: portals.MaxSize, MaxSize: 3}, true},
		{"max size over length", md{Bytes: make([]byte, 3), Options: portals.MaxSize, MaxSize: 4}, false},
		{"negative max size", md{Bytes: make([]byte, 3), Options: portals.MaxSize, MaxSize: -1}, false},
		{"max size that does not count", md{MaxSize: -1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			want := portals.ErrInvalid
			if c.ok {
				want = nil
			}
			if h, err := table.Bind(c.md); !errors.Is(err, want) || (err != nil) != (h == lnet.NoHandle) {
				t.Errorf("bind: %v, %v", h, err)
			}
			c.md.Options |= portals.OpPut
			if h, _, _, err := table.Attach(portals.Entry{}, c.md); !errors.Is(err, want) || (err != nil) != (h == lnet.NoHandle) {
				t.Errorf("attach: %v, %v", h, err)
			}
		})
	}
}

func TestValidMDsForBind(t *testing.T) {
	// lnet-core 2.2 bind (1)-(3)
	table := newTable()
	for _, o := range []portals.MDOptions{portals.OpPut, portals.OpGet, portals.OpPut | portals.OpGet} {
		if _, err := table.Bind(portals.MD{Options: o}); !errors.Is(err, portals.ErrInvalid) {
			t.Errorf("options %#x: %v", uint32(o), err)
		}
	}
	bind(t, table, portals.MD{Bytes: make([]byte, lnet.MTU)})
	if _, err := table.Bind(portals.MD{Bytes: make([]byte, lnet.MTU+1)}); !errors.Is(err, portals.ErrInvalid) {
		t.Errorf("more than the MTU: %v", err)
	}
	attach(t, table, portals.Entry{Portal: 2}, portals.MD{Bytes: make([]byte, lnet.MTU+1), Options: portals.OpPut})
	bind(t, table, portals.MD{Bytes: make([]byte, 9), Threshold: portals.Unlimited})
	match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
}

func TestUnlink(t *testing.T) {
	// lnet-core 2.2 unlink (1), 2.2 unlink (3)-(6), 3.1
	t.Run("nothing under way", func(t *testing.T) {
		table := newTable()
		var r recorder
		h := attach(t, table, portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut, Handler: &r, UserPtr: "mine"})
		if err := table.Unlink(h); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); types(got) != "UNLINK!" || got[0].MD != h || got[0].UserPtr != "mine" || got[0].Options != portals.OpPut {
			t.Errorf("events %+v", got)
		}
		match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
		for _, h := range []lnet.Handle{h, lnet.NoHandle, {}, {Interface: cookie, Object: 4711}, {Interface: 1, Object: 1}} {
			if err := table.Unlink(h); !errors.Is(err, portals.ErrNotFound) {
				t.Errorf("%v: %v", h, err)
			}
		}
	})
	t.Run("operations under way", func(t *testing.T) {
		// lnet-core 2.2 aborted (2), 3.4 (2)-(4), 3.4 (6)
		table := newTable()
		var r recorder
		room := make([]byte, 4)
		h := attach(t, table, portals.Entry{Portal: 1}, portals.MD{Bytes: room, Threshold: 5, Options: portals.OpPut | portals.ManageRemote, Handler: &r})
		first, second := newArrival(portals.EventPut, 0, 4), newArrival(portals.EventPut, 0, 4)
		match(t, table, first, portals.Accept)
		match(t, table, second, portals.Accept)
		if table.Aborted(first) {
			t.Error("aborted before Unlink")
		}
		if err := table.Unlink(h); err != nil {
			t.Fatal(err)
		}
		if got := r.take(); len(got) != 0 || !table.Aborted(first) {
			t.Errorf("events %s, aborted %v", types(got), table.Aborted(first))
		}
		match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
		if err := table.Unlink(h); !errors.Is(err, portals.ErrNotFound) {
			t.Errorf("second unlink: %v", err)
		}
		// The memory belongs to the message until it is complete.
		if m := second.Memory(); m.Length != 4 || &m.Segments[0].Bytes[0] != &room[0] {
			t.Errorf("memory %v", m)
		}
		bad := errors.New("bad")
		table.Finish(second, bad)
		table.Finish(first, nil)
		if got := types(r.take()); got != "PUT (bad) PUT! (timed out)" {
			t.Errorf("events %s", got)
		}
	})
	t.Run("no handler", func(t *testing.T) {
		// lnet-core 2.2 fields
		table := newTable()
		h := bind(t, table, portals.MD{Threshold: 1})
		o := begin(t, table, h, putAlone)
		if err := table.Unlink(h); err != nil {
			t.Fatal(err)
		}
		table.Finish(o, nil)
		if o.Event.Err != portals.ErrTimedOut || !o.Event.Unlinked {
			t.Errorf("event %+v", o.Event)
		}
	})
}

// An MD is unlinked automatically if it is used up, has the option and is not in use. Up to
// two PUTs of two bytes each go to an MD of four bytes.
func TestAutomaticUnlink(t *testing.T) {
	// lnet-core 2.2 unlinkable, 2.2 exhausted, 3.3 (8), 3.4 (3), 3.4 (6), 4.2 (10)
	for _, c := range []struct {
		name string
		md   portals.MD
		want string
	}{
		{"threshold", portals.MD{Threshold: 2, Unlink: true}, "PUT PUT!"},
		{"threshold, retained", portals.MD{Threshold: 2}, "PUT PUT"},
		{"threshold left", portals.MD{Threshold: 3, Unlink: true}, "PUT PUT"},
		{"full, no max size", portals.MD{Threshold: portals.Unlimited, Unlink: true}, "PUT PUT"},
		{"less than max size left", portals.MD{Threshold: portals.Unlimited, Unlink: true, Options: portals.MaxSize, MaxSize: 3}, "PUT!"},
		{"less than max size left, retained", portals.MD{Threshold: portals.Unlimited, Options: portals.MaxSize, MaxSize: 3}, "PUT"},
		{"max size left", portals.MD{Threshold: portals.Unlimited, Unlink: true, Options: portals.MaxSize, MaxSize: 2}, "PUT PUT!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			var r recorder
			c.md.Bytes, c.md.Handler = make([]byte, 4), &r
			c.md.Options |= portals.OpPut
			h := attach(t, table, portals.Entry{Portal: 1}, c.md)
			var taken []*portals.Operation
			for range 2 {
				o := newArrival(portals.EventPut, 0, 2)
				if table.Match(o) == portals.Accept {
					taken = append([]*portals.Operation{o}, taken...)
				}
			}
			for _, o := range taken { // newest first
				table.Finish(o, nil)
			}
			if got := types(r.take()); got != c.want {
				t.Errorf("events %s, want %s", got, c.want)
			}
			gone := strings.HasSuffix(c.want, "!")
			if err := table.Unlink(h); (err != nil) != gone {
				t.Errorf("gone %v, unlink %v", gone, err)
			}
		})
	}
}

// Used-up entries that stay linked do not affect others.
func TestUsedUpEntriesAreRetained(t *testing.T) {
	// lnet-core 4.2 (1), 2.2 exhausted
	table := newTable()
	var handles []lnet.Handle
	for range 3 {
		handles = append(handles, attach(t, table, portals.Entry{Portal: 1, Position: portals.After},
			portals.MD{Threshold: 1, Options: portals.OpPut}))
	}
	for _, h := range handles {
		o := newArrival(portals.EventPut, 0, 0)
		match(t, table, o, portals.Accept)
		if o.Event.MD != h {
			t.Errorf("MD %v, want %v", o.Event.MD, h)
		}
		table.Finish(o, nil)
	}
	match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
	for _, h := range handles {
		if err := table.Unlink(h); err != nil {
			t.Error(err)
		}
	}
}

// Handles are numbered 1, 5, 9 and so on, and are never reused.
func TestHandles(t *testing.T) {
	// lnet-core 2.2 attach (2)
	table := newTable()
	for i := range 300 {
		want := lnet.Handle{Interface: cookie, Object: uint64(4*i + 1)}
		var h lnet.Handle
		if i%2 == 0 {
			h = bind(t, table, portals.MD{Threshold: 1})
		} else {
			h = attach(t, table, portals.Entry{}, portals.MD{Threshold: 1, Options: portals.OpGet})
		}
		if h != want {
			t.Fatalf("handle %v, want %v", h, want)
		}
		if i%3 == 0 {
			if err := table.Unlink(h); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestClosed(t *testing.T) {
	table := newTable()
	var r recorder
	h := bind(t, table, portals.MD{Threshold: 2, Handler: &r})
	o := begin(t, table, h, get)
	if err := table.SetLazy(1); err != nil {
		t.Fatal(err)
	}
	waiting := newArrival(portals.EventPut, 0, 1)
	match(t, table, waiting, portals.Delay)
	if got := operationsOf(table.Close()); len(got) != 1 || got[0] != waiting {
		t.Errorf("delayed %v", got)
	}
	if _, err := table.Bind(portals.MD{}); !errors.Is(err, portals.ErrClosed) {
		t.Errorf("bind: %v", err)
	}
	if _, _, _, err := table.Attach(portals.Entry{}, portals.MD{Options: portals.OpPut}); !errors.Is(err, portals.ErrClosed) {
		t.Errorf("attach: %v", err)
	}
	if err := table.Unlink(h); !errors.Is(err, portals.ErrNotFound) || !errors.Is(err, portals.ErrClosed) {
		t.Errorf("unlink: %v", err)
	}
	if _, err := table.Begin(h, new(portals.Operation), get); !errors.Is(err, portals.ErrNotFound) {
		t.Errorf("begin: %v", err)
	}
	// Operations under way still end.
	table.Finish(o, portals.ErrCanceled)
	if got := types(r.take()); got != "SEND (canceled)" {
		t.Errorf("events %s", got)
	}
	if got := operationsOf(table.Close()); len(got) != 0 {
		t.Errorf("closed twice: %v", got)
	}
}

// A closed table keeps no memory in use: neither its MDs nor, through an MD with an
// operation under way, the MDs next to it.
func TestClosedTableKeepsNoMemory(t *testing.T) {
	table := newTable()
	var kept []weak.Pointer[[64]byte]
	room := func() []byte {
		b := new([64]byte)
		kept = append(kept, weak.Make(b))
		return b[:]
	}
	for range 20 {
		for _, e := range []portals.Entry{{Portal: 1}, {Portal: 1, MatchBits: 4}, {Portal: 1, IgnoreBits: 1}, {Portal: 2, Match: here}} {
			attach(t, table, e, portals.MD{Bytes: room(), Threshold: portals.Unlimited, Options: portals.OpPut})
		}
		bind(t, table, portals.MD{Bytes: room(), Threshold: portals.Unlimited})
	}
	for i := range uint64(1000) { // enough keys for a table that is being resized
		attach(t, table, portals.Entry{Portal: 3, MatchBits: i}, portals.MD{Bytes: room(), Threshold: 1, Options: portals.OpPut})
	}
	var r recorder
	var going []*portals.Operation
	for _, p := range []uint32{1, 3} {
		attach(t, table, portals.Entry{Portal: p, MatchBits: 4}, portals.MD{Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &r})
		o := newArrival(portals.EventPut, 4, 0)
		o.Event.Portal = p
		match(t, table, o, portals.Accept)
		going = append(going, o)
	}
	h := bind(t, table, portals.MD{Threshold: 9, Handler: &r})
	going = append(going, begin(t, table, h, tracked(get, 1)))

	table.Close()
	if n := table.Trackers(); n != 0 {
		t.Errorf("%d trackers", n)
	}
	runtime.GC()
	left := 0
	for _, p := range kept {
		if p.Value() != nil {
			left++
		}
	}
	if left > 0 {
		t.Errorf("%d of %d MDs keep their memory", left, len(kept))
	}
	for _, o := range going {
		table.Finish(o, nil)
	}
	if got := types(r.take()); got != "PUT PUT SEND" || table.Trackers() != 0 {
		t.Errorf("events %s, %d trackers", got, table.Trackers())
	}
}
