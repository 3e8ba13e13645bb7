package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
)

// The status shows what is up and what lnetd waits for, as it changes, and why the last reload
// failed.
func TestStatus(t *testing.T) {
	f := newFakeSystemd(t)
	text := "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}, {net type: tcp1, local NI(s): [{interfaces: {0: eth1}}]}]\n" +
		"route: [{net: tcp9, gateway: 10.78.0.1@tcp1}]\n"
	c := parse(t, text)
	c.ControlSocket = t.TempDir() + "/c.sock"
	n := host(lo, device("eth0", "10.77.0.11/24"))
	r := runUnder(t, f, systemd.Config{}, c, Drivers{TCP(n)}, nil)
	r.ready(t)
	const waits = "1 NI is up; waiting for: tcp1(eth1) (\"eth1\": no such network device); 1 route waits for an NI on the net of the gateway"
	if f.statuses[0] != "starting" || f.heard() != waits {
		t.Errorf("statuses %q", f.statuses)
	}
	r.Reload(t.Context(), func() (config.Config, error) { return config.Config{}, errors.New("no such file") })
	if got := f.heard(); got != waits+"; the last reload failed: no such file" {
		t.Errorf("after a reload that failed %q", got)
	}
	r.Reload(t.Context(), func() (config.Config, error) {
		c := parse(t, strings.Split(text, ", {net type: tcp1")[0]+"]\n")
		c.ControlSocket = r.socket
		return c, nil
	})
	if got := f.heard(); got != "1 NI is up" {
		t.Errorf("after one that did not %q", got)
	}
	for range 4 {
		<-r.states
	}
	r.stop(t)
	if got := f.heard(); got != "stopping" {
		t.Errorf("in the end %q", got)
	}
}

// Long lists are shown as the first names and the number of the others.
func TestSome(t *testing.T) {
	for n, want := range map[int]string{1: "a", 4: "a, a, a, a", 6: "a, a, a, a and 2 more"} {
		if got := listNames(strings.Split(strings.Repeat("a", n), "")); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	for n, want := range map[int]string{0: "no NI is up", 1: "1 NI is up", 2: "2 NIs are up"} {
		if got := count(n, "NI is up", "NIs are up"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// A start that waits for gateways announces its duration, because systemd would otherwise end it.
func TestStartMayBeLong(t *testing.T) {
	c := parse(t, "lnetd: {check_routers_before_use: 1, router_ping_timeout: 600}\n")
	c.ControlSocket = t.TempDir() + "/c.sock"
	r := runDaemon(t, c, Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24")))}, nil)
	if s := <-r.states; s != "EXTEND_TIMEOUT_USEC=630000000" {
		t.Errorf("systemd hears %q first", s)
	}
	r.ready(t)
	r.stop(t)
}
