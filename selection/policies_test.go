package selection

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

func listed(p *Policies) []string {
	var all []string
	for _, r := range p.Rules() {
		all = append(all, r.String())
	}
	return all
}

// selection 6.1 refused
func TestInvalidRules(t *testing.T) {
	for _, c := range []struct {
		src, dst, rte string
		priority      uint32
	}{
		{"", "", "", 0}, {"", "", "g1", 0}, {"A1", "", "g1", 0}, {"A1", "B1", "g1", 0}, {"A1", "B1", "", 3}, {"", "R1", "g1", 3},
	} {
		w := newFixture(t)
		if err := w.rule(c.src, c.dst, c.rte, c.priority, Append); !errors.Is(err, ErrInvalid) || len(w.policies.Rules()) != 0 {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// selection 6.3 (2)-(3), 6.6 (1), 6.6 (3)
func TestRulesHavePlaces(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		dst   string
		place int
		want  []string
	}{
		{"tcp1", Append, []string{"tcp1"}},
		{"tcp2", 0, []string{"tcp2", "tcp1"}},
		{"tcp3", 1, []string{"tcp2", "tcp3", "tcp1"}},
		{"tcp4", 99, []string{"tcp2", "tcp3", "tcp1", "tcp4"}},
		{"tcp5", 4, []string{"tcp2", "tcp3", "tcp1", "tcp4", "tcp5"}},
	} {
		if err := w.rule("", c.dst, "", 0, c.place); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range w.policies.Rules() {
			got = append(got, r.Dst.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s at %d: (-want +got)\n%s", c.dst, c.place, diff)
		}
	}
	if err := w.rule("", "tcp3", "", 9, 0); err != nil {
		t.Errorf("another priority: %v", err)
	}
	if err := w.rule("", "tcp3", "", 9, 0); !errors.Is(err, ErrExists) {
		t.Errorf("the same again: %v", err)
	}
	for _, place := range []int{-1, 5} {
		if err := w.policies.Delete(place); !errors.Is(err, ErrNotFound) {
			t.Errorf("delete %d: %v", place, err)
		}
	}
	if err := w.policies.Delete(0); err != nil {
		t.Fatal(err)
	}
	want := []string{"--dst tcp3 --priority 9", "--dst tcp1 --priority 0", "--dst tcp4 --priority 0", "--dst tcp5 --priority 0"}
	if diff := cmp.Diff(want, listed(&w.policies)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := w.policies.Delete(2); err != nil {
		t.Fatal(err)
	}
	want = slices.Delete(want, 2, 3)
	if diff := cmp.Diff(want, listed(&w.policies)); diff != "" {
		t.Errorf("one in the middle: (-want +got)\n%s", diff)
	}
	if w.policies.DeleteAll(); len(w.policies.Rules()) != 0 {
		t.Error("rules are left")
	}
}

// state returns the attributes of a fixture's objects that rules set.
func state(w *fixture) map[string]string {
	s := make(map[string]string)
	short := func(nids []lnet.NID) (names []string) {
		for _, n := range nids {
			for name, text := range named {
				if text == n.String() {
					names = append(names, name)
				}
			}
		}
		return names
	}
	for _, n := range w.view.Local.Nets {
		s["net "+n.ID.String()] = fmt.Sprint(priorityValue(n.Priority()))
		for _, i := range n.NIs {
			s[i.Owner.(string)] = fmt.Sprint(priorityValue(i.Priority()))
		}
	}
	for name, p := range w.peerNIs {
		s[name] = fmt.Sprint(priorityValue(p.Priority()), " ", short(p.Sources()), " ", short(p.Routers()))
		s["peer net of "+name] = fmt.Sprint(priorityValue(w.peerNet(name).Priority()))
	}
	return s
}

// differs returns the attributes that rules have changed.
func differs(before, after map[string]string) map[string]string {
	d := make(map[string]string)
	for k, v := range after {
		if before[k] != v {
			d[k] = v
		}
	}
	return d
}

// selection 6.1, 6.3 (4), 6.4 (2), 6.4 (4), 6.5 events (1), 6.5 effects (1)-(4), 6.6 (2)
func TestRulesApplyToExistingObjects(t *testing.T) {
	for _, c := range []struct {
		name          string
		src, dst, rte string
		want          map[string]string
	}{
		{"local net", "tcp", "", "", map[string]string{"net tcp": "0"}},
		{"local NI", "A2", "", "", map[string]string{"A2": "0"}},
		{"peer net", "", "tcp", "", map[string]string{"peer net of B1": "0", "peer net of B2": "0", "peer net of g1": "0", "peer net of g2": "0"}},
		{"peer NI", "", "B2", "", map[string]string{"B2": "0 [] []"}},
		{"pair", "A2", "B1", "", map[string]string{"B1": "-1 [A2] []"}},
		{"pair of a pattern", "10.0.0.*@tcp", "B1", "", map[string]string{"B1": "-1 [A1 A2] []"}},
		{"pair of nets", "tcp", "o2ib", "", map[string]string{"R1": "-1 [A1 A2] []"}},
		{"pair without such an NI", "T1", "B1", "", map[string]string{}},
		{"router", "", "R1", "g2", map[string]string{"R1": "-1 [] [g2]"}},
		{"routers of a net", "", "o2ib", "tcp", map[string]string{"R1": "-1 [] [g1 g2]"}},
		{"not a gateway", "", "R1", "B1", map[string]string{}},
		{"another net", "", "gni", "", map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.routed(2, "R1")
			w.local("A1", "A2")
			w.multiRail("B1", "B2")
			before := state(w)
			if err := w.rule(c.src, c.dst, c.rte, 0, Append); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, differs(before, state(w))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			// Deleting the rule restores everything.
			if err := w.policies.Delete(0); err != nil {
				t.Fatal(err)
			}
			w.apply()
			if diff := cmp.Diff(before, state(w)); diff != "" {
				t.Errorf("deleted: (-want +got)\n%s", diff)
			}
		})
	}
}

// A gateway matches by its primary NID only, and once, however many routes it has.
//
// selection 6.4 (4), 6.5 effects (3)
func TestRouterRulesMatchPrimaryNIDs(t *testing.T) {
	for rte, want := range map[string][]lnet.NID{"g1o": {nidOf(t, "g1o")}, "o2ib": {nidOf(t, "g1o")}, "g1": nil, "tcp": nil} {
		w := newFixture(t)
		w.local("A1")
		w.multiRail("R1")
		w.peer(Identity{}, "g1o", "g1")
		w.route("o2ib", "g1")
		w.route("gni", "g1")
		if err := w.rule("", "R1", rte, 0, Append); err != nil {
			t.Fatal(err)
		}
		if got := w.peerNIs["R1"].Routers(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", rte, got, want)
		}
	}
}

// selection 6.5 events (1)-(6), 6.5 effects (4)
func TestRulesApplyToLaterObjects(t *testing.T) {
	build := []func(w *fixture){
		func(w *fixture) { w.local("A1") },
		func(w *fixture) { w.local("A1", "A2", "O1") },
		func(w *fixture) { w.multiRail("B1") },
		func(w *fixture) { w.multiRail("B1", "B2", "PO") },
		func(w *fixture) { w.peer(Identity{}, "R1") },
		func(w *fixture) { w.router("g1", "g1o") },
		func(w *fixture) { w.router("g2") },
	}
	rules := [][3]string{
		{"A2", "B2", ""},
		{"o2ib", "", ""},
		{"O1", "", ""},
		{"", "PO", ""},
		{"", "o2ib", ""},
		{"tcp", "10.0.0.*@tcp", ""},
		{"", "o2ib", "g2"},
		{"A2", "o2ib", ""},
	}
	var want map[string]string
	// The rules are added before step 0, 1, and so on; finally after all steps.
	for at := len(build); at >= 0; at-- {
		w := newFixture(t)
		add := func() {
			for _, r := range rules {
				if err := w.rule(r[0], r[1], r[2], 0, Append); err != nil {
					t.Fatal(err)
				}
			}
		}
		for k, f := range build {
			if k == at {
				add()
			}
			f(w)
		}
		if at == len(build) {
			add()
			want = state(w)
			continue
		}
		if diff := cmp.Diff(want, state(w)); diff != "" {
			t.Errorf("rules before step %d: (-want +got)\n%s", at, diff)
		}
	}
}

// selection 6.5 first, 6.5 effects (2)
func TestPlacesCountAcrossPatterns(t *testing.T) {
	for _, c := range []struct {
		rules [][2]string // src and dst
		want  string      // result for B1
	}{
		{[][2]string{{"", "10.0.0.*@tcp*"}, {"", "B1"}}, "0 [] []"},
		{[][2]string{{"", "B1"}, {"", "10.0.0.*@tcp*"}}, "0 [] []"},
		{[][2]string{{"A1", "tcp*"}, {"A2", "tcp"}}, "-1 [A1] []"},
		{[][2]string{{"A1", "tcp"}, {"A2", "tcp*"}}, "-1 [A1] []"},
		{[][2]string{{"T1", "B1"}, {"A2", "B1"}}, "-1 [A2] []"},
		{[][2]string{{"T1", "B1"}}, "-1 [] []"},
	} {
		w := newFixture(t)
		rails(a12, b12)(w)
		for k, r := range c.rules {
			priority := uint32(0)
			if r[0] == "" {
				priority = uint32(k)
			}
			if err := w.rule(r[0], r[1], "", priority, Append); err != nil {
				t.Fatal(err)
			}
		}
		if got := state(w)["B1"]; got != c.want {
			t.Errorf("%v: %s, want %s", c.rules, got, c.want)
		}
	}
}

// selection 6.5 effects (2), 6.5 rails
// discovery 2.5 (3)
func TestPolicyReplacesPreferredNI(t *testing.T) {
	w := newFixture(t)
	lone(a12, sent)(w)
	if err := w.rule("A2", "B1", "", 0, Append); err != nil {
		t.Fatal(err)
	}
	if got := w.send(w.to("B1")); got != "A2 B1" {
		t.Error(got)
	}
	w.policies.DeleteAll()
	w.apply()
	if s := w.peerNIs["B1"].Sources(); s != nil {
		t.Errorf("left: %v", s)
	}
	first := w.send(w.to("B1"))
	if diff := cmp.Diff(twice(first), w.sends(2, w.to("B1"))); diff != "" {
		t.Errorf("no NI serves: (-want +got)\n%s", diff)
	}
	if err := w.rule("A2", "B1", "", 0, Append); err != nil {
		t.Fatal(err)
	}
	w.multiRail("B1")
	if s := w.peerNIs["B1"].Sources(); !slices.Equal(s, []lnet.NID{nidOf(t, "A2")}) {
		t.Errorf("multi-rail: %v", s)
	}
}

func TestSamePeers(t *testing.T) {
	w := newFixture(t)
	rails(a12, b12)(w)
	compile := func() *Compiled { return w.policies.Compile(w.view.Local, w.view.Routing) }
	if !compile().SamePeers(nil) {
		t.Error("no rules: peers are to be visited")
	}
	if err := w.rule("10.0.0.*@tcp", "B1", "", 0, Append); err != nil {
		t.Fatal(err)
	}
	c := compile()
	if c.SamePeers(nil) || !c.SamePeers(compile()) {
		t.Error("one rule")
	}
	w.local("A1", "A2", "O1")
	if !compile().SamePeers(c) {
		t.Error("an NI that no rule is about")
	}
	w.local("A2")
	if compile().SamePeers(c) {
		t.Error("an NI less that is preferred")
	}
}

func TestManyPreferences(t *testing.T) {
	var nids []lnet.NID
	for k := range uint32(setFrom + 1) {
		nids = append(nids, lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), k+1))
	}
	p := newPreferences(nids)
	for _, n := range nids {
		if !p.has(n) {
			t.Errorf("%s is missing", n)
		}
	}
	if p.has(nidOf(t, "O1")) || !slices.Equal(p.list(), nids) {
		t.Error("too many")
	}
}
