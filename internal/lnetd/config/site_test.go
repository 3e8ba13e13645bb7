package config

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// machineOf returns the loopback interface, eth0 and eth1 with an IPv4 and an IPv6 address each,
// an interface that is down, and one without addresses.
func machineOf() []Interface {
	addrs := func(list ...string) (out []netip.Addr) {
		for _, s := range list {
			out = append(out, netip.MustParseAddr(s))
		}
		return out
	}
	return []Interface{
		{Name: "lo", Addrs: addrs("127.0.0.1", "::1"), Up: true, Loopback: true},
		{Name: "eth9", Addrs: addrs("10.9.9.9")},
		{Name: "eth8", Up: true},
		{Name: "eth0", Addrs: addrs("10.0.0.11", "2001:db8::11"), Up: true},
		{Name: "eth1", Addrs: addrs("10.1.0.12", "2001:db8:1::12", "fe80::1%eth1"), Up: true},
	}
}

// settled returns the NIs of a configuration on that host.
func settled(t *testing.T, text string) ([]string, error) {
	t.Helper()
	c := mustParse(t, text)
	for _, w := range c.Warnings {
		t.Error(w)
	}
	s, err := c.Settle(machineOf())
	var nis []string
	for k := range s.NIs {
		nis = append(nis, s.NIs[k].String())
	}
	return nis, err
}

