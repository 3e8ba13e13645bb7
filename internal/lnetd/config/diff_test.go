package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// stepTexts returns the texts of steps. A peer that changes is shown with its NIDs before and
// after.
func stepTexts(steps []Step) []string {
	var texts []string
	for _, s := range steps {
		text := s.String()
		if c, ok := s.(Change[Peer]); ok && c.From != nil && c.To != nil {
			text += fmt.Sprintf(" %v %v", c.From.Others, c.To.Others)
		}
		texts = append(texts, text)
	}
	return texts
}

func TestDiff(t *testing.T) {
	const (
		tcp  = "net: [{net type: tcp, interfaces: [eth0]}]\n"
		both = "net: [{net type: tcp, interfaces: [eth0]}, {net type: tcp1, interfaces: [eth1]}]\n"
		// all is a node with something of every kind.
		all = both + `
peer: [{primary nid: 10.0.0.2@tcp, peer ni: [{nid: 10.0.1.2@tcp1}]}, {primary nid: 10.0.0.3@tcp}]
route: [{net: tcp5, gateway: 10.0.0.2@tcp}, {net: tcp6, gateway: 10.0.0.9@tcp}]
udsp: [{idx: 0, src: tcp, priority: 1}]
routing: {enable: 1}
buffers: {tiny: 5}
`
	)
	for _, tt := range []struct {
		name       string
		have, want string
		steps      []string
	}{
		{"nothing", "", "", nil},
		{"the same", all, all, nil},
		{"the same elsewhere in the file", all, "\n\n" + all, nil},
		{"all of it", "", all, []string{
			"change policies", "add NI tcp(eth0)", "add NI tcp1(eth1)", "add peer 10.0.0.2@tcp", "add peer 10.0.0.3@tcp",
			"add route to tcp5 through 10.0.0.2@tcp", "add route to tcp6 through 10.0.0.9@tcp",
			"change router buffers", "change routing",
		}},
		{"nothing of it", all, "", []string{
			"remove route to tcp6 through 10.0.0.9@tcp", "remove route to tcp5 through 10.0.0.2@tcp",
			"remove peer 10.0.0.3@tcp", "remove peer 10.0.0.2@tcp", "remove NI tcp1(eth1)", "remove NI tcp(eth0)",
			"change policies", "change router buffers", "change routing",
		}},
		{"an NI more", tcp, both, []string{"add NI tcp1(eth1)"}},
		{"the order of NIs", both, "net: [{net type: tcp1, interfaces: [eth1]}, {net type: tcp, interfaces: [eth0]}]\n",
			[]string{"change the order of NIs"}},
		{"an NI before the others", tcp, "net: [{net type: tcp1, interfaces: [eth1]}, {net type: tcp, interfaces: [eth0]}]\n",
			[]string{"add NI tcp1(eth1)", "change the order of NIs"}},
		{"NIs of a net together", "net: [{net type: tcp, interfaces: [eth0]}, {net type: tcp1, interfaces: [eth1]}, {net type: tcp, interfaces: [eth2]}]\n",
			"net: [{net type: tcp, interfaces: [eth0, eth2]}, {net type: tcp1, interfaces: [eth1]}]\n", nil},
		{"a tunable of an NI", tcp, strings.Replace(tcp, "]}", "], tunables: {credits: 9}}", 1),
			[]string{"remove NI tcp(eth0)", "add NI tcp(eth0)"}},
		{"an option of an NI", tcp, strings.Replace(tcp, "]}", "], lnd tunables: {tos: 9}}", 1),
			[]string{"remove NI tcp(eth0)", "add NI tcp(eth0)"}},
		{"parameters between what goes and what comes", tcp, "net: [{net type: tcp, interfaces: [eth1]}]\nglobal: {retry_count: 1}\n",
			[]string{"remove NI tcp(eth0)", "change parameters", "add NI tcp(eth1)"}},
		// When a net loses its last NI, everything that depends on it is removed temporarily.
		{"a net for a moment", all, strings.Replace(all, "interfaces: [eth1]", "interfaces: [eth2]", 1), []string{
			"remove route to tcp5 through 10.0.0.2@tcp", "remove peer 10.0.0.2@tcp", "remove NI tcp1(eth1)",
			"add NI tcp1(eth2)", "add peer 10.0.0.2@tcp", "add route to tcp5 through 10.0.0.2@tcp",
		}},
		{"the first NI of a net that a peer has a NID on", tcp + "peer: [{primary nid: 1.0.0.1@tcp1}]\n", both + "peer: [{primary nid: 1.0.0.1@tcp1}]\n",
			[]string{"remove peer 1.0.0.1@tcp1", "add NI tcp1(eth1)", "add peer 1.0.0.1@tcp1"}},
		{"one of two NIs of a net", strings.Replace(all, "[eth1]", "[eth1, eth2]", 1), all, []string{"remove NI tcp1(eth2)"}},
		{"a net that routes lead to", tcp + "route: [{net: tcp1, gateway: 10.0.0.9@tcp}]\n", both + "route: [{net: tcp1, gateway: 10.0.0.9@tcp}]\n",
			[]string{"remove route to tcp1 through 10.0.0.9@tcp", "add NI tcp1(eth1)", "add route to tcp1 through 10.0.0.9@tcp"}},
		{"a figure of a route", tcp + "route: [{net: tcp5, gateway: 10.0.0.9@tcp}]\n", tcp + "route: [{net: tcp5, gateway: 10.0.0.9@tcp, hop: 2}]\n",
			[]string{"remove route to tcp5 through 10.0.0.9@tcp", "add route to tcp5 through 10.0.0.9@tcp"}},
		// A NID never belongs to two peers.
		{"a NID goes to another peer", "peer: [{primary nid: 1.0.0.1@tcp, peer ni: [{nid: 1.0.0.2@tcp}, {nid: 1.0.0.3@tcp}]}, {primary nid: 1.0.0.4@tcp}]\n",
			"peer: [{primary nid: 1.0.0.1@tcp, peer ni: [{nid: 1.0.0.2@tcp}]}, {primary nid: 1.0.0.4@tcp, peer ni: [{nid: 1.0.0.3@tcp}]}]\n",
			[]string{
				"change peer 1.0.0.1@tcp [1.0.0.2@tcp 1.0.0.3@tcp] [1.0.0.2@tcp]",
				"change peer 1.0.0.4@tcp [] [1.0.0.3@tcp]",
			}},
		{"the order of NIDs", "peer: [{primary nid: 1.0.0.1@tcp, peer ni: [{nid: 1.0.0.2@tcp}, {nid: 1.0.0.3@tcp}]}]\n",
			"peer: [{primary nid: 1.0.0.1@tcp, peer ni: [{nid: 1.0.0.3@tcp}, {nid: 1.0.0.2@tcp}]}]\n", nil},
		{"a peer that occurs twice", "", "peer: [{primary nid: 1.0.0.1@tcp, peer ni: [{nid: 1.0.0.2@tcp}]}, {primary nid: 1.0.0.1@tcp, peer ni: [{nid: 1.0.0.3@tcp}]}]\n",
			[]string{"add peer 1.0.0.1@tcp"}},
		{"no longer Multi-Rail", "peer: [{primary nid: 1.0.0.1@tcp, Multi-Rail: true}]\n", "peer: [{primary nid: 1.0.0.1@tcp, Multi-Rail: false}]\n",
			[]string{"remove peer 1.0.0.1@tcp", "add peer 1.0.0.1@tcp"}},
		// The peer of a gateway cannot change.
		{"a gateway's NIDs", tcp + "peer: [{primary nid: 1.0.0.1@tcp}]\nroute: [{net: tcp5, gateway: 1.0.0.1@tcp}]\n",
			tcp + "peer: [{primary nid: 1.0.0.1@tcp, peer ni: [{nid: 1.0.0.2@tcp}]}]\nroute: [{net: tcp5, gateway: 1.0.0.1@tcp}]\n",
			[]string{"remove route to tcp5 through 1.0.0.1@tcp", "change peer 1.0.0.1@tcp [] [1.0.0.2@tcp]", "add route to tcp5 through 1.0.0.1@tcp"}},
		{"policies", "udsp: [{idx: 0, src: tcp, priority: 1}]\n", "udsp: [{idx: 0, src: tcp, priority: 2}]\n", []string{"change policies"}},
		{"typed rules", "", "selection: [{id: 4, type: net, net: tcp*, priority: 0}]\n", []string{"change policies"}},
		{"the kind of router", "routing: {enable: 1}\n", "lnetd: {forwarding: enabled}\n", nil},
		{"a driver that runs", both, both + "lnetd: {socklnd: {nagle: 1}}\n", []string{
			"remove NI tcp1(eth1)", "remove NI tcp(eth0)", "change the options of tcp nets", "add NI tcp(eth0)", "add NI tcp1(eth1)",
		}},
		{"a peer that gets locked", "peer: [{primary nid: 1.0.0.1@tcp}]\n", "peer: [{primary nid: 1.0.0.1@tcp}]\nlnetd: {lock_prim: [1.0.0.1@tcp]}\n",
			[]string{"remove peer 1.0.0.1@tcp", "add peer 1.0.0.1@tcp"}},
		{"a driver that does not", tcp, tcp + "lnetd: {o2iblnd: {ntx: 1}}\n", []string{"change the options of o2ib nets"}},
		{"what is the default", tcp, tcp + "lnetd: {socklnd: {nagle: 0}}\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have, want := mustParse(t, tt.have).State, mustParse(t, tt.want).State
			if diff := cmp.Diff(tt.steps, stepTexts(Diff(&have, &want, testDrivers))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// KeepDrivers keeps a driver with NIs that must not be replaced. Other drivers change.
func TestKeepDrivers(t *testing.T) {
	have := mustParse(t, "net: [{net type: tcp, interfaces: [eth0]}]\nlnetd: {socklnd: {nagle: 1}, o2iblnd: {ntx: 1}}\n").State
	want := mustParse(t, "lnetd: {socklnd: {min_reconnectms: 3}}\n").State
	var out []string
	for _, s := range KeepDrivers(&have, &want) {
		out = append(out, s.String())
	}
	if diff := cmp.Diff([]string{"change the options of tcp nets"}, out); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[lnet.NetType]Values{lnet.TypeTCP: {"nagle": "1"}}, want.Drivers); diff != "" {
		t.Error(diff)
	}
	if have = (State{NIs: have.NIs}); len(KeepDrivers(&have, &want)) != 1 || len(want.Drivers) != 0 {
		t.Errorf("a driver that has its defaults: %v", want.Drivers)
	}
}

// model is a node that checks steps as strictly as a real one: it returns an error if something
// is missing or in the way.
type model struct{ State }

func (m *model) apply(s Step) error {
	switch s := s.(type) {
	case Change[NI]:
		return m.changeNI(s)
	case Change[Order]:
		return m.arrange(*s.To)
	case Change[Peer]:
		return m.changePeer(s)
	case Change[Route]:
		return m.changeRoute(s)
	case Change[Policies]:
		m.Policies = *s.To
	case Change[Parameters]:
		m.Parameters = *s.To
	case Change[node.Buffers]:
		m.Buffers = *s.To
	case Change[Routing]:
		m.Routing = *s.To
	case DriverChange:
		m.Drivers = map[lnet.NetType]Values{lnet.TypeTCP: m.Drivers[lnet.TypeTCP], s.Type: s.To}
	}
	return nil
}

func (m *model) on(n lnet.Net) bool {
	return slices.ContainsFunc(m.NIs, func(i NI) bool { return i.Net == n })
}

func (m *model) gateway(nids ...lnet.NID) bool {
	return slices.ContainsFunc(m.Routes, func(r Route) bool { return slices.Contains(nids, r.Gateway) })
}

func (m *model) changeNI(c Change[NI]) error {
	if c.To != nil {
		if slices.ContainsFunc(m.Routes, func(r Route) bool { return r.Net == c.To.Net }) {
			return fmt.Errorf("%s: routes lead there", c)
		}
		if slices.ContainsFunc(m.NIs, func(i NI) bool { return i.key() == c.To.key() }) {
			return fmt.Errorf("%s: is there", c)
		}
		m.NIs = append(slices.Clone(m.NIs), *c.To)
		return nil
	}
	k := slices.IndexFunc(m.NIs, func(i NI) bool { return i.equal(c.From) })
	if k < 0 {
		return fmt.Errorf("%s: is not there", c)
	}
	m.NIs = slices.Delete(slices.Clone(m.NIs), k, k+1)
	if m.on(c.From.Net) {
		return nil
	}
	for _, r := range m.Routes {
		if r.Gateway.Net() == c.From.Net {
			return fmt.Errorf("%s: takes a route along", c)
		}
	}
	for _, p := range m.Peers {
		if slices.ContainsFunc(p.nids(), func(n lnet.NID) bool { return n.Net() == c.From.Net }) {
			return fmt.Errorf("%s: takes a peer along", c)
		}
	}
	return nil
}

func (m *model) arrange(o Order) error {
	if len(o) != len(m.NIs) {
		return fmt.Errorf("%d NIs in the order of %d", len(m.NIs), len(o))
	}
	for _, i := range o {
		if !slices.ContainsFunc(m.NIs, func(has NI) bool { return has.key() == i.key() }) {
			return fmt.Errorf("the order of NIs: %s is not there", &i)
		}
	}
	at := func(i NI) int { return slices.IndexFunc(o, func(p NI) bool { return p.key() == i.key() }) }
	m.NIs = slices.SortedFunc(slices.Values(m.NIs), func(a, b NI) int { return at(a) - at(b) })
	return nil
}

func (m *model) changePeer(c Change[Peer]) error {
	peers := slices.Clone(m.Peers)
	if c.From != nil {
		k := slices.IndexFunc(peers, func(p Peer) bool { return p.equal(c.From) })
		if k < 0 {
			return fmt.Errorf("%s: is not there as it should be", c)
		}
		if m.gateway(c.From.nids()...) {
			return fmt.Errorf("%s: is a gateway", c)
		}
		peers = slices.Delete(peers, k, k+1)
	}
	if c.To != nil {
		if m.gateway(c.To.nids()...) {
			return fmt.Errorf("%s: becomes a gateway", c)
		}
		for _, p := range peers {
			if slices.ContainsFunc(p.nids(), func(n lnet.NID) bool { return slices.Contains(c.To.nids(), n) }) {
				return fmt.Errorf("%s: a NID is another's", c)
			}
		}
		peers = append(peers, *c.To)
	}
	m.Peers = peers
	return nil
}

func (m *model) changeRoute(c Change[Route]) error {
	if c.To != nil {
		if !m.on(c.To.Gateway.Net()) || m.on(c.To.Net) {
			return fmt.Errorf("%s: leads nowhere", c)
		}
		m.Routes = append(slices.Clone(m.Routes), *c.To)
		return nil
	}
	k := slices.IndexFunc(m.Routes, func(r Route) bool { return r.equal(c.From) })
	if k < 0 {
		return fmt.Errorf("%s: is not there", c)
	}
	m.Routes = slices.Delete(slices.Clone(m.Routes), k, k+1)
	return nil
}

// drawState draws a state from few values, so that two states have much in common.
func drawState(t *rapid.T, name string) State {
	s := State{Parameters: Parameters{RouterSensitivity: rapid.IntRange(0, 1).Draw(t, name+" parameters")}}
	s.Routing = Routing(rapid.IntRange(0, 2).Draw(t, name+" routing"))
	s.Buffers.Tiny = rapid.IntRange(0, 1).Draw(t, name+" buffers")
	if rapid.Bool().Draw(t, name+" policies") {
		s.Rules = []selection.Rule{{Priority: rapid.Uint32Range(0, 1).Draw(t, name+" priority")}}
	}
	if rapid.Bool().Draw(t, name+" driver") {
		s.Drivers = map[lnet.NetType]Values{lnet.TypeTCP: {"nagle": "1"}}
	}
	net := func(n int) lnet.Net { return lnet.MakeNet(lnet.TypeTCP, uint16(n)) }
	on := map[lnet.Net]bool{}
	for _, n := range rapid.Permutation([]int{0, 1, 2}).Draw(t, name+" nets") {
		for _, device := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, name+" NI") {
				i := NI{Net: net(n), Device: device}
				i.Tunables.PeerTimeout = time.Duration(rapid.IntRange(0, 1).Draw(t, name+" tunable"))
				s.NIs, on[i.Net] = append(s.NIs, i), true
			}
		}
	}
	free := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}).Draw(t, name+" NIDs")
	nid := func(k int) lnet.NID { return lnet.NIDFromNumber(net(k%3), uint32(1+k)) }
	for rapid.Bool().Draw(t, name+" peer") && len(free) >= 3 {
		p := Peer{Primary: nid(free[0]), Where: name}
		for _, k := range free[1:rapid.IntRange(1, 3).Draw(t, name+" peer's NIDs")] {
			p.Others = append(p.Others, nid(k))
		}
		free = free[1+len(p.Others):]
		s.Peers = append(s.Peers, p)
	}
	for n := range 5 {
		for k := range 9 {
			r := Route{Net: net(n), Gateway: nid(k), Where: name}
			if on[r.Net] || !on[r.Gateway.Net()] || r.Gateway.Net() == r.Net || !rapid.Bool().Draw(t, name+" route") {
				continue
			}
			r.Priority = rapid.Uint32Range(0, 1).Draw(t, name+" route's priority")
			s.Routes = append(s.Routes, r)
		}
	}
	return s
}

