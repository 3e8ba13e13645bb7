package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnet"
)

// nodeRun is a node under test as seen by the control interface.
type nodeRun struct {
	*backend
	log    *daemontest.Log
	cancel context.CancelFunc
	// machine holds the host's interfaces, which resolve site rules.
	machine atomic.Pointer[[]config.Interface]
	done    chan error
}

func parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("t.yaml", []byte(text), AllDrivers().Options())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startNode starts a node with the configuration on a host with the interfaces eth0, 10.77.0.11,
// and eth1, 10.78.0.11, and no wire.
func startNode(t *testing.T, c config.Config) *nodeRun {
	t.Helper()
	return startNodeWith(t, c, Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24")))})
}

// twoInterfaces are those of startNode's host.
var twoInterfaces = []config.Interface{
	{Name: "lo", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Up: true, Loopback: true},
	{Name: "eth0", Addrs: []netip.Addr{netip.MustParseAddr("10.77.0.11")}, Up: true},
	{Name: "eth1", Addrs: []netip.Addr{netip.MustParseAddr("10.78.0.11")}, Up: true},
}

// startNodeWith is startNode with other drivers.
func startNodeWith(t *testing.T, c config.Config, drivers Drivers) *nodeRun {
	t.Helper()
	r := &nodeRun{log: &daemontest.Log{}, done: make(chan error, 1)}
	d := New(c, drivers, NewLogger(r.log, slog.LevelInfo, config.FormatJSON))
	task := newNodeTask(c, drivers, nil, d.log)
	r.machine.Store(&twoInterfaces)
	task.interfaces = func() ([]config.Interface, error) { return *r.machine.Load(), nil }
	r.backend = newBackend(d, task, nil, nil, nil)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- task.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// ready waits until the node is up.
func (r *nodeRun) ready(t *testing.T) *nodeRun {
	t.Helper()
	select {
	case <-r.node.Ready():
	case err := <-r.done:
		t.Fatalf("Run: %v", err)
	}
	t.Cleanup(func() {
		r.cancel()
		if err := <-r.done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// addNet adds NIs and ignores warnings.
func (r *nodeRun) addNet(t *testing.T, n api.NetAddition) error {
	t.Helper()
	_, err := r.AddNet(t.Context(), n)
	return err
}

// reload applies a document that was read again, in turn as Daemon does.
func (r *nodeRun) reload(t *testing.T, c config.Config) error {
	t.Helper()
	var err error
	if busy := r.InTurn(t.Context(), func() { _, err = r.node.reload(t.Context(), &c) }); busy != nil {
		t.Fatal(busy)
	}
	return err
}

// failSteps makes the node's steps fail as fail decides, none if it is nil.
func (r *nodeRun) failSteps(t *testing.T, fail func(config.Step) error) {
	t.Helper()
	if busy := r.InTurn(t.Context(), func() { r.node.failStep = fail }); busy != nil {
		t.Fatal(busy)
	}
}

// setLNet configures or unconfigures LNet, in turn as the server does.
func (r *nodeRun) setLNet(t *testing.T, l api.LNet) {
	t.Helper()
	var err error
	if busy := r.InTurn(t.Context(), func() { err = r.SetLNet(t.Context(), l) }); busy != nil {
		t.Fatal(busy)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// peers returns all peers of the node.
func (r *nodeRun) peers(t *testing.T) []api.Peer {
	t.Helper()
	var peers []api.Peer
	for p, err := range r.Peers(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		p.NIs = slices.Clone(p.NIs)
		peers = append(peers, p)
	}
	return peers
}

// peerText returns "primary=NID NID ... flags".
func peerText(p *api.Peer) string {
	s := p.Primary.String() + ":"
	for _, ni := range p.NIs {
		s += " " + ni.NID.String()
	}
	if p.MultiRail {
		s += " multi-rail"
	}
	if discovery.State(p.State).Has(discovery.Configured) {
		s += " configured"
	}
	if p.Gateway {
		s += " gateway"
	}
	return s
}

func peerTexts(peers []api.Peer) []string {
	var out []string
	for k := range peers {
		out = append(out, peerText(&peers[k]))
	}
	slices.Sort(out)
	return out
}

func nid(t *testing.T, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const twoNets = `
net:
  - net type: tcp
    interfaces: [eth0]
  - net type: tcp1
    interfaces: [eth1]
`
