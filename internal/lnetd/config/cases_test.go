package config

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
)

// The tests below are cases of the reference's regression suites that need only a file.

// sanity-lnet 2 (27), 4 (104), 5 (230), 5 (265)
// lnetctl 9.1 (2)
func TestCasesThatAreRefused(t *testing.T) {
	const ni = "net:\n  - net type: tcp\n    local NI(s):\n      - interfaces: {0: eth0}\n        "
	var tests []errorTest
	for _, c := range []struct{ name, text, want string }{
		{"a key without value", "global:\n    discovery:\n", "f:2: global.discovery: no value specified for key 'discovery'"},
		{"the same in the older form", "discovery:\n", "f:1: discovery: no value specified for key 'discovery'"},
		{"a value that is no number", "global:\n    discovery: foo\n", `f:2: global.discovery: invalid value 'foo' for key 'discovery': "foo" is not a whole number`},
		{"the same in the older form", "discovery: foo\n", `f:1: discovery: invalid value 'foo' for key 'discovery': "foo" is not a whole number`},
		{"a key that nobody knows", "foo: 1\n", "f:1: foo: invalid key 'foo'"},
		{"response_tracking -10", "global: {response_tracking: -10}\n", "f:1: global.response_tracking: invalid value '-10' for key 'response_tracking': -10 is not in 0 to 3"},
		{"response_tracking 10", "global: {response_tracking: 10}\n", "f:1: global.response_tracking: invalid value '10' for key 'response_tracking': 10 is not in 0 to 3"},
		{"conns_per_peer 200", ni + "lnd tunables: {conns_per_peer: 200}\n",
			"f:5: net[0].local NI(s)[0].lnd tunables.conns_per_peer: 200 is not in 0 to 127"},
		{"conns_per_peer 10^24", ni + "lnd tunables: {conns_per_peer: 1000000000000000000000000}\n",
			`f:5: net[0].local NI(s)[0].lnd tunables.conns_per_peer: "1000000000000000000000000" is not a whole number`},
		{"conns_per_peer foo", ni + "lnd tunables: {conns_per_peer: foo}\n",
			`f:5: net[0].local NI(s)[0].lnd tunables.conns_per_peer: "foo" is not a whole number`},
		{"CPTs the wrong way round, quoted", ni + "CPT: \"[1-0]\"\n",
			"f:5: net[0].local NI(s)[0].CPT: Unable to parse CPT '[1-0]': "},
		{"CPTs the wrong way round", ni + "CPT: [1-0]\n", "f:5: net[0].local NI(s)[0].CPT[0]: Unable to parse CPT '1-0': "},
		{"no CPT, quoted", ni + "CPT: \"[]\"\n", "f:5: net[0].local NI(s)[0].CPT: Unable to parse CPT '[]': "},
		{"no CPT", ni + "CPT: []\n", "f:5: net[0].local NI(s)[0].CPT: Unable to parse CPT '[]'"},
		{"no text for CPTs", ni + "CPT: \"\"\n", "f:5: net[0].local NI(s)[0].CPT: Unable to parse CPT '': "},
		{"no value for CPTs", ni + "CPT:\n", "f:5: net[0].local NI(s)[0].CPT: no value specified for key 'CPT'"},
		{"CPTs behind an interface", "net:\n  - net type: tcp\n    interfaces: {0: \"eth0[1-0]\"}\n",
			`f:3: net[0].interfaces.0: interface "eth0[1-0]": Unable to parse CPT '[1-0]': `},
		{"CPTs of the Multi-Rail design", "net:\n  - {net: tcp, interfaces: [{intf: eth0, CPT: x}]}\n",
			"f:2: net[0].interfaces[0].CPT: Unable to parse CPT 'x': "},
	} {
		tests = append(tests, errorTest{c.name, c.text, []string{c.want}})
	}
	testErrors(t, tests)
}

// sanity-lnet 4 (104)
func TestResponseTrackingOfFiles(t *testing.T) {
	for k, text := range []string{"0", "1", "2", "3"} {
		c := mustParse(t, "global:\n    response_tracking: "+text+"\n")
		if int(c.Parameters.ResponseTracking) != k {
			t.Errorf("%s: %d", text, c.Parameters.ResponseTracking)
		}
	}
}

