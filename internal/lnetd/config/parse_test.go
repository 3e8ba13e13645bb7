package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// alike compares NIDs, and ignores the positions of NIs.
var alike = cmp.Options{
	cmp.Comparer(func(a, b lnet.NID) bool { return a == b }), cmpopts.IgnoreFields(NI{}, "Where"),
}

func mustParse(t *testing.T, text string) Config {
	t.Helper()
	c, err := Parse("f", []byte(text), testDrivers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func netOf(t *testing.T, s string) lnet.Net {
	t.Helper()
	n, err := lnet.ParseNet(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nidOf(t *testing.T, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEmptyFile(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n...\n", "net:\nglobal:\nlnetd:\n"} {
		c := mustParse(t, text)
		if c.Given.Any != strings.Contains(text, "net") {
			t.Errorf("%q: anything %v", text, c.Given.Any)
		}
		c.Given = Given{}
		if diff := cmp.Diff(Default(), c); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// Exports of lnetctl are accepted unchanged.
//
// lnetctl 7 (8), 8 (3)
func TestExports(t *testing.T) {
	none := lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 256}
	ni := func(n, device, nid string, conns, tos int) NI {
		ni := NI{Net: netOf(t, n), Device: device, Tunables: none, CPTs: []int{0},
			Options: lnd.Values{"conns_per_peer": int64(conns), "tos": int64(tos)}}
		if nid != "" {
			ni.NID = nidOf(t, nid)
		}
		return ni
	}
	tests := []struct {
		file string
		nis  []NI
		// Numbers of other entries.
		peers, routes, rules int
	}{
		{"a-tcp-ping-discovery-on-peerA.yaml", []NI{ni("tcp", "eth0", "10.77.0.11@tcp", 1, -1)}, 1, 0, 0},
		{"j-ipv6-large-nid-peerA.yaml", []NI{ni("tcp", "eth0", "fd77::11@tcp", 1, -1), ni("tcp1", "eth1", "10.78.0.11@tcp1", 1, -1)}, 1, 0, 0},
		{"c-multirail-discovery-peerA.yaml", []NI{ni("tcp", "eth0", "10.77.0.11@tcp", 1, -1), ni("tcp1", "eth1", "10.78.0.11@tcp1", 1, -1)}, 2, 0, 0},
		{"i-routed-tcp-tcp1-router.yaml", []NI{ni("tcp", "eth0", "10.77.0.20@tcp", 1, -1), ni("tcp1", "eth1", "10.78.0.20@tcp1", 1, -1)}, 2, 0, 0},
		{"cli-backup-peerA.yaml", []NI{ni("tcp", "eth0", "", 2, 0), ni("tcp1", "eth1", "", 2, 0)}, 9, 1, 5},
		{"cli-export-peerA.yaml", []NI{ni("tcp", "eth0", "10.77.0.11@tcp", 2, 0), ni("tcp1", "eth1", "10.78.0.11@tcp1", 2, 0)}, 9, 1, 5},
		{"cli-2.15-export.yaml", []NI{
			without(ni("tcp", "eth0", "10.77.0.11@tcp", 1, -1), "tos"), without(ni("tcp1", "eth1", "10.78.0.11@tcp1", 1, -1), "tos"),
		}, 4, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			c := parseFile(t, tt.file)
			if diff := cmp.Diff(tt.nis, c.NIs, alike); diff != "" {
				t.Error(diff)
			}
			for _, w := range c.Warnings {
				t.Error(w)
			}
			if len(c.Peers) != tt.peers || len(c.Routes) != tt.routes || len(c.Rules) != tt.rules {
				t.Errorf("%d peers, %d routes, %d rules: want %d, %d, %d",
					len(c.Peers), len(c.Routes), len(c.Rules), tt.peers, tt.routes, tt.rules)
			}
		})
	}
}

// without returns an NI without one of its options.
func without(ni NI, option string) NI {
	delete(ni.Options, option)
	return ni
}

func parseFile(t *testing.T, name string) Config {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "captures", name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(name, b, testDrivers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A full export means the same as a backup of the same node.
//
// lnetctl 7 (7), 8 (3), 16
func TestFullExportIsABackup(t *testing.T) {
	backup, full := parseFile(t, "cli-backup-peerA.yaml"), parseFile(t, "cli-export-peerA.yaml")
	for k := range full.NIs {
		full.NIs[k].NID = lnet.NID{} // a backup leaves it to the interface
	}
	for _, c := range []*Config{&backup, &full} {
		for k := range c.Peers {
			c.Peers[k].Where = ""
		}
		c.Routes[0].Where = ""
	}
	if diff := cmp.Diff(backup, full, alike); diff != "" {
		t.Error(diff)
	}
	if p := backup.Parameters; p.InterfacesMax != 100 || p.MaxRecoveryPingInterval != 100*time.Second {
		t.Errorf("%+v", p)
	}
}

// sanity-lnet 5 (450)
// lnetctl 9.1 (1)
func TestNIs(t *testing.T) {
	def := lnd.Tunables{PeerTimeout: -1}
	tests := []struct {
		name string
		text string
		want []NI
	}{
		{"two interfaces in one item", `
net:
  - net type: tcp1
    local NI(s):
      - interfaces: {0: eth0, 1: "eth1:2[0,1]"}
`, []NI{{Net: netOf(t, "tcp1"), Device: "eth0", Tunables: def}, {Net: netOf(t, "tcp1"), Device: "eth1:2", Tunables: def, CPTs: []int{0, 1}}}},
		{"nid without interfaces", `
net:
  - net type: tcp
    local NI(s):
      - nid: 127.0.0.2@tcp
`, []NI{{Net: netOf(t, "tcp"), NID: nidOf(t, "127.0.0.2@tcp"), Tunables: def}}},
		{"the nid that the interface has to have", `
net:
  - net type: tcp
    local NI(s):
      - nid: 127.0.0.2@tcp
        interfaces:
            0: eth0
`, []NI{{Net: netOf(t, "tcp"), Device: "eth0", NID: nidOf(t, "127.0.0.2@tcp"), Tunables: def}}},
		{"older form without local NIs", `
net:
  - net type: tcp
    interfaces:
        0: eth0
    tunables:
        credits: 32
`, []NI{{Net: netOf(t, "tcp"), Device: "eth0", Tunables: lnd.Tunables{PeerTimeout: -1, Credits: 32}}}},
		{"interfaces as a list", `
net:
  - net type: tcp
    interfaces: [eth0, eth1]
`, []NI{{Net: netOf(t, "tcp"), Device: "eth0", Tunables: def}, {Net: netOf(t, "tcp"), Device: "eth1", Tunables: def}}},
		{"tunables of the net, options of the item", `
net:
  - net type: tcp
    tunables: {peer_timeout: 0, peer_credits: "16"}
    lnd tunables: {conns_per_peer: 3}
    local NI(s):
      - interfaces: {0: eth0}
      - interfaces: {0: eth1}
        lnd tunables: {tos: 900, timeout: 7}
`, []NI{
			{Net: netOf(t, "tcp"), Device: "eth0", Tunables: lnd.Tunables{PeerCredits: 16}, Options: lnd.Values{"conns_per_peer": 3}},
			{Net: netOf(t, "tcp"), Device: "eth1", Tunables: lnd.Tunables{PeerCredits: 16}, Options: lnd.Values{"tos": 255}},
		}},
		{"not positive means default", `
net:
  - net type: tcp
    local NI(s):
      - interfaces: {0: eth0}
        tunables: {peer_timeout: -1, peer_credits: 0, credits: -1}
`, []NI{{Net: netOf(t, "tcp"), Device: "eth0", Tunables: def}}},
		{"lo is passed over", `
net:
  - net type: lo
    local NI(s):
      - nid: 0@lo
`, nil},
		{"as the Multi-Rail design has it", `
net:
  - net: tcp1
    interfaces:
      - {intf: eth0, CPT: "0"}
      - intf: eth1
  - {net: tcp2, intf: eth2}
`, []NI{
			{Net: netOf(t, "tcp1"), Device: "eth0", Tunables: def, CPTs: []int{0}},
			{Net: netOf(t, "tcp1"), Device: "eth1", Tunables: def},
			{Net: netOf(t, "tcp2"), Device: "eth2", Tunables: def},
		}},
		{"as the Multi-Rail design prints it", `
net:
- net: o2ib1
  interfaces:
    - intf: ib0
      CPT: 1,3
    - intf: ib1
      CPT: 4,5
`, []NI{
			{Net: netOf(t, "o2ib1"), Device: "ib0", Tunables: def, CPTs: []int{1, 3}},
			{Net: netOf(t, "o2ib1"), Device: "ib1", Tunables: def, CPTs: []int{4, 5}},
		}},
		{"two documents, two sections", `
net:
  - net type: tcp
    interfaces: [a]
net:
  - net type: tcp1
    interfaces: [b]
---
net:
  - net type: tcp2
    interfaces: [c]
`, []NI{
			{Net: netOf(t, "tcp"), Device: "a", Tunables: def},
			{Net: netOf(t, "tcp1"), Device: "b", Tunables: def},
			{Net: netOf(t, "tcp2"), Device: "c", Tunables: def},
		}},
		{"aliases", `
net:
  - net type: tcp
    interfaces: [a]
    tunables: &t {credits: 9}
  - net type: tcp1
    interfaces: [b]
    tunables: *t
`, []NI{
			{Net: netOf(t, "tcp"), Device: "a", Tunables: lnd.Tunables{PeerTimeout: -1, Credits: 9}},
			{Net: netOf(t, "tcp1"), Device: "b", Tunables: lnd.Tunables{PeerTimeout: -1, Credits: 9}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, mustParse(t, tt.text).NIs, alike); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// lnetctl 6 (4)
func TestLnetdSection(t *testing.T) {
	c := mustParse(t, `
lnetd:
    discovery: verify
    alive_router_check_interval: 0
    router_ping_timeout: 5
    avoid_asym_router_failure: 0
    check_routers_before_use: 1
    auto_down: 0
    peer_buffer_credits: 16
    peer_nis_max: 1000
    port: 9000
    connect_port: 988
    accept: all
    source_ports: any
    control_socket: /x/y
    metrics_addr: "[::1]:9100"
    log_level: debug
    log_format: json
    socklnd:
        sock_timeout: 0
        min_reconnectms: 250
        nagle: 0x1
        max_reconnectms: 60000
global:
    transaction_timeout: 50
    retry_count: 4
    max_interfaces: 3
    drop_asym_route: 1
    router_sensitivity: 50
numa:
    range: 20
`)
	want := Default()
	want.ControlSocket, want.MetricsAddr = "/x/y", "[::1]:9100"
	want.LogLevel, want.LogFormat = slog.LevelDebug, FormatJSON
	want.Parameters.TransactionTimeout, want.Parameters.RetryCount = 50*time.Second, 4
	want.Parameters.Discovery, want.Parameters.DropAsymRoute, want.Parameters.NUMARange = discovery.Verify, true, 20
	want.Parameters.RouterCheckInterval, want.Parameters.RouterPingTimeout = 0, 5*time.Second
	want.Parameters.AsymmetricRoutes, want.Parameters.CheckRoutersBeforeUse, want.Parameters.IgnorePeerDown = true, true, true
	want.Parameters.PeerBufferCredits, want.Parameters.RouterSensitivity = 16, 50
	want.Parameters.PeerNIsMax = 1000
	want.Drivers = map[lnet.NetType]Values{lnet.TypeTCP: {
		"port": "9000", "connect_port": "988", "accept": "all", "source_ports": "any",
		"sock_timeout": "0", "min_reconnectms": "250", "nagle": "1",
	}}
	want.Given = c.Given
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// All mistakes are reported at once, with file, line and key.
//
// lnetctl 7 (2), 9.1 (2)
func TestErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"not YAML", "net: [", []string{"f:1: the bracket [ is not closed"}},
		{"not a mapping", "- a\n", []string{"f:1: a list was found, but keys were expected"}},
		{"net is no list", "net:\n    tcp: 1\n", []string{"f:2: net: a mapping was found, but a list was expected"}},
		{"no net type", "net:\n  - interfaces: [a]\n", []string{`f:2: net[0]: the key "net type" is missing`}},
		{"net type without value", "net:\n  - {interfaces: [a], net type: }\n", []string{"f:2: net[0].net type: no value specified for key 'net type'"}},
		{"unknown net type", "net:\n  - net type: foo\n    interfaces: [a]\n", []string{"f:2: net[0].net type: "}},
		{"neither interface nor nid", "net:\n  - net type: tcp\n    local NI(s): [{CPT: 0}]\n", []string{`f:3: net[0].local NI(s)[0]: neither "interfaces" nor "nid" is given`}},
		{"interface without a name", "net:\n  - {net: tcp, interfaces: [{CPT: 1}]}\n",
			[]string{"f:2: net[0].interfaces[0]: a mapping was found, but a word was expected"}},
		{"an NI twice", "net:\n  - {net: tcp, interfaces: [a, b, a]}\n", []string{"f:2: net[0]: the NI tcp(a) occurs twice"}},
		{"a NID beside two interfaces", "net:\n  - {net: tcp, interfaces: [a, b], nid: 1.1.1.1@tcp}\n",
			[]string{"f:2: net[0].nid: one NID for 2 interfaces"}},
		{"bad nid", "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 300.1.1.1@tcp\n",
			[]string{"f:4: net[0].local NI(s)[0].nid: "}},
		{"nid on another net", "net:\n  - net type: tcp\n    local NI(s):\n      - nid: 1.1.1.1@tcp1\n",
			[]string{"f:4: net[0].local NI(s)[0].nid: 1.1.1.1@tcp1 is not on net tcp"}},
		{"bad interface", "net:\n  - net type: tcp\n    interfaces: {0: \"eth0[1\"}\n",
			[]string{`f:3: net[0].interfaces.0: interface "eth0[1": the closing bracket is missing`}},
		{"credits is a word", "net:\n  - net type: tcp\n    interfaces: [a]\n    tunables:\n        credits: many\n",
			[]string{`f:5: net[0].tunables.credits: "many" is not a whole number`}},
		{"credits is a mapping", "net:\n  - net type: tcp\n    interfaces: [a]\n    tunables:\n        credits: {a: 1}\n",
			[]string{"f:5: net[0].tunables.credits: a mapping was found, but a number was expected"}},
		{"tunables is a list", "net:\n  - net type: tcp\n    interfaces: [a]\n    tunables: [1]\n",
			[]string{"f:4: net[0].tunables: a list was found, but keys were expected"}},
		{"conns_per_peer out of range", "net:\n  - net type: tcp\n    interfaces: [a]\n    lnd tunables:\n        conns_per_peer: 128\n",
			[]string{"f:5: net[0].lnd tunables.conns_per_peer: 128 is not in 0 to 127"}},
		{"key twice", "lnetd:\n    port: 1\n    port: 2\n", []string{"f:3: lnetd.port: occurs twice"}},
		{"port", "lnetd:\n    port: 65536\n", []string{"f:2: lnetd.port: 65536 is not in 1 to 65535"}},
		{"fraction", "lnetd:\n    port: 9.5\n", []string{`f:2: lnetd.port: "9.5" is not a whole number`}},
		{"accept", "lnetd:\n    accept: some\n", []string{`f:2: lnetd.accept: "some" is not one of secure, all, none`}},
		{"source ports", "lnetd:\n    source_ports: few\n", []string{`f:2: lnetd.source_ports: "few" is not one of auto, privileged, any`}},
		{"log level", "lnetd:\n    log_level: loud\n", []string{`f:2: lnetd.log_level: "loud" is not a log level`}},
		{"log format", "lnetd:\n    log_format: xml\n", []string{`f:2: lnetd.log_format: "xml" is not one of auto, json, text`}},
		{"metrics address", "lnetd:\n    metrics_addr: here\n", []string{`f:2: lnetd.metrics_addr: "here" is not of the form HOST:PORT`}},
		{"key of ours unknown", "lnetd:\n    prot: 1\n", []string{"f:2: lnetd.prot: invalid key 'prot'"}},
		{"parameter unknown", "lnetd:\n    socklnd:\n        frob: 1\n", []string{"f:3: lnetd.socklnd.frob: invalid key 'frob'"}},
		{"parameters together", "lnetd:\n    socklnd:\n        min_reconnectms: 9000\n        max_reconnectms: 10\n",
			[]string{"f: lnetd: reconnect: not in order"}},
		{"0 or 1", "lnetd: {socklnd: {nagle: 2}}\n", []string{"f:1: lnetd.socklnd.nagle: 2 is not in 0 to 1"}},
		{"parameter without value", "lnetd:\n    socklnd:\n        nagle:\n", []string{"f:3: lnetd.socklnd.nagle: no value specified for key 'nagle'"}},
		{"words without value", "lnetd: {accept: []}\n", []string{"f:1: lnetd.accept: a list was found, but a word was expected"}},
		{"a driver's truth", "net:\n  - {net: o2ib, interfaces: [a], lnd tunables: {map_on_demand: 2}}\n",
			[]string{`f:2: net[0].lnd tunables.map_on_demand: "2" is neither true nor false`}},
		{"global without value", "global:\n    discovery:\n", []string{"f:2: global.discovery: no value specified for key 'discovery'"}},
		{"global out of range", "global:\n    response_tracking: 4\n", []string{"f:2: global.response_tracking: invalid value '4' for key 'response_tracking': 4 is not in 0 to 3"}},
		{"retries too many", "global:\n    retry_count: 60\n    transaction_timeout: 50\n",
			[]string{"f:3: global.transaction_timeout: transaction_timeout 50 s must be greater than retry_count 60"}},
		{"retries without health", "global:\n    retry_count: 1\n    health_sensitivity: 0\n",
			[]string{"f:2: global.retry_count: 1: must be 0 because health_sensitivity is 0"}},
		{"several", "lnetd:\n    port: x\n    accept: y\nglobal:\n    discovery: z\n",
			[]string{"f:2: lnetd.port: ", "f:3: lnetd.accept: ", "f:5: global.discovery: "}},
		{"discovery", "lnetd: {discovery: 1}\n", []string{`f:1: lnetd.discovery: "1" is not one of on, off, verify`}},
		{"router timer", "lnetd: {router_ping_timeout: 0}\n", []string{"f:1: lnetd.router_ping_timeout: 0 is not in 1 to 86400"}},
	})
}

func TestWarnings(t *testing.T) {
	c := mustParse(t, `
ip2nets: []
global:
    discovery: 0
    what: 1
net:
  - net type: tcp
    local NI(s):
      - interfaces: {0: a}
        tunables: {credits: 1, speed: 9}
        lnd tunables: {ntx: 9}
      - interfaces: {0: b}
        tunables: {credits: 2}
max_intf: 100
lnetd:
    discovery: verify
numa:
    distance: 1
buffers:
    huge: 1
routing:
    mode: 1
use_tcp_bonding: 7
statistics:
    send_count: 1
`)
	want := []string{
		"f:5: global.what: Ignoring unrecognized key 'what' for 'global'",
		"f:10: net[0].local NI(s)[0].tunables.speed: Ignoring unrecognized key 'speed' for 'tunables'",
		"f:11: net[0].local NI(s)[0].lnd tunables.ntx: Ignoring unrecognized key 'ntx' for 'lnd tunables'",
		"f:12: net[0].local NI(s)[1]: All NIs of a net should have the same tunables; those of the first NI apply",
		`f:16: lnetd.discovery: verify overrides the value in "global"`,
		"f:18: numa.distance: Ignoring unrecognized key 'distance' for 'numa'",
		"f:20: buffers.huge: Ignoring unrecognized key 'huge' for 'buffers'",
		"f:22: routing.mode: Ignoring unrecognized key 'mode' for 'routing'",
		"f:23: use_tcp_bonding: it has no effect: each interface of a tcp net is a separate NI",
	}
	if diff := cmp.Diff(want, plain(c.Warnings)); diff != "" {
		t.Error(diff)
	}
	if c.Parameters.InterfacesMax != 100 || c.Parameters.Discovery != discovery.Verify || c.NIs[1].Tunables.Credits != 1 {
		t.Errorf("%+v", c)
	}
}

// Disabling health disables resends.
//
// lnetctl 7 (3)
func TestNoHealthNoRetries(t *testing.T) {
	c := mustParse(t, "global:\n    health_sensitivity: 0\n")
	if c.Parameters.RetryCount != 0 || c.Parameters.LNDTimeout() != 149*time.Second {
		t.Errorf("retry count %d, LND timeout %v", c.Parameters.RetryCount, c.Parameters.LNDTimeout())
	}
}

// Any file gives either an error or a configuration that drivers accept.
func TestParseNeverPanics(t *testing.T) {
	word := rapid.SampledFrom([]string{
		"net", "net type", "local NI(s)", "interfaces", "nid", "tunables", "lnd tunables", "credits", "tos",
		"global", "lnetd", "socklnd", "port", "accept", "retry_count", "tcp", "o2ib", "10.0.0.1@tcp", "1", "-1",
		"peer", "primary nid", "peer ni", "peers", "nids", "route", "gateway", "hop", "routing", "enable", "buffers", "udsp",
		"idx", "src", "dst", "rte", "action", "priority", "selection", "type", "numa", "range", "10.0.0.[1-3]@tcp", "tcp*",
		"x", "\n", "\n  ", "\n    ", ": ", "- ", "[", "]", "{", "}", ", ", "&a ", "*a", "\"", "~", "!!int ", "<<",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(word, 0, 60).Draw(t, "words"), "")
		c, err := Parse("f", []byte(text), testDrivers)
		if err == nil {
			err = checkReconnect(c.Drivers[lnet.TypeTCP])
		} else {
			var p Problems
			if !errors.As(err, &p) {
				t.Errorf("%v does not say where", err)
			}
			return
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
