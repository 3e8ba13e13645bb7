package prometheus

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// namespaces is the beginning of the names of the namespaces of these tests. A process ID follows.
const namespaces = "lnetd-prom-"

func TestMain(m *testing.M) {
	flag.Parse()
	namespace.Sweep(namespaces)
	os.Exit(m.Run())
}

// world is a namespace with a Prometheus (room), and hosts with an lnetd each. They have two
// networks: eth0 for LNet, and eth1 for scrapes, on which the room is too.
type world struct {
	id, programs string
	hosts        []*daemontest.Process
}

const (
	lnetNetwork   = 0
	scrapeNetwork = 1
	metricsPort   = 9989
)

// addr returns the address of a host, from 1 on, on a network.
func addr(network, host int) string { return fmt.Sprintf("10.214.%d.%d", network, host) }

// nid returns the NID of a host.
func nid(host int) string { return addr(lnetNetwork, host) + "@tcp" }

// instance returns the name of a host in Prometheus.
func instance(host int) string {
	return net.JoinHostPort(addr(scrapeNetwork, host), strconv.Itoa(metricsPort))
}

func (w *world) room() string         { return w.id + "room" }
func (w *world) name(host int) string { return w.id + strconv.Itoa(host) }

// newWorld creates the room and n hosts, and waits until their lnetds are ready.
func newWorld(t *testing.T, hosts int) *world {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedCommand(t, "ip", "iproute2")
	testenv.NeedCommand(t, "prometheus", "prometheus")
	w := &world{id: fmt.Sprintf("%s%d-", namespaces, os.Getpid()), programs: t.TempDir()}
	if err := daemontest.Build(w.programs); err != nil {
		t.Fatal(err)
	}
	namespace.New(t, w.room())
	for k := range 2 {
		namespace.IP(t, "-n", w.room(), "link", "add", bridge(k), "type", "bridge")
		namespace.IP(t, "-n", w.room(), "link", "set", bridge(k), "up")
	}
	namespace.IP(t, "-n", w.room(), "addr", "add", addr(scrapeNetwork, 254)+"/24", "dev", bridge(scrapeNetwork))
	for host := 1; host <= hosts; host++ {
		namespace.New(t, w.name(host))
		for k := range 2 {
			namespace.Cable(t, w.name(host), fmt.Sprintf("eth%d", k), addr(k, host)+"/24", w.room(), port(k, host), bridge(k))
		}
		w.hosts = append(w.hosts, w.start(t, host))
	}
	return w
}

func bridge(network int) string     { return fmt.Sprintf("net%d", network) }
func port(network, host int) string { return fmt.Sprintf("n%dh%d", network, host) }

// start runs a host's lnetd with LNet selftest enabled. The second host also has the metrics of
// other exporters.
func (w *world) start(t *testing.T, host int) *daemontest.Process {
	t.Helper()
	dir := t.TempDir()
	config, socket := filepath.Join(dir, "lnetd.yaml"), filepath.Join(dir, "c.sock")
	if err := os.WriteFile(config, []byte("lnetd: {selftest: {enabled: true}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return daemontest.Run(t, daemontest.Launch{
		Name: nid(host), Namespace: w.name(host), Programs: w.programs, Socket: socket,
		Command: []string{
			filepath.Join(w.programs, "lnetd"), "--config", config, "--net", "tcp(eth0)", "--control-socket", socket,
			"--metrics-addr", instance(host), fmt.Sprintf("--metrics.lustre-compat=%t", host == 2),
		},
	})
}

// host is the lnetd of a host.
func (w *world) host(n int) *daemontest.Process { return w.hosts[n-1] }

// link cuts a host's cable to the LNet network ("down"), or repairs it ("up").
func (w *world) link(t *testing.T, host int, state string) {
	t.Helper()
	namespace.IP(t, "-n", w.room(), "link", "set", port(lnetNetwork, host), state)
}

// dialTimeout is the time limit of a dial within a namespace.
const dialTimeout = 10 * time.Second

// dialIn returns a dialer whose connections are within a namespace.
func dialIn(name string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = namespace.Do(name, func() (err error) {
			conn, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}
}
