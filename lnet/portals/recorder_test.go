package portals_test

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
)

// Three processes. alias is another NID of the node of here.
var (
	here  = lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, 1), PID: lnet.PIDLustre}
	alias = lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, 2), PID: lnet.PIDLustre}
	there = lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, 3), PID: lnet.PIDLustre}

	anyProcess = lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDAny}
)

const (
	tcp lnet.Net = 2 << 16

	cookie = 0x17f1a2b300000001
)

// recorder records the events of an MD.
type recorder struct{ events []portals.Event }

func (r *recorder) HandleEvent(e *portals.Event) { r.events = append(r.events, *e) }

// take returns the events since the previous take.
func (r *recorder) take() []portals.Event {
	events := r.events
	r.events = nil
	return events
}

// types returns the types of events. Those with Unlinked set have an exclamation mark.
func types(events []portals.Event) string {
	s := ""
	for i := range events {
		if i > 0 {
			s += " "
		}
		s += events[i].Type.String()
		if events[i].Unlinked {
			s += "!"
		}
		if events[i].Err != nil {
			s += " (" + events[i].Err.Error() + ")"
		}
	}
	return s
}

func newTable() *portals.Table { return portals.New(portals.Config{Cookie: cookie}) }

// attach attaches an MD to a portal without delayed PUTs.
func attach(t testing.TB, table *portals.Table, e portals.Entry, d portals.MD) lnet.Handle {
	t.Helper()
	h, accepted, dropped, err := table.Attach(e, d)
	if err != nil {
		t.Fatal(err)
	}
	if accepted.Next() != nil || dropped.Next() != nil {
		t.Fatal("something was delayed")
	}
	return h
}

func bind(t testing.TB, table *portals.Table, d portals.MD) lnet.Handle {
	t.Helper()
	h, err := table.Bind(d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newArrival returns a PUT or GET from here to portal 1.
func newArrival(typ portals.EventType, bits uint64, length int) *portals.Operation {
	o := &portals.Operation{Length: length, Handle: lnet.NoHandle}
	o.Event.Type, o.Event.MsgType = typ, lnet.MsgPut
	if typ == portals.EventGet {
		o.Event.MsgType = lnet.MsgGet
	}
	o.Event.Portal, o.Event.MatchBits = 1, bits
	o.Event.Initiator, o.Event.Source = here, here
	o.Event.Sender = here.NID
	return o
}

// match matches o and fails unless the verdict is want.
func match(t testing.TB, table *portals.Table, o *portals.Operation, want portals.Verdict) {
	t.Helper()
	if got := table.Match(o); got != want {
		t.Fatalf("verdict %d, want %d", got, want)
	}
}

// begin makes a request from h.
func begin(t testing.TB, table *portals.Table, h lnet.Handle, b portals.Begin) *portals.Operation {
	t.Helper()
	o := new(portals.Operation)
	if _, err := table.Begin(h, o, b); err != nil {
		t.Fatal(err)
	}
	return o
}

var (
	putWithAck = portals.Begin{Type: lnet.MsgPut, Response: true}
	putAlone   = portals.Begin{Type: lnet.MsgPut}
	get        = portals.Begin{Type: lnet.MsgGet, Response: true}
)

// tracked returns b, made at time now and tracked for 100.
func tracked(b portals.Begin, now int64) portals.Begin {
	b.Track, b.Now, b.Deadline, b.NextHop = true, now, now+100, there.NID
	return b
}

// operationsOf returns the operations in q.
func operationsOf(q portals.Operations) []*portals.Operation {
	var list []*portals.Operation
	for o := q.Next(); o != nil; o = q.Next() {
		list = append(list, o)
	}
	return list
}

// vectorOf returns memory in pieces of the given lengths.
func vectorOf(lengths ...int) memory.Vector {
	var m memory.Vector
	for _, n := range lengths {
		m.Segments = append(m.Segments, memory.Segment{Bytes: make([]byte, n)})
		m.Length += n
	}
	return m
}