// The steps from one state lead to another on a node that rejects invalid steps. The inverses
// lead back from every intermediate state. There are no steps between equal states.
func TestDiffLeadsThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawState(t, "a"), drawState(t, "b")
		steps := Diff(&a, &b, testDrivers)
		m := model{a}
		for _, s := range steps {
			if err := m.apply(s); err != nil {
				t.Fatalf("%v\nof %q", err, stepTexts(steps))
			}
		}
		same(t, "there", &m.State, &b)

		m = model{a}
		failed := rapid.IntRange(0, len(steps)).Draw(t, "steps that are taken")
		for _, s := range steps[:failed] {
			if err := m.apply(s); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range slices.Backward(steps[:failed]) {
			if err := m.apply(s.Inverse()); err != nil {
				t.Fatalf("back: %v\nof %q", err, stepTexts(steps[:failed]))
			}
		}
		if err := m.arrange(a.NIs); err != nil { // removed NIs are behind the others
			t.Fatal(err)
		}
		same(t, "back", &m.State, &a)
	})
}

// same fails unless both states are equal and no step is needed between them.
func same(t *rapid.T, what string, have, want *State) {
	for _, p := range [][2]*State{{have, want}, {want, have}, {have, have}} {
		if steps := Diff(p[0], p[1], testDrivers); len(steps) > 0 {
			t.Fatalf("%s: still to do: %q", what, stepTexts(steps))
		}
	}
	if len(have.NIs) != len(want.NIs) || len(have.Peers) != len(want.Peers) || len(have.Routes) != len(want.Routes) ||
		(have.Routing == RoutingOff) != (want.Routing == RoutingOff) || have.Buffers != want.Buffers || have.Parameters != want.Parameters ||
		len(have.Rules) != len(want.Rules) || len(have.Drivers[lnet.TypeTCP]) != len(want.Drivers[lnet.TypeTCP]) {
		t.Fatalf("%s: %+v\n%+v", what, have, want)
	}
}

