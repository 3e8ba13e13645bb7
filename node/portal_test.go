package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// The rows of lnet-core 4.2: one entry on portal 1 with 10 bytes, one request.
//
// lnet-core 4.2 (1)-(4), 4.2 (6)-(8), 4.2 quirk
func TestOneEntry(t *testing.T) {
	const dropped = -1
	p := newPair(t)
	for _, c := range []struct {
		name    string
		entry   portals.Entry
		md      portals.MD
		get     bool
		bits    uint64
		offset  uint32
		length  int
		want    int // accepted bytes, or dropped
		wantOff int
	}{
		{name: "fits", length: 10, want: 10},
		{name: "nothing to carry", length: 0, want: 0},
		{name: "too long", length: 11, want: dropped},
		{name: "too long, truncated", md: portals.MD{Options: portals.Truncate}, length: 11, want: 10},
		{name: "operation not allowed", length: 1, get: true, want: dropped},
		{name: "other bits", bits: 1, length: 1, want: dropped},
		{name: "other bits, ignored", entry: portals.Entry{IgnoreBits: 3}, bits: 1, length: 1, want: 1},
		{name: "other bits, others ignored", entry: portals.Entry{IgnoreBits: 2}, bits: 1, length: 1, want: dropped},
		{name: "used up", md: portals.MD{Threshold: -2}, length: 1, want: dropped},
		{name: "other process", entry: portals.Entry{Match: lnet.ProcessID{NID: lnet.AnyNID, PID: 1}}, length: 1, want: dropped},
		{name: "same process", entry: portals.Entry{Match: lnet.ProcessID{NID: lnet.AnyNID, PID: 12345}}, length: 1, want: 1},
		{name: "other node", entry: portals.Entry{Match: lnet.ProcessID{NID: p.idb.NID, PID: lnet.PIDAny}}, length: 1, want: dropped},
		{name: "same node", entry: portals.Entry{Match: lnet.ProcessID{NID: p.ida.NID, PID: lnet.PIDAny}}, length: 1, want: 1},
		{name: "own offset", offset: 5, length: 10, want: 10},
		{name: "remote offset", md: portals.MD{Options: portals.ManageRemote}, offset: 5, length: 5, want: 5, wantOff: 5},
		{name: "remote offset, too long", md: portals.MD{Options: portals.ManageRemote}, offset: 5, length: 6, want: dropped},
		{name: "remote offset, truncated", md: portals.MD{Options: portals.ManageRemote | portals.Truncate}, offset: 8, length: 6, want: 2, wantOff: 8},
		{name: "beyond the end", md: portals.MD{Options: portals.ManageRemote}, offset: 11, length: 1, want: dropped},
		{name: "beyond the end, truncated", md: portals.MD{Options: portals.ManageRemote | portals.Truncate}, offset: 1 << 31, length: 6, want: 0, wantOff: 1 << 31},
		{name: "beyond the end, nothing to carry", md: portals.MD{Options: portals.ManageRemote}, offset: 99, length: 0, want: 0, wantOff: 99},
		{name: "max size", md: portals.MD{Options: portals.MaxSize, MaxSize: 4}, length: 4, want: 4},
		{name: "over max size", md: portals.MD{Options: portals.MaxSize, MaxSize: 4}, length: 5, want: dropped},
		{name: "over max size, truncated", md: portals.MD{Options: portals.MaxSize | portals.Truncate, MaxSize: 4}, length: 5, want: 4},
		{name: "max size at a remote offset", md: portals.MD{Options: portals.MaxSize | portals.Truncate | portals.ManageRemote, MaxSize: 4},
			offset: 8, length: 5, want: 2, wantOff: 8},
		{name: "get", get: true, md: portals.MD{Options: portals.OpGet}, length: 10, want: 10},
		{name: "get too long", get: true, md: portals.MD{Options: portals.OpGet}, length: 12, want: dropped},
		{name: "get truncated at an offset", get: true, md: portals.MD{Options: portals.OpGet | portals.Truncate | portals.ManageRemote},
			offset: 7, length: 12, want: 3, wantOff: 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r recorder
			c.entry.Portal = 1
			c.md.Bytes = make([]byte, 10)
			c.md.Handler = &r
			switch c.md.Threshold {
			case 0:
				c.md.Threshold = portals.Unlimited
			case -2:
				c.md.Threshold = 0
			}
			if c.md.Options&portals.OpGet == 0 {
				c.md.Options |= portals.OpPut
			}
			target := attach(t, p.b, c.entry, c.md)
			h := bind(t, p.a, portals.MD{Bytes: make([]byte, c.length), Threshold: 2})
			if c.get {
				if err := p.a.Get(h, p.idb, node.GetOptions{Portal: 1, MatchBits: c.bits, Offset: c.offset}); err != nil {
					t.Fatal(err)
				}
			} else {
				put(t, p.a, h, p.idb, node.PutOptions{Portal: 1, MatchBits: c.bits, Offset: c.offset})
			}
			events := r.take()
			switch {
			case c.want == dropped:
				if len(events) != 0 {
					t.Errorf("accepted: %+v", events)
				}
			case len(events) != 1:
				t.Errorf("%d events", len(events))
			case events[0].Length != c.want || events[0].Offset != c.wantOff:
				t.Errorf("%d bytes at %d, want %d at %d", events[0].Length, events[0].Offset, c.want, c.wantOff)
			}
			if err := p.b.Unlink(target); err != nil {
				t.Error(err)
			}
		})
	}
}

