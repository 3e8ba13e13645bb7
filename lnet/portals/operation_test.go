package portals_test

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Which REPLYs an MD of 10 bytes accepts.
func TestReply(t *testing.T) {
	// lnet-core 5.5 (1)-(3), 2.2 bind (3), 3.2 notes (3)
	for _, c := range []struct {
		name    string
		md      portals.MD
		request portals.Begin
		payload int
		want    int // -1 means dropped
	}{
		{"whole", portals.MD{Threshold: 2}, get, 10, 10},
		{"less", portals.MD{Threshold: 2}, get, 3, 3},
		{"nothing", portals.MD{Threshold: 2}, get, 0, 0},
		{"more", portals.MD{Threshold: 2}, get, 11, -1},
		{"more, truncated", portals.MD{Threshold: 2, Options: portals.Truncate}, get, 11, 10},
		{"unlimited", portals.MD{Threshold: portals.Unlimited}, get, 10, 10},
		{"no threshold left", portals.MD{Threshold: 1}, get, 10, -1},
		{"senseless", portals.MD{Threshold: 2}, get, -1, -1},
		{"to a PUT", portals.MD{Threshold: 9}, putAlone, 10, -1},
		{"to a PUT with ACK", portals.MD{Threshold: 9}, putWithAck, 10, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			var r recorder
			c.md.Bytes, c.md.Handler = make([]byte, 10), &r
			h := bind(t, table, c.md)
			sent := begin(t, table, h, c.request)
			var o portals.Operation
			o.Issued = 77 // of a former use
			if got := table.BeginReply(h, &o, c.payload); got != (c.want >= 0) {
				t.Fatalf("taken: %v", got)
			}
			if c.want < 0 {
				table.Finish(sent, nil)
				if got := types(r.take()); got != "SEND" {
					t.Errorf("events %s", got)
				}
				return
			}
			if m := o.Memory(); m.Length != c.want || m.Offset != 0 || o.Issued != 0 {
				t.Errorf("memory %+v, issued %d", m, o.Issued)
			}
			table.Finish(&o, nil)
			if m := o.Memory(); m.Length != 0 {
				t.Errorf("memory of an operation that has ended: %v", m)
			}
			if got := r.take(); types(got) != "REPLY" || got[0].Length != c.want {
				t.Errorf("events %s", types(got))
			}
			table.Finish(sent, nil)
		})
	}
}

func TestAck(t *testing.T) {
	// lnet-core 5.6 (1)-(2)
	for _, c := range []struct {
		name    string
		md      portals.MD
		request portals.Begin
		want    bool
	}{
		{"asked for", portals.MD{Threshold: 2}, putWithAck, true},
		{"unlimited", portals.MD{Threshold: portals.Unlimited}, putWithAck, true},
		{"not asked for", portals.MD{Threshold: 2}, putAlone, false},
		{"to a GET", portals.MD{Threshold: 2}, get, false},
		{"no threshold left", portals.MD{Threshold: 1}, putWithAck, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := newTable()
			var r recorder
			c.md.Handler = &r
			h := bind(t, table, c.md)
			table.Finish(begin(t, table, h, c.request), nil)
			var o portals.Operation
			o.Event.Length, o.Event.MatchBits = 5, 6
			if got := table.BeginAck(h, &o); got != c.want {
				t.Fatalf("taken: %v", got)
			}
			if c.want {
				table.Finish(&o, nil)
				if got := r.take(); types(got) != "SEND ACK" || got[1].Length != 5 || got[1].MatchBits != 6 {
					t.Errorf("events %+v", got)
				}
			}
		})
	}
}

// The handle of a response must be that of a bound MD that still exists.
func TestUnexpectedResponses(t *testing.T) {
	// lnet-core 5.5 (1), 5.6 (1)
	table := newTable()
	attached := attach(t, table, portals.Entry{}, portals.MD{Threshold: 9, Options: portals.OpPut | portals.OpGet})
	gone := bind(t, table, portals.MD{Threshold: 9})
	table.Finish(begin(t, table, gone, get), nil)
	table.Finish(begin(t, table, gone, putWithAck), nil)
	busy := begin(t, table, gone, get) // keeps the MD in use, but not its handle
	if err := table.Unlink(gone); err != nil {
		t.Fatal(err)
	}
	for _, h := range []lnet.Handle{attached, gone, {}, lnet.NoHandle, {Interface: cookie, Object: 5000}, {Interface: cookie + 1, Object: attached.Object}} {
		var o portals.Operation
		if table.BeginReply(h, &o, 0) || table.BeginAck(h, &o) {
			t.Errorf("%v takes a response", h)
		}
	}
	table.Finish(busy, nil)
}

// The threshold counts SEND and response. Several requests share one MD.
func TestRequestsShareAnMD(t *testing.T) {
	// lnet-core 6.1 (3), 6.1 threshold
	table := newTable()
	var r recorder
	h := bind(t, table, portals.MD{Bytes: make([]byte, 3), Threshold: 3, Unlink: true, Handler: &r})
	first, second := begin(t, table, h, putAlone), begin(t, table, h, get)
	table.Finish(first, nil)
	var reply portals.Operation
	if !table.BeginReply(h, &reply, 3) {
		t.Fatal("REPLY dropped")
	}
	var o portals.Operation
	if table.BeginReply(h, &o, 3) {
		t.Error("a REPLY too many")
	}
	table.Finish(second, nil)
	table.Finish(&reply, nil)
	if got := types(r.take()); got != "SEND SEND REPLY!" {
		t.Errorf("events %s", got)
	}
}
