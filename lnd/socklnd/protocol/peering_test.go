package protocol

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// low and high are NIDs; high is the higher of the two.
var low, high = nidA, nidB

// TestPeeringAccept checks the rows of socklnd 5.3: the first row that applies decides.
//
// socklnd 5.3 (1)-(8)
func TestPeeringAccept(t *testing.T) {
	known := Peering{Version: V3, Incarnation: incarnationA}
	from := func(src lnet.NID, edit func(*Inbound)) Inbound {
		self := high
		if src == high {
			self = low
		}
		in := Inbound{Hello: helloAB(func(h *Hello) { h.Src, h.Dst = src, self }), Self: self, Limit: 1}
		if edit != nil {
			edit(&in)
		}
		return in
	}
	typed := func(c ConnType) func(*Inbound) {
		return func(in *Inbound) { in.Hello.Type = c }
	}
	for _, test := range []struct {
		name   string
		before Peering
		in     Inbound
		want   Verdict
		after  Peering
	}{
		{"1 type NONE", Peering{}, from(low, typed(None)), Drop, Peering{}},
		{"1 type 4", Peering{}, from(low, typed(4)), Drop, Peering{}},
		{"1 type -2", Peering{}, from(low, typed(-2)), Drop, Peering{}},
		{"1 before 2 and 3", Peering{}, from(low, func(in *Inbound) {
			in.Hello.Type, in.Closing, in.Connecting = None, true, true
		}), Drop, Peering{}},
		{"2 and 4 closing", Peering{}, from(low, func(in *Inbound) { in.Closing, in.Connecting = true, true }), Drop, Peering{}},
		{"3 lower NID while we connect", Peering{}, from(low, func(in *Inbound) { in.Connecting = true }), RefuseRace, Peering{}},
		{"3 before 6", known, from(low, func(in *Inbound) {
			in.Connecting, in.Hello.SrcIncarnation = true, incarnationB
		}), RefuseRace, known},
		{"3 not for a higher NID", Peering{}, from(high, func(in *Inbound) { in.Connecting = true }), Register, known},
		{"3 not for our own NID", Peering{}, from(low, func(in *Inbound) { in.Connecting, in.Self = true, low }), Register, known},
		{"5 the first one", Peering{}, from(low, nil), Register, known},
		{"5 with an incarnation on record", Peering{Incarnation: incarnationB}, from(low, nil), Register, known},
		{"6 another version", known, from(low, func(in *Inbound) { in.Hello.Version = V4 }),
			RefuseStale, Peering{Incarnation: incarnationA}},
		{"6 another incarnation", known, from(low, func(in *Inbound) { in.Hello.SrcIncarnation = incarnationB }),
			RefuseStale, Peering{Incarnation: incarnationA}},
		{"6 before 7", known, from(low, func(in *Inbound) { in.Hello.Version, in.Conns = V4, 1 }),
			RefuseStale, Peering{Incarnation: incarnationA}},
		{"7 enough of them", known, from(low, func(in *Inbound) { in.Conns = 1 }), Refuse, known},
		{"7 not quite enough", known, from(low, func(in *Inbound) { in.Conns, in.Limit = 3, 4 }), Register, known},
		{"7 not for one address", known, from(low, func(in *Inbound) { in.Conns, in.SameAddress = 1, true }), Register, known},
		{"8 another one", known, from(low, typed(BulkIn)), Register, known},
		{"8 an untyped one", known, from(low, typed(Any)), Register, known},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.before
			if got := p.Accept(test.in); got != test.want {
				t.Errorf("verdict %s, want %s", got, test.want)
			}
			if p != test.after {
				t.Errorf("recorded %+v, want %+v", p, test.after)
			}
		})
	}
}