// phase returns the position of a step's kind in the order of additions.
func phase(s Step) int {
	switch s := s.(type) {
	case DriverChange:
		return 1 // the NIs on the driver's nets are removed meanwhile
	case Change[NI], Change[Order]:
		return 2
	case Change[Peer]:
		return 3
	case Change[Route]:
		return 4
	case Change[Policies]:
		return 1
	case Change[node.Buffers]:
		return 5
	case Change[Routing]:
		return 6
	default:
		panic(fmt.Sprintf("%T", s))
	}
}

// Removals are in the opposite order of additions, and come first.
func TestOrderOfSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawState(t, "a"), drawState(t, "b")
		a.Parameters.RouterSensitivity, b.Parameters.RouterSensitivity = 0, 1 // separates the two halves
		steps := Diff(&a, &b, testDrivers)
		middle := slices.IndexFunc(steps, func(s Step) bool { _, ok := s.(Change[Parameters]); return ok })
		goes, comes := steps[:middle], steps[middle+1:]
		down := func(a, b Step) int { return phase(b) - phase(a) }
		up := func(a, b Step) int { return phase(a) - phase(b) }
		if !slices.IsSortedFunc(goes, down) || !slices.IsSortedFunc(comes, up) {
			t.Fatalf("%q", stepTexts(steps))
		}
	})
}
