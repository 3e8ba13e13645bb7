package peering

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestIncarnationsAreToldApart(t *testing.T) {
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
			var l Incarnations
			if l.Any() {
				t.Error("somebody was met at the beginning")
			}
			for k, m := range test.meetings {
				if got := l.Observe(m.life); got != m.restarted {
					t.Errorf("meeting %d, life %d: restarted %v, want %v", k+1, m.life, got, m.restarted)
				}
				if !l.Any() {
					t.Error("nobody was met")
				}
			}
		})
	}
}

// TestALifeThatIsPresumedOver shows that Observe does not report the incarnation after an assumed
// end as a restart. If the assumption was wrong, AssumeEnded reports the next end as new again, and
// Observe reports the next incarnation as a restart.
func TestALifeThatIsPresumedOver(t *testing.T) {
	var l Incarnations
	if l.AssumeEnded() {
		t.Error("the life of nobody is over")
	}
	l.Observe(7)
	for _, isNew := range []bool{true, false} {
		if l.AssumeEnded() != isNew {
			t.Errorf("it is new: want %v", isNew)
		}
	}
	for k, m := range []struct {
		life      uint64
		restarted bool
	}{{8, false}, {8, false}, {9, true}} {
		if got := l.Observe(m.life); got != m.restarted {
			t.Errorf("meeting %d: restarted %v, want %v", k+1, got, m.restarted)
		}
	}
	if !l.AssumeEnded() || l.Observe(9) || !l.Observe(10) {
		t.Error("a life that was presumed over wrongly counts as over")
	}
}

// TestIncarnationsEqualTheModel compares Incarnations with a list of all incarnations in the order of their last
// meeting. A restart is an incarnation that is not among the last few.
func TestIncarnationsEqualTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Incarnations
		var model []uint64 // distinct incarnations, the one seen last at the end
		for _, life := range rapid.SliceOf(rapid.Uint64Range(0, 7)).Draw(t, "meetings") {
			known := false
			rest := model[:0:0]
			for k, m := range model {
				if m == life {
					known = k >= len(model)-maxIncarnations
				} else {
					rest = append(rest, m)
				}
			}
			want := len(model) > 0 && !known
			model = append(slices.Clone(rest), life)
			if got := l.Observe(life); got != want {
				t.Fatalf("life %d after %v: restarted %v, want %v", life, rest, got, want)
			}
		}
	})
}
