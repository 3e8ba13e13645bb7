package portals_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
)

func TestEventTypes(t *testing.T) {
	// lnet-core 3.1
	names := []string{"event 0", "GET", "PUT", "REPLY", "ACK", "SEND", "UNLINK", "event 7"}
	for v, want := range names {
		if got := portals.EventType(v).String(); got != want {
			t.Errorf("%d is %q, want %q", v, got, want)
		}
	}
	if portals.EventUnlink != 6 {
		t.Errorf("UNLINK is %d", portals.EventUnlink)
	}
}

// The columns of lnet-core 3.2. Fields from the message are passed through unchanged, and
// the table adds those of the MD.
func TestEventFields(t *testing.T) {
	// lnet-core 3.2, 3.2 notes (1)
	room := make([]byte, 10)
	user := "mine"
	attached := portals.MD{
		Bytes: room, Threshold: portals.Unlimited, UserPtr: user,
		Options: portals.OpPut | portals.OpGet | portals.ManageRemote | portals.Truncate,
	}
	bound := portals.MD{Memory: vectorOf(4, 6), Threshold: portals.Unlimited, UserPtr: user, Options: portals.Truncate}
	said := portals.Event{
		MsgType: lnet.MsgPut, Target: there, Initiator: here, Source: alias, Sender: alias.NID,
		Portal: 1, MatchBits: 7, HdrData: 8, Requested: 12,
	}
	for _, c := range []struct {
		name string
		md   portals.MD
		run  func(table *portals.Table, h lnet.Handle, o *portals.Operation)
		want func(e *portals.Event)
	}{
		{
			"PUT", attached,
			func(table *portals.Table, _ lnet.Handle, o *portals.Operation) {
				o.Event.Type, o.Length, o.RemoteOffset = portals.EventPut, 12, 3
				match(t, table, o, portals.Accept)
			},
			func(e *portals.Event) { e.Type, e.Length, e.Offset = portals.EventPut, 7, 3 },
		},
		{
			"GET", attached,
			func(table *portals.Table, _ lnet.Handle, o *portals.Operation) {
				o.Event.Type, o.Event.Requested, o.Length, o.RemoteOffset = portals.EventGet, 0, 4, 3
				match(t, table, o, portals.Accept)
			},
			func(e *portals.Event) { e.Type, e.Requested, e.Length, e.Offset = portals.EventGet, 0, 4, 3 },
		},
		{
			"SEND", bound,
			func(table *portals.Table, h lnet.Handle, o *portals.Operation) {
				o.Event.Offset = 99 // the remote offset
				if m, err := table.Begin(h, o, putAlone); err != nil || m.Length != 10 || o.Memory().Length != 10 {
					t.Error(m, err)
				}
			},
			func(e *portals.Event) { e.Type, e.Requested, e.Length, e.Offset = portals.EventSend, 10, 10, 99 },
		},
		{
			"REPLY", bound,
			func(table *portals.Table, h lnet.Handle, o *portals.Operation) {
				table.Finish(begin(t, table, h, get), nil)
				if !table.BeginReply(h, o, 12) || o.Memory().Length != 10 {
					t.Error("REPLY not taken, or not whole")
				}
			},
			func(e *portals.Event) { e.Type, e.Length = portals.EventReply, 10 },
		},
		{
			"ACK", bound,
			func(table *portals.Table, h lnet.Handle, o *portals.Operation) {
				table.Finish(begin(t, table, h, putWithAck), nil)
				o.Event.Length = 5 // taken from the message
				if !table.BeginAck(h, o) || o.Memory().Length != 0 {
					t.Error("ACK not taken, or with memory")
				}
			},
			func(e *portals.Event) { e.Type, e.Length = portals.EventAck, 5 },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			var r recorder
			c.md.Handler = &r
			var h lnet.Handle
			if c.md.Options&portals.OpPut != 0 {
				h = attach(t, table, portals.Entry{Portal: 1, MatchBits: 7}, c.md)
			} else {
				h = bind(t, table, c.md)
			}
			o := &portals.Operation{Event: said}
			c.run(table, h, o)
			r.take()
			table.Finish(o, nil)

			want := said
			c.want(&want)
			want.MD, want.UserPtr, want.Options = h, user, c.md.Options
			want.Memory, want.Bytes = c.md.Memory, c.md.Bytes
			values := cmp.Options{
				cmp.Comparer(func(a, b lnet.NID) bool { return a == b }),
				cmp.Comparer(func(a, b memory.Segment) bool { return a.Region() == b.Region() && bytes.Equal(a.Bytes, b.Bytes) }),
			}
			if d := cmp.Diff([]portals.Event{want}, r.take(), values); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			if err := table.Unlink(h); err != nil {
				t.Fatal(err)
			}
			want = portals.Event{
				Type: portals.EventUnlink, Unlinked: true, MD: h, UserPtr: user,
				Options: c.md.Options, Memory: c.md.Memory, Bytes: c.md.Bytes,
			}
			if d := cmp.Diff([]portals.Event{want}, r.take(), values); d != "" {
				t.Errorf("UNLINK (-want +got):\n%s", d)
			}
		})
	}
}

