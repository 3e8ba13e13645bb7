package protocol

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

func TestLivesAreToldApart(t *testing.T) {
	type meeting struct {
		life      uint64
		restarted bool
	}
	for _, test := range []struct {
		name     string
		meetings []meeting
	}{
		{"the first contact is no restart", []meeting{{7, false}}},
		{"nor is any other of the same life", []meeting{{7, false}, {7, false}, {7, false}}},
		{"a new life is one, once", []meeting{{7, false}, {8, true}, {8, false}}},
		{"with a clock set back too", []meeting{{7, false}, {3, true}, {3, false}}},
		{"with no clock at all too", []meeting{{7, false}, {0, true}, {0, false}}},
		{"also after a first life 0", []meeting{{0, false}, {0, false}, {7, true}}},
		{"a life that is over comes late", []meeting{{7, false}, {8, true}, {7, false}, {8, false}, {9, true}}},
		{"each of many lives is one", []meeting{{1, false}, {2, true}, {3, true}, {4, true}, {5, true}, {6, true}, {7, true}}},
		{"a few of them may come late", []meeting{{1, false}, {2, true}, {3, true}, {4, true}, {1, false}, {2, false}, {3, false}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var l Lives
			if l.Any() {
				t.Error("somebody was met at the beginning")
			}
			for k, m := range test.meetings {
				if got := l.Meet(m.life); got != m.restarted {
					t.Errorf("meeting %d, life %d: restarted %v, want %v", k+1, m.life, got, m.restarted)
				}
				if !l.Any() {
					t.Error("nobody was met")
				}
			}
		})
	}
}

// TestALifeThatIsPresumedOver shows that Meet does not report the life after a presumed end as a
// restart. If the presumption was wrong, Presume reports the next end as new again, and Meet
// reports the next life as a restart.
func TestALifeThatIsPresumedOver(t *testing.T) {
	var l Lives
	if l.Presume() {
		t.Error("the life of nobody is over")
	}
	l.Meet(7)
	for _, news := range []bool{true, false} {
		if l.Presume() != news {
			t.Errorf("news: want %v", news)
		}
	}
	for k, m := range []struct {
		life      uint64
		restarted bool
	}{{8, false}, {8, false}, {9, true}} {
		if got := l.Meet(m.life); got != m.restarted {
			t.Errorf("meeting %d: restarted %v, want %v", k+1, got, m.restarted)
		}
	}
	if !l.Presume() || l.Meet(9) || !l.Meet(10) {
		t.Error("a life that was presumed over wrongly counts as over")
	}
}

// TestLivesEqualTheModel compares Lives with a list of all incarnations in the order of their last
// meeting. A restart is an incarnation that is not among the last few.
func TestLivesEqualTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Lives
		var model []uint64 // distinct incarnations, the one seen last at the end
		for _, life := range rapid.SliceOf(rapid.Uint64Range(0, 7)).Draw(t, "meetings") {
			known := false
			rest := model[:0:0]
			for k, m := range model {
				if m == life {
					known = k >= len(model)-maxLives
				} else {
					rest = append(rest, m)
				}
			}
			want := len(model) > 0 && !known
			model = append(slices.Clone(rest), life)
			if got := l.Meet(life); got != want {
				t.Fatalf("life %d after %v: restarted %v, want %v", life, rest, got, want)
			}
		}
	})
}

// TestPeeringTellsOfRestarts shows which HELLOs report a restart, on both sides, and that each
// restart is reported once.
func TestPeeringTellsOfRestarts(t *testing.T) {
	const first, second = incarnationA, incarnationA + 1
	accept := func(life uint64, edit func(*Inbound)) func(*Peering) string {
		in := Inbound{Hello: helloAB(func(h *Hello) { h.SrcIncarnation = life }), Self: high, SameAddress: true}
		if edit != nil {
			edit(&in)
		}
		return func(p *Peering) string { return p.Accept(in).String() }
	}
	connect := func(life uint64, edit func(*Outbound)) func(*Peering) string {
		o := Outbound{Want: lnet.ProcessID{NID: nidB, PID: lnet.PIDLustre}, Sent: helloAB(nil),
			Reply: answerBA(func(h *Hello) { h.SrcIncarnation = life }), SameAddress: true}
		if edit != nil {
			edit(&o)
		}
		return func(p *Peering) string {
			outcome, err := p.Connect(o)
			if err != nil {
				return "fails"
			}
			return outcome.String()
		}
	}
	none := func(o *Outbound) { o.Reply.Type = None }
	for _, test := range []struct {
		name    string
		closed  bool // the connections of the first life have been closed
		hello   func(*Peering) string
		verdict string
		want    bool
	}{
		{"accepted, the old connections stand", false, accept(second, nil), "refuse stale", true},
		{"accepted, they have gone", true, accept(second, nil), "register", true},
		{"accepted, the same life", true, accept(first, nil), "register", false},
		{"accepted, another version", false, accept(first, func(in *Inbound) { in.Hello.Version = V4 }), "refuse stale", false},
		{"accepted, one too many", true, accept(second, func(in *Inbound) { in.SameAddress = false }), "refuse", true},
		{"a race is lost: the next one tells", true, accept(second, func(in *Inbound) { in.Connecting = true }), "refuse", false},
		{"while closing", true, accept(second, func(in *Inbound) { in.Closing = true }), "drop", false},
		{"opened, the old connections stand", false, connect(second, nil), "stale", true},
		{"opened, they have gone", true, connect(second, nil), "connected", true},
		{"opened, the same life", true, connect(first, nil), "connected", false},
		{"opened, the new life says NONE", true, connect(second, none), "race", true},
		{"opened, it says NONE to the old connections", false, connect(second, none), "stale", true},
		{"opened, somebody else answers", true, connect(second, func(o *Outbound) { o.Reply.SrcPID = 1 }), "fails", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p Peering
			if v := accept(first, nil)(&p); v != "register" || p.Restarted() {
				t.Fatalf("first contact: %s, or it is a restart", v)
			}
			if test.closed {
				p.Version = 0
			}
			if got := test.hello(&p); got != test.verdict {
				t.Errorf("%s, want %s", got, test.verdict)
			}
			if got := p.Restarted(); got != test.want {
				t.Errorf("restarted %v, want %v", got, test.want)
			}
			if p.Restarted() {
				t.Error("the news comes twice")
			}
		})
	}
}