// An MD that manages its own offset fills up. An MD that drops a message ends the search.
//
// lnet-core 2.2 exhausted, 4.2 (8)-(10), 4.3 (4)
func TestSeveralEntries(t *testing.T) {
	p := newPair(t)
	var first, second recorder
	attach(t, p.b, portals.Entry{Portal: 1, Position: portals.After}, portals.MD{
		Bytes: make([]byte, 10), Threshold: portals.Unlimited, Unlink: true,
		Options: portals.OpPut | portals.MaxSize, MaxSize: 4, Handler: &first,
	})
	attach(t, p.b, portals.Entry{Portal: 1, Position: portals.After}, portals.MD{
		Bytes: make([]byte, 10), Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &second,
	})
	send := func(n int) {
		t.Helper()
		h := bind(t, p.a, portals.MD{Bytes: make([]byte, n), Threshold: 1, Unlink: true})
		put(t, p.a, h, p.idb, node.PutOptions{Portal: 1})
	}
	send(4) // at offset 0
	send(5) // exceeds the maximum size: dropped, although the second entry has room
	send(3) // at offset 4; 3 bytes are left: used up
	send(5) // matches the second entry
	type use struct {
		length, offset int
		last           bool
	}
	uses := func(r *recorder) (u []use) {
		for _, e := range r.take() {
			u = append(u, use{e.Length, e.Offset, e.Unlinked})
		}
		return u
	}
	if d := cmp.Diff([]use{{4, 0, false}, {3, 4, true}}, uses(&first), cmp.AllowUnexported(use{})); d != "" {
		t.Errorf("first entry (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]use{{5, 0, false}}, uses(&second), cmp.AllowUnexported(use{})); d != "" {
		t.Errorf("second entry (-want +got):\n%s", d)
	}
}

// lnet-core 2.2 attach (3), 2.3 committed, 4.3 (2), 4.6, 4.6 (1)-(3), 5.4 (1)
func TestLazyPortal(t *testing.T) {
	p := newPair(t)
	if err := p.b.SetLazy(64); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("portal 64: %v", err)
	}
	if err := p.b.SetLazy(3); err != nil {
		t.Fatal(err)
	}
	acks := node.NewEventQueue(node.EventsOf(portals.EventAck))
	send := func(data string, bits uint64) {
		t.Helper()
		h := bind(t, p.a, portals.MD{Bytes: []byte(data), Threshold: 2, Unlink: true, Handler: acks})
		put(t, p.a, h, p.idb, node.PutOptions{Portal: 3, MatchBits: bits, Ack: true})
	}
	send("one", 1)
	send("long", 1)
	send("two", 2)
	send("three", 1)
	if g := p.b.Admin().Counters(); g.Committed != 4 || g.Dropped != 0 {
		t.Errorf("while waiting: %+v", g)
	}

	// A GET never waits.
	g := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: 2})
	if err := p.a.Get(g, p.idb, node.GetOptions{Portal: 3}); err != nil {
		t.Fatal(err)
	}
	if got := p.b.Admin().Counters(); got.Dropped != 1 {
		t.Errorf("a GET waits: %+v", got)
	}

	// Threshold 2: "one" is accepted, "long" does not fit and is dropped, "two" does not
	// match, "three" is accepted.
	var r recorder
	room := make([]byte, 8)
	attach(t, p.b, portals.Entry{Portal: 3, MatchBits: 1}, portals.MD{
		Bytes: room, Threshold: 2, Unlink: true, Options: portals.OpPut | portals.MaxSize, MaxSize: 3, Handler: &r})
	events := r.take()
	if len(events) != 1 || string(room[:3]) != "one" {
		t.Errorf("events %+v, memory %q", events, room)
	}
	if got := p.b.Admin().Counters(); got.Dropped != 3 || got.Committed != 1 {
		t.Errorf("after the first entry: %+v", got)
	}

	// ClearLazy drops the rest; afterwards no message waits.
	if err := p.b.ClearLazy(3); err != nil {
		t.Fatal(err)
	}
	send("four", 2)
	if got := p.b.Admin().Counters(); got.Dropped != 5 || got.Committed != 0 {
		t.Errorf("after clearing: %+v", got)
	}
	var e portals.Event
	if !acks.TryNext(&e) || e.Length != 3 || acks.TryNext(&e) {
		t.Errorf("ACKs: %+v", e)
	}
}

