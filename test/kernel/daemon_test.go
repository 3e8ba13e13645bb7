package kernel

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// daemon is an lnetd, on any machine.
type daemon struct {
	member
	// ctl runs lnetdctl there, and returns stdout and the exit status.
	ctl func(t *testing.T, args ...string) (string, int)
}

// Intervals in seconds after which routers are pinged and considered down, on both sides.
const routerCheck, routerSilence = 2, 20

// route leads to a network by a gateway.
type route struct {
	to      int
	gateway string
}

// must runs a ctl command that must succeed.
func (d *daemon) must(t *testing.T, args ...string) string {
	t.Helper()
	out, status := d.ctl(t, args...)
	if status != 0 {
		t.Fatalf("lnetdctl %q on %s: status %d\n%s", args, d.primary(), status, out)
	}
	return out
}

func (m *member) configuration(socket string, forwards bool, routes []route) string {
	var b strings.Builder
	b.WriteString("net:\n")
	for _, network := range m.networks {
		fmt.Fprintf(&b, "    - {net type: %s, nid: %s}\n", m.lab.nets[network], m.nid(network))
	}
	if len(routes) > 0 {
		b.WriteString("route:\n")
	}
	for _, r := range routes {
		fmt.Fprintf(&b, "    - {net: %s, gateway: %s}\n", m.lab.nets[r.to], r.gateway)
	}
	fmt.Fprintf(&b, "lnetd:\n    control_socket: %s\n    selftest: {enabled: true}\n", socket)
	fmt.Fprintf(&b, "    alive_router_check_interval: %d\n    router_ping_timeout: %d\n", routerCheck, routerSilence)
	if forwards {
		b.WriteString("    forwarding: enabled\n")
	}
	return b.String()
}

// wantPing makes lnetd ping a NID until it answers.
func (d *daemon) wantPing(t *testing.T, to string) {
	t.Helper()
	d.within(t, []string{"ping", "--timeout", pingTimeout, to}, to)
}

// wantDiscover makes lnetd discover the NIDs of a member.
func (d *daemon) wantDiscover(t *testing.T, of member) {
	t.Helper()
	want := []string{"Multi-Rail: true"}
	for _, network := range of.networks {
		want = append(want, of.nid(network))
	}
	d.within(t, []string{"discover", of.primary()}, want...)
}

// within repeats a command until it succeeds and prints all of says.
func (d *daemon) within(t *testing.T, command []string, says ...string) {
	t.Helper()
	daemontest.Within(t, patience, fmt.Sprintf("%s: %v", d.primary(), command), func() error {
		out, status := d.ctl(t, command...)
		return saysAll(out, status, says)
	})
}

// lst runs a test from a client to a server, controlled by lnetd. No errors may occur.
func (d *daemon) lst(t *testing.T, from, to string, test ...string) {
	t.Helper()
	d.must(t, append([]string{"lst", "quick", "--from", from, "--to", to, "--time", "2s", "--concurrency", "4"}, test...)...)
}

// traffic returns the number of messages that were sent by the NI on a network.
func (d *daemon) traffic(t *testing.T, network int) uint64 {
	t.Helper()
	var shown api.Nets
	if err := json.Unmarshal([]byte(d.must(t, "--json", "net", "show", "--net", d.lab.nets[network])), &shown); err != nil {
		t.Fatal(err)
	}
	return shown.Nets[0].NIs[0].Statistics.Sent
}

// wantCarrying waits until a load between a guest and us uses the given networks. No errors may
// occur.
func (d *daemon) wantCarrying(t *testing.T, k *guest, networks ...int) {
	t.Helper()
	daemontest.Within(t, patience, fmt.Sprintf("load over %v", networks), func() error {
		var before [2]uint64
		for _, network := range networks {
			before[network] = d.traffic(t, network)
		}
		out, status := d.ctl(t, "lst", "quick", "--from", d.primary(), "--to", k.primary(), "--time", "1s", "--size", "4K")
		if status != 0 {
			return fmt.Errorf("lst: status %d\n%s", status, out)
		}
		for _, network := range networks {
			if n := d.traffic(t, network) - before[network]; n < 20 {
				return fmt.Errorf("%d messages on %s", n, d.lab.nets[network])
			}
		}
		return nil
	})
}
