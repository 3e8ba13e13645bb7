package portals

import (
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// oneRecord makes a table reuse one record for all its MDs. There must be at most one MD at
// a time.
func oneRecord(table *Table) *md {
	d := new(md)
	table.mds.New = func() any { return d } // the pool is empty
	return d
}

// Given an MD that was unlinked and whose record is reused at once for the next MD, when
// its handle is used, then no request can be made from it, no response to it is accepted
// although the second MD waits for one, and no operation of the first ends the second.
// Events name the MD that they belong to.
func TestReusedMDHasANewHandle(t *testing.T) {
	for name, typ := range map[string]lnet.MsgType{"put": lnet.MsgPut, "get": lnet.MsgGet} {
		t.Run(name, func(t *testing.T) {
			table := New(Config{Cookie: 1})
			record := oneRecord(table)
			var events []Event
			h := HandlerFunc(func(e *Event) { events = append(events, *e) })
			ask := func(k int) lnet.Handle {
				md, err := table.Bind(MD{Bytes: make([]byte, k), Threshold: 4, Handler: h, UserPtr: k})
				if err != nil {
					t.Fatal(err)
				}
				if table.find(md) != record {
					t.Fatal("it has another record")
				}
				var o Operation
				if _, err := table.Begin(md, &o, Begin{Type: typ, Response: true, Track: true, Now: 1, Deadline: 2}); err != nil {
					t.Fatal(err)
				}
				table.Finish(&o, nil)
				return md
			}
			former := ask(1)
			overdue := table.AppendOverdue(nil, 10)
			if len(overdue) != 1 || overdue[0].Handle != former {
				t.Fatalf("overdue: %v, want %s", overdue, former)
			}
			if err := table.Unlink(former); err != nil {
				t.Fatal(err)
			}
			next := ask(2)
			var o Operation
			if _, err := table.Begin(former, &o, Begin{Type: typ}); !errors.Is(err, ErrNotFound) {
				t.Errorf("Begin: %v, want ErrNotFound", err)
			}
			if err := table.Unlink(former); !errors.Is(err, ErrNotFound) {
				t.Errorf("Unlink: %v, want ErrNotFound", err)
			}
			if err := table.UnlinkOverdue(former, 10); !errors.Is(err, ErrNotFound) {
				t.Errorf("UnlinkOverdue: %v, want ErrNotFound", err)
			}
			if hop := table.NextHop(former); !hop.IsZero() {
				t.Errorf("awaits %s", hop)
			}
			if table.BeginAck(former, &o) || o.Cause != CauseNoMD {
				t.Errorf("TakeAck: taken, or for cause %d", o.Cause)
			}
			if table.BeginReply(former, &o, 1) || o.Cause != CauseNoMD {
				t.Errorf("TakeReply: taken, or for cause %d", o.Cause)
			}
			if err := table.Unlink(next); err != nil {
				t.Errorf("the next one: %v", err)
			}
			want := []Event{
				{Type: EventSend, MD: former, UserPtr: 1}, {Type: EventUnlink, MD: former, UserPtr: 1, Unlinked: true},
				{Type: EventSend, MD: next, UserPtr: 2}, {Type: EventUnlink, MD: next, UserPtr: 2, Unlinked: true},
			}
			if len(events) != len(want) {
				t.Fatalf("%d events, want %d", len(events), len(want))
			}
			for k, e := range events {
				w := &want[k]
				if e.Type != w.Type || e.MD != w.MD || e.UserPtr != w.UserPtr || e.Unlinked != w.Unlinked || len(e.Bytes) != w.UserPtr {
					t.Errorf("event %d: %s of %s (%v), last: %v; want %s of %s", k, e.Type, e.MD, e.UserPtr, e.Unlinked, w.Type, w.MD)
				}
			}
		})
	}
}

// Given queued events, when the handler unlinks its MD and attaches another one, then the
// operations under way belong to the first MD up to its last event. The record is not
// reused before that event was delivered.
func TestQueuedEventsBelongToTheOldMD(t *testing.T) {
	table := New(Config{Cookie: 1})
	type received struct {
		md       lnet.Handle
		by       int
		unlinked bool
		err      error
	}
	var all []received
	var handles [3]lnet.Handle
	var second Operation
	var handler func(k int) Handler
	attach := func(k int) {
		var err error
		handles[k], _, _, err = table.Attach(Entry{Portal: 1}, MD{
			Bytes: make([]byte, 4), Threshold: Unlimited, Options: OpPut | ManageRemote, Handler: handler(k), UserPtr: k})
		if err != nil {
			t.Fatal(err)
		}
	}
	take := func(o *Operation) {
		*o = Operation{Length: 1, Handle: lnet.NoHandle, Event: Event{Type: EventPut, Portal: 1}}
		if v := table.Match(o); v != Accept {
			t.Fatalf("verdict %d", v)
		}
	}
	handler = func(k int) Handler {
		return HandlerFunc(func(e *Event) {
			all = append(all, received{e.MD, k, e.Unlinked, e.Err})
			if k != 1 || len(all) > 1 {
				return
			}
			record := table.find(handles[1])
			if err := table.Unlink(handles[1]); err != nil {
				t.Error(err)
			}
			table.Finish(&second, nil) // waits for this handler call to return
			attach(2)
			if table.find(handles[2]) == record {
				t.Error("the record is used again while an event of its MD waits")
			}
			var third Operation
			take(&third)
			table.Finish(&third, nil)
		})
	}
	attach(1)
	var first Operation
	take(&first)
	take(&second)
	table.Finish(&first, nil)
	want := []received{{handles[1], 1, false, nil}, {handles[2], 2, false, nil}, {handles[1], 1, true, ErrTimedOut}}
	if len(all) != len(want) {
		t.Fatalf("heard %+v, want %+v", all, want)
	}
	for k := range want {
		if all[k] != want[k] {
			t.Errorf("%d: heard %+v, want %+v", k, all[k], want[k])
		}
	}
}
