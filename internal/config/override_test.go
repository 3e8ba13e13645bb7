package config

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

func TestApply(t *testing.T) {
	c := mustParse(t, "net: [{net type: tcp9, interfaces: [x]}]\nlnetd: {port: 1, metrics_addr: ':9'}\n")
	err := c.Apply(Override{
		Networks:      []string{"tcp(eth0,eth1),tcp1", "tcp2(eth2)"},
		Port:          new(7000),
		ControlSocket: "/c",
		MetricsAddr:   "127.0.0.1:9100",
		LogLevel:      "warn",
	})
	if err != nil {
		t.Fatal(err)
	}
	def := lnd.Tunables{PeerTimeout: -1}
	want := Default()
	want.NIs = []lnd.Config{
		{Net: netOf(t, "tcp"), Device: "eth0", Tunables: def},
		{Net: netOf(t, "tcp"), Device: "eth1", Tunables: def},
		{Net: netOf(t, "tcp1"), Tunables: def},
		{Net: netOf(t, "tcp2"), Device: "eth2", Tunables: def},
	}
	want.SetPort(7000)
	want.ControlSocket, want.MetricsAddr, want.LogLevel = "/c", "127.0.0.1:9100", slog.LevelWarn
	if diff := cmp.Diff(want, c, sameNID); diff != "" {
		t.Error(diff)
	}
}

func TestApplyNothing(t *testing.T) {
	c := mustParse(t, "lnetd: {port: 1, metrics_addr: ':9', log_level: debug, control_socket: /s}\n")
	before := c
	if err := c.Apply(Override{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, c); diff != "" {
		t.Error(diff)
	}
}

// One bad option leaves everything as it was, and all bad ones are named.
func TestApplyWhole(t *testing.T) {
	c := Default()
	err := c.Apply(Override{
		Networks: []string{"tcp(eth0"}, Port: new(70000), ControlSocket: "/c", MetricsAddr: "x", LogLevel: "loud",
	})
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
	if err := c.Apply(Override{Networks: []string{"lo"}}); err == nil {
		t.Error("lo alone is taken for a net")
	}
}

func TestTakeUnprivilegedPort(t *testing.T) {
	c := Default()
	c.TakeUnprivilegedPort()
	s := c.Socklnd
	if s.AcceptPort != 9988 || s.AcceptPortBulk != 9988 || s.ConnectPort != 9988 || s.Accept != socklnd.AcceptAll {
		t.Errorf("%+v", s)
	}
	c = mustParse(t, "lnetd: {connect_port: 988}\n")
	c.TakeUnprivilegedPort()
	if c.Socklnd.AcceptPort != 9988 || c.Socklnd.ConnectPort != 988 {
		t.Errorf("%+v", c.Socklnd)
	}
	if err := c.Socklnd.Validate(); err != nil {
		t.Error(err)
	}
}