// A handler that causes further events of its MD is not called recursively. It receives
// them in order, the last one last.
func TestHandlersRunToCompletion(t *testing.T) {
	// lnet-core 3.3 (1)-(2), 3.3 (7), 3.4 (1), 3.4 (7), 2.2 unlink (2)
	table := newTable()
	var h lnet.Handle
	var order []string
	running := false
	var left []*portals.Operation
	handler := portals.HandlerFunc(func(e *portals.Event) {
		if running {
			t.Error("called within itself")
		}
		running = true
		defer func() { running = false }()
		order = append(order, types([]portals.Event{*e}))
		if len(order) > 1 {
			return
		}
		for _, o := range left {
			table.Finish(o, nil)
		}
		if err := table.Unlink(h); err != nil {
			t.Error(err)
		}
		order = append(order, "returns")
	})
	h = attach(t, table, portals.Entry{Portal: 1}, portals.MD{Threshold: portals.Unlimited, Options: portals.OpPut, Handler: handler})
	for range 3 {
		o := newArrival(portals.EventPut, 0, 0)
		match(t, table, o, portals.Accept)
		left = append(left, o)
	}
	first := left[0]
	left = left[1:]
	table.Finish(first, nil)
	if d := cmp.Diff([]string{"PUT", "returns", "PUT", "PUT", "UNLINK!"}, order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

// A handler may send forever without growing the stack.
func TestHandlersDoNotRecurse(t *testing.T) {
	// lnet-core 3.3 (1), 3.3 (7)
	table := newTable()
	const rounds = 1_000_000
	count := 0
	var h lnet.Handle
	var o [2]portals.Operation
	handler := portals.HandlerFunc(func(*portals.Event) {
		if count++; count < rounds {
			next := &o[count%2]
			if _, err := table.Begin(h, next, putAlone); err != nil {
				t.Fatal(err)
			}
			table.Finish(next, nil)
		}
	})
	h = bind(t, table, portals.MD{Threshold: portals.Unlimited, Handler: handler})
	if _, err := table.Begin(h, &o[0], putAlone); err != nil {
		t.Fatal(err)
	}
	table.Finish(&o[0], nil)
	if count != rounds {
		t.Errorf("%d events", count)
	}
}

// Responses and the end of the send come in any order. Whichever is last is the last event.
func TestOrderOfSendAndResponse(t *testing.T) {
	// lnet-core 3.3 (2)-(3), 3.3 (8), 3.4 (3), 2.2 unlinkable
	for _, c := range []struct {
		begin        portals.Begin
		responseFast bool
		want         string
	}{
		{get, false, "SEND REPLY!"},
		{get, true, "REPLY SEND!"},
		{putWithAck, false, "SEND ACK!"},
		{putWithAck, true, "ACK SEND!"},
	} {
		t.Run(c.want, func(t *testing.T) {
			table := newTable()
			var r recorder
			h := bind(t, table, portals.MD{Threshold: 2, Unlink: true, Handler: &r})
			o := begin(t, table, h, c.begin)
			var response portals.Operation
			take := func() {
				if c.begin.Type == lnet.MsgGet && !table.BeginReply(h, &response, 0) ||
					c.begin.Type == lnet.MsgPut && !table.BeginAck(h, &response) {
					t.Error("not taken")
				}
				table.Finish(&response, nil)
			}
			if c.responseFast {
				take()
				table.Finish(o, nil)
			} else {
				table.Finish(o, nil)
				take()
			}
			if got := types(r.take()); got != c.want {
				t.Errorf("events %s", got)
			}
			if err := table.Unlink(h); !errors.Is(err, portals.ErrNotFound) {
				t.Errorf("unlink: %v", err)
			}
		})
	}
}

// A call that fails causes no event, and a call that succeeds causes one.
func TestNoEventWithAnError(t *testing.T) {
	// lnet-core 3.3 (6), 6.1 (2)
	table := newTable()
	var r recorder
	h := bind(t, table, portals.MD{Threshold: 1, Handler: &r})
	attached := attach(t, table, portals.Entry{}, portals.MD{Threshold: 1, Options: portals.OpPut, Handler: &r})
	used := bind(t, table, portals.MD{Handler: &r})
	for _, h := range []lnet.Handle{attached, used, {}, lnet.NoHandle, {Interface: cookie + 1, Object: h.Object}} {
		for _, b := range []portals.Begin{putAlone, putWithAck, get} {
			if _, err := table.Begin(h, new(portals.Operation), b); !errors.Is(err, portals.ErrNotFound) {
				t.Errorf("%v: %v", h, err)
			}
		}
	}
	o := begin(t, table, h, putAlone)
	if _, err := table.Begin(h, new(portals.Operation), putAlone); !errors.Is(err, portals.ErrNotFound) {
		t.Errorf("used up: %v", err)
	}
	if got := r.take(); len(got) != 0 {
		t.Errorf("events %s", types(got))
	}
	table.Finish(o, fmt.Errorf("no path"))
	if got := types(r.take()); got != "SEND (no path)" {
		t.Errorf("events %s", got)
	}
}

// Data is the part of the MD that the operation used, and nothing beyond its end.
func TestData(t *testing.T) {
	// lnet-core 3.2, 4.2 quirk
	text := "0123456789"
	for _, c := range []struct {
		name           string
		typ            portals.EventType
		offset, length int
		want           string
	}{
		{"PUT", portals.EventPut, 3, 4, "3456"},
		{"GET", portals.EventGet, 0, 10, "0123456789"},
		{"REPLY", portals.EventReply, 0, 4, "0123"},
		{"empty PUT", portals.EventPut, 3, 0, ""},
		{"empty PUT beyond the end", portals.EventPut, 1 << 30, 0, ""},
		{"empty PUT just beyond the end", portals.EventPut, 11, 0, ""},
		{"SEND, whose offset is the peer's", portals.EventSend, 99, 10, ""},
		{"ACK, whose length is the peer's", portals.EventAck, 0, 99, ""},
		{"UNLINK", portals.EventUnlink, 0, 0, ""},
	} {
		e := portals.Event{Type: c.typ, Offset: c.offset, Length: c.length, Bytes: []byte(text)}
		if got := string(e.Data()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if d := e.Data(); cap(d) != len(d) {
			t.Errorf("%s: %d bytes, and %d more", c.name, len(d), cap(d)-len(d))
		}
		whole := vectorOf(3, 6, 2) // the first byte does not belong to the MD
		whole.CopyFrom([]byte("x" + text))
		scattered := e
		scattered.Bytes, scattered.Memory = nil, whole.Slice(1, 10)
		if got := scattered.Data(); got != nil {
			t.Errorf("%s: %q of an MD without bytes", c.name, got)
		}
		for _, e := range []portals.Event{e, scattered} {
			m := e.DataMemory()
			got := make([]byte, m.Length)
			m.CopyTo(got)
			if string(got) != c.want {
				t.Errorf("%s: memory %q, want %q", c.name, got, c.want)
			}
		}
		if n := testing.AllocsPerRun(100, func() { e.Data(); scattered.DataMemory() }); n > 0 && !testenv.Race {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// An empty request may have any offset, so a handler must not slice by it.
func TestDataOfAnEmptyPut(t *testing.T) {
	// lnet-core 4.2 quirk, 4.2 (6)
	table := newTable()
	called := false
	attach(t, table, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 64), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			called = true
			if e.Offset != 1<<30 || len(e.Data()) != 0 || e.DataMemory().Length != 0 {
				t.Errorf("offset %d, %d bytes", e.Offset, len(e.Data()))
			}
		}),
	})
	o := newArrival(portals.EventPut, 0, 0)
	o.RemoteOffset = 1 << 30
	match(t, table, o, portals.Accept)
	table.Finish(o, nil)
	if !called {
		t.Error("no event")
	}
}
