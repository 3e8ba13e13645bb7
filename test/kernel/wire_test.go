package kernel

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// wire is a connection between a member and a network that can be cut.
type wire struct {
	name       string
	pull, plug func(t *testing.T)
}

// middle cuts the machine's wire in the middle: neither end loses its carrier.
func (b *virtualMachine) middle(t *testing.T, network int) wire {
	t.Helper()
	port := b.port(t, network)
	return wire{
		"in the middle",
		func(t *testing.T) { namespace.IP(t, "-n", b.lab.name, "link", "set", port, "nomaster") },
		func(t *testing.T) {
			namespace.IP(t, "-n", b.lab.name, "link", "set", port, "master", fmt.Sprintf("br%d", network))
		},
	}
}

// end cuts the wire at the machine, which loses its carrier.
func (b *virtualMachine) end(network int) wire {
	link := func(state string) func(*testing.T) {
		return func(t *testing.T) { b.must(t, fmt.Sprintf("ip link set eth%d %s", network, state)) }
	}
	return wire{"at the kernel's end", link("down"), link("up")}
}

// end cuts the wire at lnetd, which loses its carrier.
func (h *host) end(network int) wire {
	link := func(state string) func(*testing.T) {
		return func(t *testing.T) { namespace.IP(t, "-n", h.lab.name, "link", "set", h.port(network), state) }
	}
	return wire{"at lnetd's end", link("down"), link("up")}
}

// port returns the bridge port at which the machine was last seen.
func (b *virtualMachine) port(t *testing.T, network int) string {
	t.Helper()
	address := strings.TrimSpace(b.must(t, fmt.Sprintf("ping -c 1 -W 5 %s >/dev/null; cat /sys/class/net/eth%d/address", address(network, bridge), network)))
	out, err := exec.Command("bridge", "-n", b.lab.name, "fdb", "show", "br", fmt.Sprintf("br%d", network)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == address && f[1] == "dev" {
			return f[2]
		}
	}
	t.Fatalf("%s, %s, is behind no port of br%d:\n%s", b.name, address, network, out)
	return ""
}

// bridge is the port number of the bridges themselves.
const bridge = 254
