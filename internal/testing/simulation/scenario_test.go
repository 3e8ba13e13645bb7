package simulation

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Members share a rail, or a net, or are joined by routers.
func TestSharedRail(t *testing.T) {
	for _, c := range []struct {
		name    string
		oneNet  bool
		routers int
		a, b    []bool // absent
		want    int
	}{
		{name: "all there", a: []bool{false, false}, b: []bool{false, false}, want: 0},
		{name: "the second rail", a: []bool{true, false}, b: []bool{false, false}, want: 1},
		{name: "none", a: []bool{true, false}, b: []bool{false, true}, want: -1},
		{name: "one net", oneNet: true, a: []bool{true, false}, b: []bool{false, true}, want: 0},
		{name: "one net, nobody there", oneNet: true, a: []bool{true, false}, b: []bool{true, true}, want: -1},
		{name: "a router between", routers: 1, a: []bool{true, false}, b: []bool{false, true}, want: 0},
		{name: "routers, the same net", routers: 1, a: []bool{true, false}, b: []bool{false, false}, want: 1},
	} {
		s := &scenario{rails: 2, oneNet: c.oneNet, routers: c.routers, nodes: 2}
		if got := s.sharedRail(c.a, c.b); got != c.want {
			t.Errorf("%s: rail %d, want %d", c.name, got, c.want)
		}
		if got := s.allConnected([][]bool{c.b, c.a}); got != (c.want >= 0) {
			t.Errorf("%s: joined %t", c.name, got)
		}
	}
}

// In every scenario any two members can reach each other at the start. Over all scenarios, members get
// each other's NIDs in every way. Members without discovery are configured with them.
func TestScenarios(t *testing.T) {
	var on, off, verify, static, told, routed, rdma, mixed, bridged int
	for seed := range uint64(400) {
		s := newScenario(seed)
		if !s.allConnected(s.absent) {
			t.Errorf("seed %d: members cannot reach each other: %v", seed, s)
		}
		for k, m := range s.modes {
			switch m {
			case discovery.On:
				on++
			case discovery.Off:
				off++
			case discovery.Verify:
				verify++
			case discovery.Static:
				if static++; !s.configured[k] {
					t.Errorf("seed %d: nobody tells member %d: %v", seed, k, s)
				}
			}
			if s.configured[k] {
				told++
			}
		}
		if s.routers > 0 {
			routed++
		}
		switch both := slices.Contains(s.verbs.rails, false); {
		case s.verbs.rails == nil:
		case both && s.routers > 0:
			bridged++
		case both:
			mixed++
		default:
			rdma++
		}
	}
	for what, n := range map[string]int{"on": on, "off": off, "verify": verify, "static": static, "configured": told, "routed": routed, "RDMA alone": rdma, "RDMA beside TCP": mixed, "routers between both": bridged} {
		if n == 0 {
			t.Errorf("%s does not occur", what)
		}
	}
}

// Members use a router's NID on their own net, and any NID of other members.
func TestTowards(t *testing.T) {
	w := &world{scenario: &scenario{rails: 2, routers: 1, homes: [][]int{{0, 1}, {1}}}}
	for k := range 2 {
		m := &member{w: w, index: k}
		for rail := range 2 {
			m.nids = append(m.nids, lnet.NIDFromNumber(w.net(rail), uint32(10*rail+k+1)))
		}
		w.members = append(w.members, m)
	}
	router, end := w.members[0], w.members[1]
	for _, c := range []struct {
		who  *member
		nid  lnet.NID
		want lnet.NID
	}{
		{router, end.nids[1], router.nids[1]},
		{end, router.nids[1], end.nids[1]},
		{end, router.nids[0], end.nids[1]},
	} {
		if got := c.who.nidTowards(c.nid); got != c.want {
			t.Errorf("%v towards %v: %v, want %v", c.who, c.nid, got, c.want)
		}
	}
}

// A peer that has the NIDs of two nodes is a violation. A peer that has those of one node is not.
func TestCheckIdentity(t *testing.T) {
	for _, c := range []struct {
		name string
		nids func(a, b *member) []lnet.NID
		want int
	}{
		{"one node's", func(_, b *member) []lnet.NID { return b.nids }, 0},
		{"two nodes'", func(a, b *member) []lnet.NID { return []lnet.NID{b.nids[0], a.nids[0]} }, 1},
		{"nobody's", func(*member, *member) []lnet.NID { return []lnet.NID{lnet.AnyNID} }, 1},
	} {
		s := newStage()
		var p node.PeerInfo
		for k, nid := range c.nids(s.members[0], s.members[1]) {
			if k == 0 {
				p.Primary = nid
			}
			p.NIs = append(p.NIs, node.PeerNIInfo{NID: nid})
		}
		s.checkIdentity(&life{member: s.members[0]}, &p)
		if s.failures != c.want {
			t.Errorf("%s: %v", c.name, s.result.Failures)
		}
	}
}
