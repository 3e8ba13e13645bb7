package netns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// world is hosts and the networks between them. Each host is a namespace. Another namespace has the
// switches.
type world struct {
	id    string // begins the names of its namespaces
	hosts int
}

// worlds gives each world of this process a different number.
var worlds atomic.Int32

// namespaces is the prefix of the names of all namespaces of these tests. A process ID follows.
const namespaces = "lnetd-"

// newWorld creates networks 0 to n-1 without hosts.
func newWorld(t *testing.T, n int) *world {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedCommand(t, "ip", "iproute2")
	testenv.NeedCommand(t, "nft", "nftables")
	w := &world{id: fmt.Sprintf("%s%d-%d-", namespaces, os.Getpid(), worlds.Add(1))}
	namespace.New(t, w.room())
	for k := range n {
		namespace.IP(t, "-n", w.room(), "link", "add", bridge(k), "type", "bridge")
		namespace.IP(t, "-n", w.room(), "link", "set", bridge(k), "up")
	}
	return w
}

func (w *world) room() string { return w.id + "room" }

func bridge(network int) string { return fmt.Sprintf("net%d", network) }

// host is a namespace with one interface, eth0 and so on, for each of its networks.
type host struct {
	world    *world
	name     string // of the namespace
	number   int
	networks []int
	dir      string // for the host's sockets and files
}

// host adds a host on the given networks.
func (w *world) host(t *testing.T, networks ...int) *host {
	t.Helper()
	w.hosts++
	h := &host{world: w, name: w.id + strconv.Itoa(w.hosts), number: w.hosts, networks: networks, dir: t.TempDir()}
	// Another user may run the programs there.
	if err := os.Chmod(filepath.Dir(h.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	namespace.New(t, h.name)
	for k, network := range networks {
		namespace.Cable(t, h.name, fmt.Sprintf("eth%d", k), h.addr(network)+"/24", w.room(), h.port(network), bridge(network))
	}
	return h
}

// pair creates two hosts on one network.
func pair(t *testing.T) (a, b *host) {
	t.Helper()
	w := newWorld(t, 1)
	return w.host(t, 0), w.host(t, 0)
}

// port returns the name of the host's port at a network's switch.
func (h *host) port(network int) string { return ports(network) + strconv.Itoa(h.number) }

// ports returns the prefix of all port names of a network's switch.
func ports(network int) string { return fmt.Sprintf("n%dh", network) }

// addr returns the host's address on a network.
func (h *host) addr(network int) string { return fmt.Sprintf("10.213.%d.%d", network, h.number) }

// lnetOf returns the LNet net of a network.
func lnetOf(network int) string {
	if network == 0 {
		return "tcp"
	}
	return fmt.Sprintf("tcp%d", network)
}

// nid returns the host's NID on its first network.
func (h *host) nid() string { return h.nidOn(h.networks[0]) }

func (h *host) nidOn(network int) string { return h.addr(network) + "@" + lnetOf(network) }

// pull cuts the cables between hosts and a network: their interfaces lose the carrier.
func pull(t *testing.T, network int, hosts ...*host) {
	t.Helper()
	for _, h := range hosts {
		namespace.IP(t, "-n", h.world.room(), "link", "set", h.port(network), "down")
	}
}

// plug undoes pull.
func plug(t *testing.T, network int, hosts ...*host) {
	t.Helper()
	for _, h := range hosts {
		namespace.IP(t, "-n", h.world.room(), "link", "set", h.port(network), "up")
	}
}

// blackHole makes a network's switch drop every frame, without notice to the hosts. mend ends that.
func (w *world) blackHole(t *testing.T, network int) (mend func()) {
	t.Helper()
	table := fmt.Sprintf("hole%d", network)
	w.nft(t, fmt.Sprintf("add table bridge %s\n"+
		"add chain bridge %[1]s frames { type filter hook forward priority 0; }\n"+
		"add rule bridge %[1]s frames oifname \"%s*\" drop\n", table, ports(network)))
	return func() {
		t.Helper()
		w.nft(t, "delete table bridge "+table+"\n")
	}
}

// shrink makes a network's switch drop every frame with a packet of more than the given number of bytes, without
// notice to the hosts. mend ends that.
func (w *world) shrink(t *testing.T, network, bytes int) (mend func()) {
	t.Helper()
	table := fmt.Sprintf("narrow%d", network)
	w.nft(t, fmt.Sprintf("add table bridge %s\n"+
		"add chain bridge %[1]s frames { type filter hook forward priority 0; }\n"+
		"add rule bridge %[1]s frames oifname \"%s*\" meta length > %d drop\n", table, ports(network), bytes))
	return func() {
		t.Helper()
		w.nft(t, "delete table bridge "+table+"\n")
	}
}

func (w *world) nft(t *testing.T, rules string) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", w.room(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s\n%s", err, rules, out)
	}
}
