package kernel

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/namespace"
)

// wire is what can be cut between a member and a network.
type wire struct {
	name       string
	pull, plug func(t *testing.T)
}

// middle is the guest's wire where neither end sees its carrier go.
func (g *guest) middle(t *testing.T, network int) wire {
	t.Helper()
	port := g.lab.tap(t, network)
	return wire{
		"in the middle",
		func(t *testing.T) { namespace.IP(t, "-n", g.lab.name, "link", "set", port, "nomaster") },
		func(t *testing.T) {
			namespace.IP(t, "-n", g.lab.name, "link", "set", port, "master", fmt.Sprintf("br%d", network))
		},
	}
}

// end is the guest's own, which sees it.
func (g *guest) end(network int) wire {
	link := func(state string) func(*testing.T) {
		return func(t *testing.T) { g.must(t, fmt.Sprintf("ip link set eth%d %s", network, state)) }
	}
	return wire{"at the kernel's end", link("down"), link("up")}
}

// end is lnetd's own, which sees its carrier go.
func (h *host) end(network int) wire {
	link := func(state string) func(*testing.T) {
		return func(t *testing.T) { namespace.IP(t, "-n", h.lab.name, "link", "set", h.port(network), state) }
	}
	return wire{"at lnetd's end", link("down"), link("up")}
}

// tap is the port of the laboratory's only guest at a network's bridge.
func (l *lab) tap(t *testing.T, network int) string {
	t.Helper()
	out, err := exec.Command("ip", "-n", l.name, "-o", "link", "show", "type", "tun").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.Fields(line)[1], ":")
		if strings.HasSuffix(name, fmt.Sprintf(".%d", network)) {
			return name
		}
	}
	t.Fatalf("no port of a guest on br%d:\n%s", network, out)
	return ""
}