// lnet-core 4.6 (4), 12.5
func TestRemovedNILosesItsDelayedMessages(t *testing.T) {
	p := newPair(t)
	if err := p.b.SetLazy(3); err != nil {
		t.Fatal(err)
	}
	second := p.fabric.addNI(t, p.b, "10.77.0.13@tcp")
	for _, to := range []lnet.ProcessID{p.idb, {NID: second.nid, PID: lnet.PIDLustre}} {
		h := bind(t, p.a, portals.MD{Bytes: []byte("x"), Threshold: 1, Unlink: true})
		put(t, p.a, h, to, node.PutOptions{Portal: 3})
	}
	if err := p.b.RemoveNI(context.Background(), second.nid); err != nil {
		t.Fatal(err)
	}
	if g := p.b.Admin().Counters(); g.Committed != 1 || g.Dropped != 1 {
		t.Errorf("counters %+v", g)
	}
	var r recorder
	attach(t, p.b, portals.Entry{Portal: 3}, portals.MD{Bytes: make([]byte, 1), Threshold: 9, Options: portals.OpPut, Handler: &r})
	if e := r.take(); len(e) != 1 || e[0].Target != p.idb {
		t.Errorf("events %+v", e)
	}
}

// model implements matching as in lnet-core 4, with plain lists.
type model struct {
	lazy     bool
	ignoring []*modelEntry
	exact    []*modelEntry
	delayed  []modelPut
	taken    []string // result for each message, in order
}

type modelEntry struct {
	id           int
	bits, ignore uint64
	length       int
	maxSize      int // -1 if not set
	offset       int
	threshold    int
	options      portals.MDOptions
	unlink       bool
}

type modelPut struct {
	id      uint64
	op      portals.MDOptions
	bits    uint64
	length  int
	offset  int
	dropped bool
}

func (e *modelEntry) exhausted() bool {
	return e.threshold == 0 || e.maxSize >= 0 && e.offset+e.maxSize > e.length
}

// try reports whether the search ends here.
func (m *model) try(e *modelEntry, r *modelPut) bool {
	if e.exhausted() || e.options&r.op == 0 || (e.bits^r.bits)&^e.ignore != 0 {
		return false
	}
	offset := e.offset
	if e.options&portals.ManageRemote != 0 {
		offset = r.offset
	}
	room := e.length - offset
	if room < 0 {
		room = 0
	}
	if e.maxSize >= 0 && e.maxSize < room {
		room = e.maxSize
	}
	n := r.length
	if n > room {
		if e.options&portals.Truncate == 0 {
			r.dropped = true
			return true
		}
		n = room
	}
	if e.threshold > 0 {
		e.threshold--
	}
	e.offset = offset + n
	m.taken = append(m.taken, fmt.Sprintf("%d by %d: %d at %d", r.id, e.id, n, offset))
	if e.unlink && e.exhausted() {
		m.remove(e)
	}
	return true
}

func (m *model) remove(e *modelEntry) {
	same := func(o *modelEntry) bool { return o == e }
	m.ignoring = slices.DeleteFunc(m.ignoring, same)
	m.exact = slices.DeleteFunc(m.exact, same)
}

func (m *model) request(r modelPut) {
	for _, e := range append(slices.Clone(m.ignoring), m.exact...) {
		if m.try(e, &r) {
			return
		}
	}
	if r.op == portals.OpPut && m.lazy {
		m.delayed = append(m.delayed, r)
	}
}

func (m *model) attach(e *modelEntry, at portals.Position) {
	l := &m.exact
	if e.ignore != 0 {
		l = &m.ignoring
	}
	if at == portals.Before {
		*l = slices.Insert(*l, 0, e)
	} else {
		*l = append(*l, e)
	}
	waiting := m.delayed
	m.delayed = nil
	for _, r := range waiting {
		linked := slices.Contains(*l, e)
		if !linked || !m.try(e, &r) {
			m.delayed = append(m.delayed, r)
		}
	}
}