// sanity-lnet 5 (170)
// lnetctl 9.1 (1)-(2)
func TestTunablesOfSeveralNIs(t *testing.T) {
	const warning = "All NIs of a net should have the same tunables"
	tests := []struct {
		name, text string
		timeouts   []time.Duration // peer_timeout; -1 means the default
		conns      []int           // conns_per_peer; 0 means the default
		warns      bool
		cpts       [][]int
	}{
		{"each with its CPTs", `
      - interfaces: {0: eth0}
        CPT: "[0]"
      - interfaces: {0: eth1}
        CPT: "[1]"
`, []time.Duration{-1, -1}, []int{0, 0}, false, [][]int{{0}, {1}}},
		{"CPTs in other forms", `
      - interfaces: {0: "eth0[0,2]"}
        CPT: [0, 2]
      - interfaces: {0: eth1}
        CPT: ["0-1", 3]
`, []time.Duration{-1, -1}, []int{0, 0}, false, [][]int{{0, 2}, {0, 1, 3}}},
		{"CPTs of the net, and of one interface", `
      - interfaces: {0: "eth0[1]"}
        CPT: 2
      - interfaces: {0: eth1}
    CPT: "3,2,2"
`, []time.Duration{-1, -1}, []int{0, 0}, false, [][]int{{1}, {2, 3}}},
		{"all CPTs", `
      - interfaces: {0: eth0}
        CPT: "*"
      - interfaces: {0: eth1}
    CPT: "*"
`, []time.Duration{-1, -1}, []int{0, 0}, false, nil},
		{"lnd tunables alone", `
      - interfaces: {0: eth0}
        lnd tunables: {conns_per_peer: 5}
`, []time.Duration{-1}, []int{5}, false, nil},
		{"lnd tunables that differ", `
      - interfaces: {0: eth0}
        lnd tunables: {conns_per_peer: 5}
      - interfaces: {0: eth1}
        lnd tunables: {conns_per_peer: 3}
`, []time.Duration{-1, -1}, []int{5, 3}, false, nil},
		{"the second has them", `
      - interfaces: {0: eth0}
      - interfaces: {0: eth1}
        tunables: {peer_timeout: 181}
        lnd tunables: {conns_per_peer: 3}
`, []time.Duration{-1, -1}, []int{0, 3}, true, nil},
		{"the net has them", `
      - interfaces: {0: eth0}
      - interfaces: {0: eth1}
    tunables: {peer_timeout: 182}
    lnd tunables: {conns_per_peer: 3}
`, []time.Duration{182 * time.Second, 182 * time.Second}, []int{3, 3}, false, nil},
		{"tunables that differ", `
      - interfaces: {0: eth0}
        tunables: {peer_timeout: 181}
      - interfaces: {0: eth1}
        tunables: {peer_timeout: 182}
`, []time.Duration{181 * time.Second, 181 * time.Second}, []int{0, 0}, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, "net:\n  - net type: tcp\n    local NI(s):"+tt.text)
			var want []NI
			for k := range tt.timeouts {
				ni := NI{Net: netOf(t, "tcp"), Device: []string{"eth0", "eth1"}[k], Tunables: lnd.Tunables{PeerTimeout: tt.timeouts[k]}}
				if tt.cpts != nil {
					ni.CPTs = tt.cpts[k]
				}
				if n := tt.conns[k]; n != 0 {
					ni.Options = lnd.Values{"conns_per_peer": int64(n)}
				}
				want = append(want, ni)
			}
			if diff := cmp.Diff(want, c.NIs, alike); diff != "" {
				t.Error(diff)
			}
			if warned := strings.Contains(c.Warnings.Error(), warning); warned != tt.warns || !tt.warns && len(c.Warnings) > 0 {
				t.Errorf("warnings %q", c.Warnings)
			}
		})
	}
}

// A tos in a file is limited to one byte. A command would reject the value (lnetctl 9.1).
//
// sanity-lnet 5 (232)
func TestTOSOfFiles(t *testing.T) {
	for text, want := range map[string]int{"-1": -1, "104": 104, "106": 106, "300": 255, "-7": -1} {
		c := mustParse(t, "net:\n  - net type: tcp\n    interfaces: [eth0]\n    lnd tunables: {tos: "+text+"}\n")
		if n, ok := c.NIs[0].Options["tos"]; !ok || int(n) != want {
			t.Errorf("tos %s: %+v", text, c.NIs[0].Options)
		}
		if warned := len(c.Warnings) > 0; warned != (text != strconv.Itoa(want)) {
			t.Errorf("tos %s: %v", text, c.Warnings)
		}
	}
	if c := mustParse(t, "net:\n  - net type: tcp\n    interfaces: [eth0]\n"); c.NIs[0].Options != nil {
		t.Errorf("no tos: %+v", c.NIs[0].Options)
	}
}

// Rules as printed by udsp show and by export give the same rules again: with priority 0, with
// two patterns, with ranges and strides, and in the same order.
//
// selection 6.9 import
func TestShownRulesLoadAgain(t *testing.T) {
	const shown = `udsp:
    - idx: 0
      src: tcp
      action:
          priority: 0
    - idx: 1
      src: tcp
      dst: 10.78.0.12@tcp1
    - idx: 2
      src: 10.78.0.[0-255]@tcp1
      action:
          priority: 1
    - idx: 3
      dst: 10.77.0.12@tcp
      action:
          priority: 2
    - idx: 4
      src: 10.77.0.[11-12]@tcp
      dst: 10.77.0.[1-100/2]@tcp
    - idx: 5
      dst: 10.77.0.12@tcp
      rte: 10.77.0.20@tcp
`
	want := []string{
		"--src tcp --priority 0",
		"--src tcp --dst 10.78.0.12@tcp1",
		"--src 10.78.0.[0-255]@tcp1 --priority 1",
		"--dst 10.77.0.12@tcp --priority 2",
		"--src 10.77.0.[11-12]@tcp --dst 10.77.0.[1-100/2]@tcp",
		"--dst 10.77.0.12@tcp --rte 10.77.0.20@tcp",
	}
	c := mustParse(t, shown)
	if diff := cmp.Diff(want, ruleTexts(c.Rules)); diff != "" || len(c.Warnings) > 0 {
		t.Errorf("%s\nwarnings %q", diff, c.Warnings)
	}
}

// Parameters of older routers are accepted and have no effect.
//
// lnet-core 8.5 ignored
// lnetctl 6 (3)-(4)
func TestObsoleteRouterParameters(t *testing.T) {
	c := mustParse(t, `
global: {router_sensitivity: 100}
lnetd: {dead_router_check_interval: 5, live_router_check_interval: 6, router_sensitivity_percentage: 70}
`)
	c.Given = Given{}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Error(diff)
	}
}
