package inproc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// static returns the parameters of a node without discovery.
func static() *node.Parameters {
	p := node.DefaultParameters()
	p.Discovery = discovery.Static
	return &p
}

// newNode returns a node with only 0@lo, which ends with the test.
func newNode(t testing.TB) *node.Node {
	t.Helper()
	n, err := node.New(node.Config{Parameters: static()})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, n)
	return n
}

func closeAfter(t testing.TB, n *node.Node) {
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// startNode returns a node with NIs, which ends with the test.
func startNode(t testing.TB, c node.Config, d lnd.Driver, nids ...string) *node.Node {
	t.Helper()
	n, err := node.Start(t.Context(), c, d, nids...)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, n)
	return n
}

// simulated returns a node for each address, on a network in memory.
func simulated(t testing.TB, c simlnd.Config, p *node.Parameters, addresses ...string) []*node.Node {
	t.Helper()
	fabric := simlnd.New(c)
	t.Cleanup(fabric.Close)
	var nodes []*node.Node
	for _, a := range addresses {
		d, err := simlnd.NewDriver(fabric.Host(a, a), socklnd.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, startNode(t, node.Config{Parameters: p}, d, a+"@tcp"))
	}
	return nodes
}

// overRDMA returns n nodes whose devices move payload by RDMA, and report forbidden accesses.
func overRDMA(t *testing.T, n int) []*node.Node {
	t.Helper()
	network := fabric.New(fabric.Config{Report: func(err error) { t.Error(err) }})
	t.Cleanup(network.Close)
	var nodes []*node.Node
	for k := range n {
		a := fmt.Sprintf("10.5.0.%d", k+1)
		c, proc := o2iblnd.DefaultConfig(), network.Host(a, a).Open()
		c.Provider, c.Host, c.Wall = proc, proc.Host(), proc.Wall
		d, err := o2iblnd.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(d.Close(), proc.Close()); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, startNode(t, node.Config{}, d, a+"@o2ib"))
	}
	return nodes
}

// overTCP returns n nodes on this machine.
func overTCP(t testing.TB, n int) []*node.Node {
	t.Helper()
	var addresses []string
	for k := range n {
		addresses = append(addresses, fmt.Sprintf("127.0.0.%d", k+1))
	}
	port, err := daemontest.FreePort(addresses...)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*node.Node
	for _, a := range addresses {
		d, err := socklnd.New(socklnd.UnprivilegedConfig(port))
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, startNode(t, node.Config{}, d, a+"@tcp"))
	}
	return nodes
}

// simConfig is a network in memory without delays.
var simConfig simlnd.Config

// loopback is the process ID by which a node reaches itself.
var loopback = lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}

// nidOf returns the first NID of a node other than 0@lo.
func nidOf(n *node.Node) lnet.NID { return n.NID() }

// at returns an address on a node.
func at(nid lnet.NID, portal uint32, id uint16) transport.Address {
	return transport.Address{NID: nid, PID: lnet.PIDLustre, Portal: portal, TMID: id}
}

// start starts a TM that ends with the test, unless it was stopped.
func start(t testing.TB, d *domain, a transport.Address) *queuedTM {
	t.Helper()
	c, err := d.StartTM(t.Context(), a, 64)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*queuedTM)
}

// submit submits ops.
func submit(t testing.TB, to *queuedTM, ops ...transport.Op) {
	t.Helper()
	if n, err := to.Submit(ops); n != len(ops) || err != nil {
		t.Fatalf("%d of %d ops: %v", n, len(ops), err)
	}
}

// next waits for the next completion.
func next(t testing.TB, of *queuedTM) transport.Completion {
	t.Helper()
	var c [1]transport.Completion
	for until := time.Now().Add(time.Minute); of.Reap(c[:]) == 0; of.Wait(until) {
		if time.Now().After(until) {
			t.Fatal("waited in vain for a completion")
		}
	}
	return c[0]
}
