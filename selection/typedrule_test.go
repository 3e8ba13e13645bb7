package selection

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// typed returns a rule. local is its pattern unless remote is given.
func typed(w *fixture, id int, typ RuleType, local, remote string, priority uint32) TypedRule {
	if typ == RulePeer {
		return TypedRule{ID: id, Type: typ, Local: w.pattern(local), Remote: w.pattern(remote), Priority: priority}
	}
	return TypedRule{ID: id, Type: typ, Pattern: w.pattern(local), Priority: priority}
}

func addTyped(w *fixture, typ RuleType, local, remote string, priority uint32) int {
	w.t.Helper()
	id, err := w.policies.AddTyped(typed(w, AnyID, typ, local, remote, priority))
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply()
	return id
}

// selection 7
func TestTypedRulesApply(t *testing.T) {
	for _, c := range []struct {
		name          string
		typ           RuleType
		local, remote string
		want          map[string]string
	}{
		{"net", RuleNet, "tcp", "", map[string]string{"net tcp": "3", "peer net of B1": "3", "peer net of B2": "3"}},
		{"nid", RuleNID, "10.0.0.[2-11]@tcp", "", map[string]string{"A2": "3", "B1": "3 [] []"}},
		{"peer", RulePeer, "A2", "10.0.0.*@tcp", map[string]string{"B1": "-1 [A2] []", "B2": "-1 [A2] []"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			rails([]string{"A1", "A2", "O1"}, []string{"B1", "B2", "PO"})(w)
			before := state(w)
			addTyped(w, c.typ, c.local, c.remote, 3)
			if diff := cmp.Diff(c.want, differs(before, state(w))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(w.policies.Rules()) != 0 {
				t.Error("shown among the rules that have places")
			}
		})
	}
}

// selection 7
func TestTypedRulePrecedence(t *testing.T) {
	w := newFixture(t)
	rails(a12, b12)(w)
	addTyped(w, RulePeer, "A1", "tcp", 5)
	addTyped(w, RulePeer, "A2", "B1", 1)
	addTyped(w, RuleNID, "10.0.0.[1-20]@tcp", "", 4)
	addTyped(w, RuleNID, "B1", "", 2)
	if err := w.rule("", "B2", "", 9, Append); err != nil {
		t.Fatal(err)
	}
	got := state(w)
	for name, want := range map[string]string{"B1": "4 [A2] []", "B2": "9 [A1] []", "A1": "4"} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
}

// A peer rule is for pairs of a local NI and a peer NI. Other peer rules for the same peer
// NI apply in addition, unless their priority is worse. Rules of the list take precedence
// over all of them.
//
// selection 7, 7 pairs
func TestPeerRulesHoldForPairs(t *testing.T) {
	type rule struct {
		local, remote string
		priority      uint32
	}
	for _, c := range []struct {
		name  string
		rules []rule
		udsp  string
		want  map[string]string
	}{
		{"two pairs of one peer NI", []rule{{"A1", "B1", 0}, {"A2", "B1", 0}}, "", map[string]string{"B1": "-1 [A1 A2] []", "B2": "-1 [] []"}},
		{"crosswise", []rule{{"A1", "B1", 0}, {"A2", "B2", 0}}, "", map[string]string{"B1": "-1 [A1] []", "B2": "-1 [A2] []"}},
		{"one for all, one beside it", []rule{{"A1", "10.0.0.*@tcp", 3}, {"A2", "B1", 3}}, "", map[string]string{"B1": "-1 [A1 A2] []", "B2": "-1 [A1] []"}},
		{"the better priority", []rule{{"A1", "10.0.0.*@tcp", 3}, {"A2", "B1", 1}}, "", map[string]string{"B1": "-1 [A2] []", "B2": "-1 [A1] []"}},
		{"the same NI twice", []rule{{"A1", "10.0.0.*@tcp", 0}, {"A1", "B1", 0}}, "", map[string]string{"B1": "-1 [A1] []", "B2": "-1 [A1] []"}},
		{"an NI that is not there", []rule{{"9.9.9.9@tcp", "B1", 0}, {"A2", "B1", 0}}, "", map[string]string{"B1": "-1 [A2] []"}},
		{"below a rule of the other kind", []rule{{"A2", "B1", 0}}, "A1", map[string]string{"B1": "-1 [A1] []"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			rails(a12, b12)(w)
			for _, r := range c.rules {
				addTyped(w, RulePeer, r.local, r.remote, r.priority)
			}
			if c.udsp != "" {
				if err := w.rule(c.udsp, "B1", "", 0, Append); err != nil {
					t.Fatal(err)
				}
			}
			got := state(w)
			for name, want := range c.want {
				if got[name] != want {
					t.Errorf("%s: %s, want %s", name, got[name], want)
				}
			}
		})
	}
}

// Pairs change the chosen path. For a peer that is not multi-rail, the first NI in the
// pairs is used, or another one while its link is down.
//
// selection 7 pairs
func TestPairsChoose(t *testing.T) {
	single := func(w *fixture) {
		w.local("A1", "A2")
		w.peer(Identity{}, "B1")
	}
	both := [][2]string{{"A2", "B1"}, {"A1", "B1"}}
	for _, c := range []struct {
		name  string
		given func(*fixture)
		pairs [][2]string
		down  []string
		want  []string
	}{
		{"without pairs", rails(a12, b12), nil, nil, []string{"A1 B1", "A2 B2", "A1 B1"}},
		{"the other way round", rails(a12, b12), [][2]string{{"A1", "B2"}, {"A2", "B1"}}, nil, []string{"A1 B2", "A2 B1", "A1 B2"}},
		{"a peer that is not Multi-Rail", single, both, nil, []string{"A2 B1", "A2 B1"}},
		{"the link of its first NI is down", single, both, []string{"A2"}, []string{"A1 B1", "A1 B1"}},
		{"the links of all its NIs are down", single, both, []string{"A2", "A1"}, []string{"A2 B1", "A2 B1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.given(w)
			for _, p := range c.pairs {
				addTyped(w, RulePeer, p[0], p[1], 0)
			}
			for _, name := range c.down {
				w.nis[name].Fatal.Store(true)
			}
			if diff := cmp.Diff(c.want, w.sends(len(c.want), w.to("B1"))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// selection 7
func TestTypedRulesKeepTheirIDs(t *testing.T) {
	w := newFixture(t)
	ids := func() (all []int) {
		for _, r := range w.policies.Typed() {
			all = append(all, r.ID)
		}
		return all
	}
	expect := func(want ...int) {
		t.Helper()
		if diff := cmp.Diff(want, ids()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	for k, net := range []string{"tcp", "tcp1", "tcp2"} {
		if id := addTyped(w, RuleNet, net, "", 0); id != k {
			t.Errorf("id %d", id)
		}
	}
	remove := func(id int, typ RuleType, local, remote string) error {
		return w.policies.DeleteTyped(typed(w, id, typ, local, remote, 0))
	}
	if err := remove(2, RuleNet, "", ""); err != nil {
		t.Error(err)
	}
	if id := addTyped(w, RulePeer, "A1", "B1", 0); id != 3 {
		t.Errorf("an id was used again: %d", id)
	}
	expect(0, 1, 3)
	for _, c := range []struct {
		name          string
		id            int
		typ           RuleType
		local, remote string
		want          error
	}{
		{"id of another type", 3, RuleNet, "", "", ErrNotFound},
		{"id and the pattern of another", 0, RuleNet, "tcp1", "", ErrNotFound},
		{"unknown id", 9, RuleNet, "", "", ErrNotFound},
		{"unknown pattern", AnyID, RuleNet, "tcp9", "", ErrNotFound},
		{"nothing", AnyID, RuleNet, "", "", ErrInvalid},
		{"pattern", AnyID, RuleNet, "tcp1", "", nil},
		{"id and pattern", 0, RuleNet, "tcp", "", nil},
		{"pair", AnyID, RulePeer, "A1", "B1", nil},
	} {
		if err := remove(c.id, c.typ, c.local, c.remote); !errors.Is(err, c.want) {
			t.Errorf("delete %s: %v", c.name, err)
		}
	}
	expect()
	// IDs as after an import.
	for _, id := range []int{12, 4} {
		if got, err := w.policies.AddTyped(TypedRule{ID: id, Type: RuleNet, Pattern: w.pattern(map[int]string{12: "tcp", 4: "tcp1"}[id])}); err != nil || got != id {
			t.Errorf("%d, %v", got, err)
		}
	}
	if id := addTyped(w, RuleNet, "o2ib", "", 0); id != 13 {
		t.Errorf("id %d", id)
	}
	expect(4, 12, 13)
	// The free IDs are used after the largest ID was used.
	addTypedID := func(id int, pattern string) int {
		t.Helper()
		got, err := w.policies.AddTyped(TypedRule{ID: id, Type: RuleNet, Pattern: w.pattern(pattern)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	addTypedID(IDMax, "tcp20")
	addTypedID(0, "tcp21")
	for k, want := range []int{1, 2, 3, 5} {
		if id := addTypedID(AnyID, fmt.Sprintf("tcp%d", 30+k)); id != want {
			t.Errorf("id %d, want %d", id, want)
		}
	}
}

// selection 7
func TestTypedRulesRefused(t *testing.T) {
	w := newFixture(t)
	addTyped(w, RuleNet, "tcp", "", 1)
	for _, c := range []struct {
		name string
		rule TypedRule
		want error
	}{
		{"the same match", typed(w, AnyID, RuleNet, "tcp", "", 2), ErrExists},
		{"the same id", typed(w, 0, RuleNet, "tcp7", "", 2), ErrExists},
		{"an id below 0", typed(w, -7, RuleNet, "tcp7", "", 2), ErrInvalid},
		{"an id beyond the largest", typed(w, IDMax+1, RuleNet, "tcp7", "", 2), ErrInvalid},
		{"net with an address", typed(w, AnyID, RuleNet, "A1", "", 0), ErrInvalid},
		{"nid without an address", typed(w, AnyID, RuleNID, "tcp", "", 0), ErrInvalid},
		{"no pattern", typed(w, AnyID, RuleNID, "", "", 0), ErrInvalid},
		{"half a pair", typed(w, AnyID, RulePeer, "A1", "", 0), ErrInvalid},
		{"a pair with a pattern", TypedRule{ID: AnyID, Type: RulePeer, Pattern: w.pattern("tcp")}, ErrInvalid},
		{"unknown type", TypedRule{ID: AnyID, Type: 9, Pattern: w.pattern("tcp")}, ErrInvalid},
	} {
		if _, err := w.policies.AddTyped(c.rule); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if RulePeer.String() != "peer" || RuleType(9).String() != "rule type 9" {
		t.Error("names of types")
	}
}