// TestPeeringConnect checks the rows of socklnd 5.4.
//
// socklnd 5.4 (1)-(4), 5.4 (6)-(10)
func TestPeeringConnect(t *testing.T) {
	known := Peering{Version: V3, Incarnation: incarnationB}
	answer := func(edit func(*Outbound)) Outbound {
		o := Outbound{Want: lnet.ProcessID{NID: nidB, PID: lnet.PIDLustre}, Sent: helloAB(nil), Reply: answerBA(nil), Limit: 1}
		if edit != nil {
			edit(&o)
		}
		return o
	}
	typed := func(sent, reply ConnType) func(*Outbound) {
		return func(o *Outbound) { o.Sent.Type, o.Reply.Type = sent, reply }
	}
	const fails = Outcome(99)
	for _, test := range []struct {
		name   string
		before Peering
		out    Outbound
		want   Outcome
		after  Peering
	}{
		{"1 another NID", Peering{}, answer(func(o *Outbound) { o.Reply.Src = nidA }), fails, Peering{}},
		{"1 another PID", Peering{}, answer(func(o *Outbound) { o.Reply.SrcPID = 1 }), fails, Peering{}},
		{"1 before 2", Peering{}, answer(func(o *Outbound) { o.Reply.Src, o.Reply.Type = nidA, None }), fails, Peering{}},
		{"2 refused", Peering{}, answer(typed(Control, None)), Race, known},
		{"2 refused, known", known, answer(typed(BulkIn, None)), Race, known},
		{"3 refused in another version", Peering{}, answer(func(o *Outbound) {
			o.Reply.Type, o.Reply.Version = None, V2
		}), OtherVersion, Peering{Version: V2, Incarnation: incarnationB}},
		{"4 CONTROL for BULK_IN", known, answer(typed(BulkIn, Control)), fails, known},
		{"4 BULK_IN for BULK_IN", known, answer(typed(BulkIn, BulkIn)), fails, known},
		{"4 nonsense for CONTROL", known, answer(typed(Control, 7)), fails, known},
		{"4 before 7", known, answer(func(o *Outbound) {
			o.Reply.Type, o.Reply.SrcIncarnation = BulkIn, 7
		}), fails, known},
		{"6 the first one", Peering{}, answer(nil), Connected, known},
		{"6 a version that we did not send", Peering{}, answer(func(o *Outbound) { o.Reply.Version = V2 }),
			Connected, Peering{Version: V2, Incarnation: incarnationB}},
		{"7 another incarnation", known, answer(func(o *Outbound) { o.Reply.SrcIncarnation = 7 }), Stale, Peering{Incarnation: incarnationB}},
		{"7 another version", known, answer(func(o *Outbound) { o.Reply.Version = V2 }), Stale, Peering{Incarnation: incarnationB}},
		{"7 before 8, refused by a new life", known, answer(func(o *Outbound) {
			o.Reply.Type, o.Reply.SrcIncarnation = None, 7
		}), Stale, Peering{Incarnation: incarnationB}},
		{"7 before 8, refused in another version", known, answer(func(o *Outbound) {
			o.Reply.Type, o.Reply.Version = None, V2
		}), Stale, Peering{Incarnation: incarnationB}},
		{"8 before 9", known, answer(func(o *Outbound) { o.Reply.Type, o.Conns = None, 1 }), Race, known},
		{"9 enough of them", known, answer(func(o *Outbound) { o.Conns = 1 }), Duplicate, known},
		{"9 not for one address", known, answer(func(o *Outbound) { o.Conns, o.SameAddress = 1, true }), Connected, known},
		{"10 BULK_IN", known, answer(typed(BulkIn, BulkOut)), Connected, known},
		{"10 BULK_OUT", known, answer(typed(BulkOut, BulkIn)), Connected, known},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.before
			got, err := p.Connect(test.out)
			if err != nil {
				got = fails
			}
			if got != test.want {
				t.Errorf("outcome %d (error %v), want %d", got, err, test.want)
			}
			if p != test.after {
				t.Errorf("recorded %+v, want %+v", p, test.after)
			}
		})
	}
}

// TestVerdictsShowTheCurrentIncarnation shows which HELLOs count as a meeting with the peer, whatever becomes
// of the connection: not those that may be late, nor those for which the answer to our own HELLO is to come.
func TestVerdictsShowTheCurrentIncarnation(t *testing.T) {
	for v, want := range map[Verdict]bool{Register: true, Refuse: true, RefuseStale: true, RefuseRace: false, Drop: false} {
		if got := v.Current(); got != want {
			t.Errorf("%s: %v, want %v", v, got, want)
		}
	}
}