// Matching on one portal, in random steps, compared with the model.
//
// lnet-core 4.2 (1)-(3), 4.2 (6)-(10), 4.3 (4)-(5)
func TestMatchingEqualsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := node.New(node.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		m := &model{}
		var got []string
		handles := map[*modelEntry]lnet.Handle{}
		next := 0
		bits := rapid.Uint64Range(0, 3)
		size := rapid.IntRange(0, 6)
		t.Repeat(map[string]func(*rapid.T){
			"attach": func(t *rapid.T) {
				next++
				e := &modelEntry{
					id: next, bits: bits.Draw(t, "bits"), ignore: bits.Draw(t, "ignore"),
					length: size.Draw(t, "length"), maxSize: -1,
					threshold: rapid.IntRange(-1, 3).Draw(t, "threshold"), unlink: rapid.Bool().Draw(t, "unlink"),
					options: rapid.SampledFrom([]portals.MDOptions{portals.OpPut, portals.OpGet, portals.OpPut | portals.OpGet}).Draw(t, "op"),
				}
				for _, o := range []portals.MDOptions{portals.Truncate, portals.ManageRemote} {
					if rapid.Bool().Draw(t, "option") {
						e.options |= o
					}
				}
				md := portals.MD{
					Bytes: make([]byte, e.length), Threshold: e.threshold, Unlink: e.unlink, Options: e.options, UserPtr: e.id,
					Handler: portals.HandlerFunc(func(ev *portals.Event) {
						if ev.Type == portals.EventUnlink {
							return
						}
						got = append(got, fmt.Sprintf("%d by %d: %d at %d", ev.HdrData, ev.UserPtr, ev.Length, ev.Offset))
					}),
				}
				if rapid.Bool().Draw(t, "max size") {
					e.maxSize = rapid.IntRange(0, e.length).Draw(t, "max size")
					md.Options, md.MaxSize = md.Options|portals.MaxSize, e.maxSize
				}
				at := rapid.SampledFrom([]portals.Position{portals.Before, portals.After}).Draw(t, "position")
				h, err := n.Attach(portals.Entry{Portal: 5, MatchBits: e.bits, IgnoreBits: e.ignore, Position: at}, md)
				if err != nil {
					t.Fatal(err)
				}
				handles[e] = h
				m.attach(e, at)
			},
			"put": func(t *rapid.T) {
				next++
				r := modelPut{id: uint64(next), op: portals.OpPut, bits: bits.Draw(t, "bits"), length: size.Draw(t, "length"), offset: size.Draw(t, "offset")}
				h, err := n.Bind(portals.MD{Bytes: make([]byte, r.length), Threshold: 1, Unlink: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := n.Put(h, loID, node.PutOptions{Portal: 5, MatchBits: r.bits, HdrData: r.id, Offset: uint32(r.offset)}); err != nil {
					t.Fatal(err)
				}
				m.request(r)
			},
			"get": func(t *rapid.T) {
				r := modelPut{id: 0, op: portals.OpGet, bits: bits.Draw(t, "bits"), length: size.Draw(t, "length"), offset: size.Draw(t, "offset")}
				h, err := n.Bind(portals.MD{Bytes: make([]byte, r.length), Threshold: 2})
				if err != nil {
					t.Fatal(err)
				}
				if err := n.Get(h, loID, node.GetOptions{Portal: 5, MatchBits: r.bits, Offset: uint32(r.offset)}); err != nil {
					t.Fatal(err)
				}
				m.request(r)
			},
			"lazy": func(t *rapid.T) {
				m.lazy = rapid.Bool().Draw(t, "lazy")
				set := n.SetLazy
				if !m.lazy {
					set = n.ClearLazy
					m.delayed = nil
				}
				if err := set(5); err != nil {
					t.Fatal(err)
				}
			},
			"unlink": func(t *rapid.T) {
				linked := append(slices.Clone(m.ignoring), m.exact...)
				if len(linked) == 0 {
					t.Skip("nothing to unlink")
				}
				e := rapid.SampledFrom(linked).Draw(t, "entry")
				if err := n.Unlink(handles[e]); err != nil {
					t.Fatal(err)
				}
				m.remove(e)
			},
			"": func(t *rapid.T) {
				if d := cmp.Diff(m.taken, got); d != "" {
					t.Fatalf("accepted (-model +node):\n%s", d)
				}
				if c := n.Admin().Counters(); c.Committed != uint64(2*len(m.delayed)) {
					t.Fatalf("%d messages under way, %d wait", c.Committed, len(m.delayed))
				}
			},
		})
	})
}
