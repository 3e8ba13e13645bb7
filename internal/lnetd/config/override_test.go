package config

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

func TestApply(t *testing.T) {
	c := mustParse(t, "net: [{net type: tcp9, interfaces: [x]}]\nlnetd: {port: 1, metrics_addr: ':9'}\n")
	err := c.Apply(Override{
		Networks:      []string{"tcp(eth0,eth1),tcp1", "tcp2(eth2)"},
		Port:          new(7000),
		ControlSocket: "/c",
		MetricsAddr:   "127.0.0.1:9100",
		LogLevel:      "warn",
	}, testDrivers)
	if err != nil {
		t.Fatal(err)
	}
	def := lnd.Tunables{PeerTimeout: -1}
	want := Default()
	want.NIs = []NI{
		{Net: netOf(t, "tcp"), Device: "eth0", Tunables: def},
		{Net: netOf(t, "tcp"), Device: "eth1", Tunables: def},
		{Net: netOf(t, "tcp1"), Tunables: def},
		{Net: netOf(t, "tcp2"), Device: "eth2", Tunables: def},
	}
	want.Drivers = map[lnet.NetType]Values{lnet.TypeTCP: {"port": "7000", "connect_port": "7000"}}
	want.ControlSocket, want.MetricsAddr, want.LogLevel = "/c", "127.0.0.1:9100", slog.LevelWarn
	want.Given = c.Given
	if diff := cmp.Diff(want, c, alike); diff != "" {
		t.Error(diff)
	}
}

// A NID in place of a net selects the NI with that NID. Several are possible, also together with
// nets.
func TestApplyNIDs(t *testing.T) {
	c := Default()
	if err := c.Apply(Override{Networks: []string{"127.0.0.2@tcp", "tcp1(eth0)", "fd00::1@tcp"}}, testDrivers); err != nil {
		t.Fatal(err)
	}
	def := lnd.Tunables{PeerTimeout: -1}
	want := []NI{
		{Net: netOf(t, "tcp1"), Device: "eth0", Tunables: def},
		{Net: netOf(t, "tcp"), NID: nidOf(t, "127.0.0.2@tcp"), Tunables: def},
		{Net: netOf(t, "tcp"), NID: nidOf(t, "fd00::1@tcp"), Tunables: def},
	}
	if diff := cmp.Diff(want, c.NIs, alike); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"0@lo", "127.0.0.1@", "127.0.0.256@tcp", "127.0.0.[1-2]@tcp"} {
		if err := c.Apply(Override{Networks: []string{bad}}, testDrivers); err == nil || !strings.Contains(err.Error(), "--net: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestApplyNothing(t *testing.T) {
	c := mustParse(t, "lnetd: {port: 1, metrics_addr: ':9', log_level: debug, control_socket: /s}\n")
	before := c
	if err := c.Apply(Override{}, testDrivers); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, c); diff != "" {
		t.Error(diff)
	}
}

// One invalid option leaves everything unchanged. All invalid options are reported.
func TestApplyWhole(t *testing.T) {
	c := Default()
	err := c.Apply(Override{
		Networks: []string{"tcp(eth0"}, Port: new(70000), ControlSocket: "/c", MetricsAddr: "x", LogLevel: "loud",
	}, testDrivers)
	if err == nil {
		t.Fatal("no error")
	}
	for _, option := range []string{"--net: ", "--port: ", "--metrics-addr: ", "--log-level: "} {
		if !strings.Contains(err.Error(), option) {
			t.Errorf("%s is not named in:\n%v", option, err)
		}
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Error(diff)
	}
	if err := c.Apply(Override{Networks: []string{"lo"}}, testDrivers); err == nil {
		t.Error("lo alone is taken for a net")
	}
}

// A port on the command line affects only the copy.
func TestApplyToACopy(t *testing.T) {
	c := mustParse(t, "lnetd: {port: 1, accept: all}\n")
	before := c
	if err := c.Apply(Override{Port: new(7000)}, testDrivers); err != nil {
		t.Fatal(err)
	}
	if got := before.Drivers[lnet.TypeTCP]["port"]; got != "1" {
		t.Errorf("the original has port %s", got)
	}
	want := Values{"port": "7000", "connect_port": "7000", "accept": "all"}
	if diff := cmp.Diff(want, c.Drivers[lnet.TypeTCP]); diff != "" {
		t.Error(diff)
	}
}