// Rules in files apply to hosts with certain interfaces or addresses.
//
// lnetctl 10
// lnet-wire 12 (2)
// sanity-lnet 6 (150), 6 (151), 6 (153), 6 (155), 6 (156), 6 (158), 6 (159), 6 (161)
func TestRulesOfASite(t *testing.T) {
	const two = "ip2nets:\n  - {net-spec: tcp, interfaces: {0: eth0, 1: eth1}, ip-range: {0: 10.0.0.11, 1: 10.1.0.12}}\n"
	for _, tt := range []struct {
		name, text string
		want       string // "none" if no rule matches the host
	}{
		{"none stand there", "ip2nets: []\n", ""},
		{"an exact address", "ip2nets: [{net-spec: tcp, ip-range: {0: 10.0.0.11}}]", "tcp(eth0)"},
		{"and its interface", "ip2nets: [{net-spec: tcp, interfaces: {0: eth0}, ip-range: {0: 10.0.0.11}}]", "tcp(eth0)"},
		{"two interfaces", two, "tcp(eth0) tcp(eth1)"},
		{"rules for the net again", two + "  - {net-spec: tcp, ip-range: ['*.*.*.*']}\n  - {net-spec: tcp0, interfaces: [eth0]}\n",
			"tcp(eth0) tcp(eth1)"},
		{"another net", two + "  - {net-spec: tcp2, interfaces: [eth0]}\n", "tcp(eth0) tcp(eth1) tcp2(eth0)"},
		{"a range of hosts", "ip2nets: [{net-spec: tcp, ip-range: {0: '10.0.0.[10-12]'}}]", "tcp(eth0)"},
		{"a list of hosts", "ip2nets: [{net-spec: tcp, ip-range: {0: '10.0.0.[7,11,200]'}}]", "tcp(eth0)"},
		{"an address that nobody has", "ip2nets: [{net-spec: tcp, ip-range: {0: 10.0.0.12}}]", "none"},
		{"a step that passes by", "ip2nets: [{net-spec: tcp, ip-range: {0: '10.0.0.[2-20/2]'}}]", "none"},
		{"an IPv6 address", "ip2nets: [{net-spec: tcp, ip-range: {0: '2001:db8::11'}}]", "tcp(eth0)"},
		{"with its length", "ip2nets: [{net-spec: tcp, ip-range: {0: '2001:db8::11/128'}}]", "tcp(eth0)"},
		{"a prefix", "ip2nets: [{net-spec: tcp, ip-range: {0: '2001:db8::11/64'}}]", "tcp(eth0)"},
		{"half of it", "ip2nets: [{net-spec: tcp, ip-range: {0: '2001:db8::11/32'}}]", "tcp(eth0) tcp(eth1)"},
		{"an eighth of it", "ip2nets: [{net-spec: tcp, ip-range: {0: '2001:db8::11/8'}}]", "tcp(eth0) tcp(eth1)"},
		{"a longer one", "ip2nets: [{net-spec: tcp, ip-range: {0: '2001:db8::/124'}}]", "none"},
		{"a link's own", "ip2nets: [{net-spec: tcp, ip-range: {0: 'fe80::/10'}}]", "tcp(eth1)"},
		{"any IPv4 address", "ip2nets: [{net-spec: tcp, ip-range: {0: '*.*.*.*'}}]", "tcp(eth0) tcp(eth1)"},
		{"the first bytes of an IPv6 address", "ip2nets: [{net-spec: tcp, ip-range: {0: '32.1.*.*'}}]", "none"},
		{"one of several ranges", "ip2nets: [{net-spec: tcp, ip-range: {0: 1.2.3.4, 1: '10.1.*.*'}}]", "tcp(eth1)"},
		{"an interface outside the range", "ip2nets: [{net-spec: tcp, interfaces: [eth0, eth1], ip-range: [10.0.0.11]}]", "none"},
		{"an interface that is not there", "ip2nets: [{net-spec: tcp, interfaces: [eth0, eth7]}]", "none"},
		{"an interface that is down", "ip2nets: [{net-spec: tcp, interfaces: [eth9]}]", "none"},
		{"an address of one that is down", "ip2nets: [{net-spec: tcp, ip-range: [10.9.9.9]}]", "none"},
		{"an interface without address", "ip2nets: [{net-spec: tcp, interfaces: [eth8]}]", "none"},
		{"neither", "ip2nets: [{net-spec: tcp1}]", "tcp1(eth0)"},
		{"one rule of two", "ip2nets: [{net-spec: tcp, interfaces: [eth7]}, {net-spec: tcp, interfaces: ['eth1[0,1]']}]", "tcp(eth1)"},
		{"a pattern of the Multi-Rail design", "net: [{net: tcp, pattern: 10.1.*.*}, {net: tcp, pattern: '*.*.*.*'}]", "tcp(eth1)"},
		{"with its interface", "net: [{net: tcp4, intf: eth0, pattern: 10.0.0.*}]", "tcp4(eth0)"},
		{"a pattern of nobody", "net: [{net: tcp, pattern: 10.9.*.*}]", "none"},
		{"nets beside them", "net: [{net: tcp3, interfaces: [eth0]}]\n" + two, "tcp3(eth0) tcp(eth0) tcp(eth1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := settled(t, tt.text)
			if errors.Is(err, ErrNoRules) {
				got = []string{"none"}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// NIs of a rule have the rule's tunables.
//
// lnetctl 10
func TestTunablesOfRules(t *testing.T) {
	c := mustParse(t, "ip2nets: [{net-spec: tcp, ip-range: ['10.*.*.*'], tunables: {credits: 9}, lnd tunables: {tos: 3}, CPT: '[0]'}]\n")
	s, err := c.Settle(machineOf())
	if err != nil || len(s.NIs) != 2 {
		t.Fatalf("%+v, %v", s.NIs, err)
	}
	for _, i := range s.NIs {
		if i.Tunables.Credits != 9 || i.Tunables.PeerTimeout != -1 || i.Options["tos"] != 3 {
			t.Errorf("%+v", i)
		}
	}
}

// The strings of module parameters have the same effect as the keys of a file.
//
// lnetctl 13 (1), 13 (3)
func TestModuleStringsOfNets(t *testing.T) {
	for _, tt := range []struct{ name, lnetd, want string }{
		{"networks", `networks: "tcp(eth0,eth1), tcp2 , lo"`, "tcp(eth0) tcp(eth1) tcp2"},
		{"empty ones", `networks: "", ip2nets: "", routes: ""`, ""},
		{"an address", `ip2nets: "tcp(eth0) 10.0.0.11"`, "tcp(eth0)"},
		{"two nets", `ip2nets: "tcp(eth0) 10.0.0.*; tcp2(eth1) 10.1.0.* # ours"`, "tcp(eth0) tcp2(eth1)"},
		{"one net twice", `ip2nets: "tcp(eth0) 10.0.0.*; tcp(eth1) 10.1.0.*"`, "tcp(eth0) tcp(eth1)"},
		{"both interfaces", `ip2nets: "tcp(eth0,eth1) [10,11].[0,1].[0,3].[11,12]"`, "tcp(eth0) tcp(eth1)"},
		{"an interface that is not there is left to the driver", `ip2nets: "tcp(eth7) 10.0.0.*"`, "tcp(eth7)"},
		{"the others' addresses", `ip2nets: "tcp(eth0) 10.9.9.9 127.0.0.1; tcp1 10.0.*.*"`, "tcp1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := settled(t, "lnetd: {"+tt.lnetd+"}")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
	for text, want := range map[string]error{
		"lnetd: {ip2nets: tcp 10.9.9.9}":                             lnet.ErrNoMatch,
		"lnetd: {ip2nets: 'tcp(eth0) 10.0.*.*; tcp(eth0) 10.1.*.*'}": nil, // one interface twice on a net
	} {
		if _, err := settled(t, text); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A route whose gateway is a NID of this node makes it a router, unless the configuration says
// whether it is one.
//
// lnetctl 13 (2)
func TestModuleStringOfRoutes(t *testing.T) {
	const (
		eth0   = "net: [{net: tcp, interfaces: [eth0]}, {net: tcp4, nid: 10.1.0.12@tcp4}]\n"
		routes = `lnetd: {routes: "tcp[7,8] 2 10.0.0.[20,21]@tcp:3; o2ib 10.0.0.20"`
	)
	for _, tt := range []struct {
		name, text string
		routes     int
		routing    Routing
	}{
		{"by others", eth0 + routes + "}", 5, RoutingOff},
		{"by others on a machine that finds its net", routes + "}", 5, RoutingOff},
		{"beside those of the file", eth0 + routes + "}\nroute: [{net: tcp9, gateway: 10.0.0.20@tcp}]", 6, RoutingOff},
		{"by an interface", eth0 + "lnetd: {routes: 'tcp7 10.0.0.[11,12]@tcp'}", 1, RoutingAtOnce},
		{"by an NID", eth0 + "lnetd: {routes: 'tcp7 10.1.0.12@tcp4'}", 0, RoutingAtOnce},
		{"by the interface that is found", "lnetd: {routes: 'tcp7 10.0.0.11'}", 0, RoutingAtOnce},
		{"by an address on another net", eth0 + "lnetd: {routes: 'tcp7 10.0.0.11@tcp1'}", 1, RoutingOff},
		{"by another interface", eth0 + "lnetd: {routes: 'tcp7 10.1.0.12@tcp'}", 1, RoutingOff},
		{"but it is none", eth0 + "lnetd: {routes: 'tcp7 10.0.0.11', forwarding: disabled}", 0, RoutingOff},
		{"and it is one", eth0 + "lnetd: {routes: 'tcp7 10.0.0.11'}\nrouting: {enable: 1}", 0, RoutingOn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, tt.text)
			s, err := c.Settle(machineOf())
			if err != nil || len(s.Routes) != tt.routes || s.Routing != tt.routing {
				t.Errorf("%d routes, routing %d, %v: want %d, %d", len(s.Routes), s.Routing, err, tt.routes, tt.routing)
			}
		})
	}
	s, err := new(mustParse(t, eth0+routes+"}")).Settle(machineOf())
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Routes[0]; r.Net.String() != "tcp7" || r.Gateway.String() != "10.0.0.20@tcp" || r.Hops != 2 || r.Priority != 3 ||
		r.Where != "f:2: lnetd.routes" {
		t.Errorf("%+v", r)
	}
}

// lnetctl 10, 13 (1)-(3)
func TestErrorsOfASite(t *testing.T) {
	testErrors(t, []errorTest{
		{"no net-spec", "ip2nets: [{interfaces: [a]}]\n", []string{`f:1: ip2nets[0]: the key "net-spec" is missing`}},
		{"unknown net", "ip2nets: [{net-spec: foo}]\n", []string{"f:1: ip2nets[0].net-spec: "}},
		{"lo", "ip2nets: [{net-spec: lo}]\n", []string{"f:1: ip2nets[0].net-spec: every node has this NI"}},
		{"items", "ip2nets: [{net-spec: tcp, local NI(s): []}]\n", []string{"f:1: ip2nets[0].local NI(s): invalid key 'local NI(s)'"}},
		{"a range in a net", "net: [{net: tcp, interfaces: [a], ip-range: [1.2.3.4]}]\n", []string{"f:1: net[0].ip-range: invalid key 'ip-range'"}},
		{"three octets", "ip2nets: [{net-spec: tcp, ip-range: [1.2.3]}]\n", []string{"f:1: ip2nets[0].ip-range[0]: "}},
		{"a large octet", "ip2nets: [{net-spec: tcp, ip-range: [1.2.3.256]}]\n", []string{"f:1: ip2nets[0].ip-range[0]: "}},
		{"a long prefix", "ip2nets: [{net-spec: tcp, ip-range: ['::1/129']}]\n", []string{`f:1: ip2nets[0].ip-range[0]: "::1/129" is neither`}},
		{"no address", "ip2nets: [{net-spec: tcp, ip-range: [[]]}]\n", []string{"f:1: ip2nets[0].ip-range[0]: a list was found, but a word was expected"}},
		{"interface", "ip2nets: [{net-spec: tcp, interfaces: ['a[']}]\n", []string{"f:1: ip2nets[0].interfaces[0]: interface"}},
		{"networks", "lnetd: {networks: 'tcp(a'}\n", []string{"f:1: lnetd.networks: "}},
		{"networks of lo", "lnetd: {networks: lo}\n", []string{"f:1: lnetd.networks: contains no net except lo"}},
		{"networks and ip2nets", "lnetd: {networks: tcp, ip2nets: tcp 1.2.3.4}\n", []string{"f:1: lnetd.ip2nets: cannot be combined with networks"}},
		{"ip2nets", "lnetd: {ip2nets: 'tcp 1.2.3'}\n", []string{"f:1: lnetd.ip2nets: "}},
		{"ip2nets without an entry", "lnetd: {ip2nets: ' # none'}\n", []string{`f:1: lnetd.ip2nets: " # none" contains no entry`}},
		{"routes", "lnetd: {routes: 'tcp1 999 1.2.3.4'}\n", []string{"f:1: lnetd.routes: "}},
		{"a string that is none", "lnetd: {routes: []}\n", []string{"f:1: lnetd.routes: a list was found, but a word was expected"}},
	})
}

// Nets on the command line replace those of the file, even those that rules select.
func TestNetsInPlaceOfRules(t *testing.T) {
	c := mustParse(t, "ip2nets: [{net-spec: tcp, ip-range: [1.2.3.4]}]\nlnetd: {ip2nets: tcp 1.2.3.4}\n")
	if err := c.Apply(Override{Networks: []string{"tcp(x)"}}, testDrivers); err != nil {
		t.Fatal(err)
	}
	s, err := c.Settle(machineOf())
	if err != nil || len(s.NIs) != 1 || s.NIs[0].Device != "x" {
		t.Errorf("%+v, %v", s.NIs, err)
	}
}

// An interface given together with a pattern must have a matching address.
//
// lnetctl 11 (2)
func TestInterfaceThatHasToFit(t *testing.T) {
	c := mustParse(t, "net: [{net: tcp, intf: eth0, pattern: 10.1.*.*}, {net: tcp1, intf: eth1, pattern: 10.1.*.*}]")
	if s, err := c.Settle(machineOf()); err == nil || !strings.Contains(err.Error(), "net tcp: no address of the interface eth0 matches the pattern") {
		t.Errorf("%v, %v", s.NIs, err)
	}
	machine := []Interface{
		{Name: "lo", Up: true, Loopback: true, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		{Name: "eth0", Up: true, Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.1")}},
		{Name: "eth1", Up: true, Addrs: []netip.Addr{netip.MustParseAddr("10.2.0.1")}},
		{Name: "eth2", Addrs: []netip.Addr{netip.MustParseAddr("10.2.0.2")}},
	}
	for rule, want := range map[string]string{
		"intf: eth0, pattern: 10.2.0.*": "eth0 has 10.1.0.1; eth1 has 10.2.0.1; write that interface, or remove the interface",
		"intf: eth2, pattern: 10.2.0.*": "eth2 is down; eth1 has 10.2.0.1; write that interface, or remove the interface",
		"intf: eth0, pattern: 10.3.0.*": "eth0 has 10.1.0.1; correct the pattern, or remove the interface",
	} {
		c := mustParse(t, "net: [{net: tcp1, "+rule+"}]")
		_, err := c.Settle(machine)
		if e, ok := errors.AsType[*RuleError](err); !ok || e.Remedy != want {
			t.Errorf("%s: %v, want the remedy %q", rule, e, want)
		}
	}
}

// A pattern selects the NIs of an item, or checks the given interface. In a deletion, it selects
// only the NIs that it matches.
//
// lnetctl 11 (2)
func TestPatternsOfNets(t *testing.T) {
	for item, want := range map[string]string{
		"nid: 10.1.0.1@tcp":                      "f:1: net[0].pattern: 'pattern' and 'nid' cannot be combined",
		"intf: eth0, nid: 10.1.0.1@tcp":          "f:1: net[0].pattern: 'pattern' and 'nid' cannot be combined",
		"local NI(s): [{interfaces: {0: eth0}}]": "f:1: net[0].pattern: 'pattern' and 'local NI(s)' cannot be combined",
	} {
		text := []byte("net: [{net: tcp, pattern: 10.1.*.*, " + item + "}]")
		_, add := Parse("f", text, testDrivers)
		_, del := ParseDeletion(t.Context(), "f", text, testDrivers)
		for _, err := range []error{add, del} {
			var got Problems
			errors.As(err, &got)
			if diff := cmp.Diff([]string{want}, plain(got)); diff != "" {
				t.Errorf("%s: %s", item, diff)
			}
		}
	}
	for text, want := range map[string]struct {
		rules, nis, nets int
	}{
		"net: [{net: tcp, pattern: 10.1.*.*}]":             {rules: 1},
		"net: [{net: tcp, intf: eth0, pattern: 10.1.*.*}]": {nis: 1},
		"net: [{net: tcp}]":                                {nets: 1},
	} {
		d, err := ParseDeletion(t.Context(), "f", []byte(text), testDrivers)
		if err != nil || len(d.Site.Rules) != want.rules || len(d.NIs) != want.nis || len(d.Nets) != want.nets {
			t.Errorf("%s: rules %d, NIs %d, nets %d, %v, want %+v", text, len(d.Site.Rules), len(d.NIs), len(d.Nets), err, want)
		}
	}
}

// The CPU partitions of rules and of module parameters apply to their interfaces.
//
// lnetctl 9.1 (1)
func TestCPTsOfASite(t *testing.T) {
	for text, want := range map[string][][]int{
		"ip2nets: [{net-spec: tcp, interfaces: [eth0, 'eth1[2]'], CPT: '[0-1]'}]":       {{0, 1}, {2}},
		"ip2nets: [{net-spec: tcp, ip-range: ['10.*.*.*'], CPT: 3}]":                    {{3}, {3}},
		"lnetd: {networks: 'tcp(eth0[1],eth1)[2,3], tcp1'}":                             {{1}, {2, 3}, nil},
		"lnetd: {ip2nets: 'tcp(eth0)[1] 10.0.*.*; tcp1[0-6/3] 10.1.*.*; tcp2 *.*.*.*'}": {{1}, {0, 3, 6}, nil},
	} {
		c := mustParse(t, text)
		s, err := c.Settle(machineOf())
		if err != nil {
			t.Fatal(err)
		}
		var got [][]int
		for k := range s.NIs {
			got = append(got, s.NIs[k].CPTs)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	testErrors(t, []errorTest{{"too many", "lnetd: {networks: 'tcp(eth0)[0-4294967294]'}\n",
		[]string{"f:1: lnetd.networks: Unable to parse CPT '4294967294': not in 0 to 4095"}}})
}
