package kernel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/control/client"
	"github.com/lnetd/lnetd/internal/daemon/daemontest"
	"github.com/lnetd/lnetd/internal/namespace"
)

// host is lnetd in a namespace of its own, with a cable to each of its networks.
type host struct {
	member
	*daemontest.Process
}

// Times after which routers are asked and given up, on both sides, in seconds.
const routerCheck, routerSilence = 2, 20

// route leads to a network by a gateway.
type route struct {
	to      int
	gateway string
}

// host runs lnetd, as a router if it is on both networks and forwards.
func (l *lab) host(t *testing.T, networks []int, forwards bool, routes ...route) *host {
	t.Helper()
	m := l.member(networks)
	name := fmt.Sprintf("%s-%d", l.name, m.number)
	namespace.New(t, name)
	for _, network := range networks {
		namespace.Cable(t, name, fmt.Sprintf("eth%d", network), address(network, m.number)+"/24",
			l.name, m.port(network), fmt.Sprintf("br%d", network))
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "control.sock")
	config := filepath.Join(t.TempDir(), "lnetd.yaml")
	if err := os.WriteFile(config, []byte(m.configuration(socket, forwards, routes)), 0o600); err != nil {
		t.Fatal(err)
	}
	return &host{member: m, Process: daemontest.Run(t, daemontest.Launch{
		Name: m.primary(), Namespace: name, Programs: dir, Socket: socket,
		Command: []string{filepath.Join(dir, "lnetd"), "--config", config},
	})}
}

func (m *member) configuration(socket string, forwards bool, routes []route) string {
	var b strings.Builder
	b.WriteString("net:\n")
	for _, network := range m.networks {
		fmt.Fprintf(&b, "    - {net type: %s, nid: %s}\n", lnetOf(network), m.nid(network))
	}
	if len(routes) > 0 {
		b.WriteString("route:\n")
	}
	for _, r := range routes {
		fmt.Fprintf(&b, "    - {net: %s, gateway: %s}\n", lnetOf(r.to), r.gateway)
	}
	fmt.Fprintf(&b, "lnetd:\n    control_socket: %s\n    selftest: {enabled: true}\n", socket)
	fmt.Fprintf(&b, "    alive_router_check_interval: %d\n    router_ping_timeout: %d\n", routerCheck, routerSilence)
	if forwards {
		b.WriteString("    forwarding: enabled\n")
	}
	return b.String()
}

// wantPing has lnetd ping a NID until it answers.
func (h *host) wantPing(t *testing.T, to string) {
	t.Helper()
	h.within(t, []string{"ping", "--timeout", pingTimeout, to}, to)
}

// wantDiscover has it find out which NIDs a member has.
func (h *host) wantDiscover(t *testing.T, of member) {
	t.Helper()
	want := []string{"Multi-Rail: true"}
	for _, network := range of.networks {
		want = append(want, of.nid(network))
	}
	h.within(t, []string{"discover", of.primary()}, want...)
}

// within repeats a command until it succeeds and says all this.
func (h *host) within(t *testing.T, command []string, says ...string) {
	t.Helper()
	daemontest.Within(t, patience, fmt.Sprintf("%s: %v", h.Name, command), func() error {
		out, status := h.Ctl(t, command...)
		return saysAll(out, status, says)
	})
}

// lst runs a test from a client to a server, driven by lnetd, which must see no
// error.
func (h *host) lst(t *testing.T, from, to string, test ...string) {
	t.Helper()
	h.Must(t, append([]string{"lst", "quick", "--from", from, "--to", to, "--time", "2s", "--concurrency", "4"}, test...)...)
}

// traffic is how many messages have left by the NI on a network.
func (h *host) traffic(t *testing.T, network int) uint64 {
	t.Helper()
	c := client.New(h.Socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nets, err := c.Nets(ctx, lnetOf(network))
	if err != nil {
		t.Fatal(err)
	}
	return nets[0].NIs[0].Statistics.Sent
}

// wantCarrying waits until a load between a guest and us, in which nobody sees an
// error, goes over the given networks.
func (h *host) wantCarrying(t *testing.T, k *guest, networks ...int) {
	t.Helper()
	daemontest.Within(t, patience, fmt.Sprintf("load over %v", networks), func() error {
		var before [2]uint64
		for _, network := range networks {
			before[network] = h.traffic(t, network)
		}
		out, status := h.Ctl(t, "lst", "quick", "--from", h.primary(), "--to", k.primary(), "--time", "1s", "--size", "4K")
		if status != 0 {
			return fmt.Errorf("lst: status %d\n%s", status, out)
		}
		for _, network := range networks {
			if n := h.traffic(t, network) - before[network]; n < 20 {
				return fmt.Errorf("%d messages on %s", n, lnetOf(network))
			}
		}
		return nil
	})
}