func TestPeeringRefusesAtMostTwiceInARow(t *testing.T) {
	var p Peering
	for round := range 2 {
		for k, want := range []bool{true, true, false, false} {
			if got := p.MayRefuse(); got != want {
				t.Errorf("round %d, refusal %d: may be sent: %v, want %v", round, k+1, got, want)
			}
		}
		// An accepted connection resets the count of refusals in a row.
		if v := p.Accept(Inbound{Hello: helloAB(nil), Self: high, SameAddress: true}); v != Register {
			t.Fatal(v)
		}
	}
}

// opened opens all wanted connections and returns their types in order.
func opened(w *Wanted) []ConnType {
	var order []ConnType
	for t, missing := w.Next(); missing; t, missing = w.Next() {
		order = append(order, t)
		w.Add(t)
	}
	return order
}

// socklnd 2.3 (2)
func TestWantedOrder(t *testing.T) {
	for _, test := range []struct {
		perType int
		want    []ConnType
	}{
		{0, []ConnType{Control, BulkIn, BulkOut}},
		{1, []ConnType{Control, BulkIn, BulkOut}},
		{2, []ConnType{Control, BulkIn, BulkOut, BulkIn, BulkOut}},
		{4, []ConnType{Control, BulkIn, BulkOut, BulkIn, BulkOut, BulkIn, BulkOut, BulkIn, BulkOut}}, // 9, as observed
	} {
		t.Run(fmt.Sprint(test.perType), func(t *testing.T) {
			if diff := cmp.Diff(test.want, opened(&Wanted{PerType: test.perType})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWantedCountsWhatThePeerOpened(t *testing.T) {
	w := Wanted{PerType: 2}
	w.Add(BulkOut)
	w.Add(BulkOut)
	if diff := cmp.Diff([]ConnType{Control, BulkIn, BulkIn}, opened(&w)); diff != "" {
		t.Error(diff)
	}
}

// socklnd 2.3 (1)
func TestWantedStaysCompleteUntilNothingIsLeft(t *testing.T) {
	w := Wanted{PerType: 2}
	opened(&w)
	w.Remove(BulkIn)
	if got, missing := w.Next(); missing {
		t.Errorf("one BULK_IN of two is left, and %s is wanted", got)
	}
	w.Remove(BulkIn)
	if diff := cmp.Diff([]ConnType{BulkIn, BulkIn}, opened(&w)); diff != "" {
		t.Error(diff)
	}
	w.Remove(Control)
	if diff := cmp.Diff([]ConnType{Control}, opened(&w)); diff != "" {
		t.Error(diff)
	}
}

func TestWantedSettlesForOneOfEachType(t *testing.T) {
	w := Wanted{PerType: 4}
	w.Add(Control)
	w.Add(BulkIn)
	if w.Settle() {
		t.Fatal("settled without a BULK_OUT")
	}
	if got, missing := w.Next(); !missing || got != BulkOut {
		t.Errorf("next is %s, want BULK_OUT", got)
	}
	w.Add(BulkOut)
	if !w.Settle() {
		t.Fatal("not settled with one of each type")
	}
	if got, missing := w.Next(); missing {
		t.Errorf("settled, and %s is wanted", got)
	}
}

func TestWantedSkipsWhatThePeerHasEnoughOf(t *testing.T) {
	w := Wanted{PerType: 2}
	w.Add(Control)
	w.Skip(BulkIn)
	if diff := cmp.Diff([]ConnType{BulkOut, BulkOut}, opened(&w)); diff != "" {
		t.Error(diff)
	}
}

// socklnd 2.2 (2)
func TestConnsPerPeer(t *testing.T) {
	for mbps, want := range map[int]int{
		-1: 1, 0: 1, 100: 1, 1000: 1, 2500: 1, 3999: 1, 4000: 2, 5000: 2, 10000: 2, 15999: 2,
		16000: 3, 25000: 3, 40000: 3, 64000: 4, 100000: 4, 200000: 4, 255999: 4, 256000: 5, 400000: 5, 800000: 5,
	} {
		if got := ConnsPerPeer(mbps); got != want {
			t.Errorf("%d Mbit/s: %d connections, want %d", mbps, got, want)
		}
	}
}
