package remote_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/coretest"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote"
)

var posts = flag.Int("posts", 0, "how often the cases of group Order of TestConformance post a buffer; 0: 200")

// TestConformance runs the conformance suite for Cores over lnetds on various networks. Each host has an
// lnetd, and each domain is a connection to it.
//
// transport 9.12
// r.m0.net.xprt.lnet.user-space
// r.M0.net.xprt.lnet.user
// r.M0.net.xprt.lnet.efficient-user-to-kernel-comm
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts func(t testing.TB, n int) []host
		h     coretest.Harness
		c     remote.Config
	}{
		{name: "Memory", hosts: inMemory(mem.Config{}), h: coretest.Harness{Allocations: !testenv.Race}},
		{name: "Strict", hosts: inMemory(mem.Config{Strict: true}), h: coretest.Harness{Strict: true}},
		{name: "Polling", hosts: inMemory(mem.Config{}), c: remote.Config{PollTime: 50 * time.Microsecond}},
		{name: "Own", hosts: inMemory(mem.Config{}), h: coretest.Harness{Own: true, Allocations: !testenv.Race, Only: func(group, _ string) bool {
			return slices.Contains([]string{"Buffer", "Message", "Bulk", "Several"}, group) // those that check contents
		}}},
		{name: "Loopback", hosts: loopback},
		{name: "TCP", hosts: overTCP, h: coretest.Harness{Allocations: !testenv.Race}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.h.PageSize, c.h.CopyMemory, c.h.Patience = os.Getpagesize(), 64<<20, time.Minute // for a busy machine
			c.h.New = func(t *testing.T, n int) *coretest.Network {
				world := &coretest.Network{}
				for _, h := range c.hosts(t, n) {
					_, core := serve(t, h.core, clients.Config{PollTime: c.c.PollTime}, c.c)
					world.Hosts = append(world.Hosts, coretest.Host{Core: core, NID: h.nid})
				}
				for len(world.Hosts) < n { // one host plays all of them
					world.Hosts = append(world.Hosts, world.Hosts[0])
				}
				return world
			}
			c.h.Posts = *posts
			coretest.Run(t, c.h)
		})
	}
}

// host is the Core and the NID that an lnetd uses.
type host struct {
	core transport.Core
	nid  lnet.NID
}

// serve returns an lnetd that ends with the test, and a Core that uses it.
func serve(t testing.TB, core transport.Core, s clients.Config, c remote.Config) (*clients.Server, *remote.Core) {
	t.Helper()
	s.Core = core
	server, err := clients.New(s)
	if err != nil {
		t.Fatal(err)
	}
	c.Path = filepath.Join(testenv.SocketDir(t), "s")
	l, err := clients.Listen(c.Path, -1)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return server, remote.New(c)
}

// inMemory returns hosts on a network in memory.
func inMemory(c mem.Config) func(t testing.TB, n int) []host {
	return func(t testing.TB, n int) []host {
		network := mem.New(c)
		var hosts []host
		for k := range n {
			nid, err := lnet.ParseNID(fmt.Sprintf("10.6.0.%d@tcp", k+1))
			if err != nil {
				t.Fatal(err)
			}
			hosts = append(hosts, host{network.Host(nid), nid})
		}
		return hosts
	}
}

// loopback returns one host.
func loopback(testing.TB, int) []host {
	return []host{{mem.New(mem.Config{}).Host(), lnet.LoopbackNID}}
}

// overTCP returns nodes on this machine.
func overTCP(t testing.TB, n int) []host {
	t.Helper()
	var addresses []string
	for k := range n {
		addresses = append(addresses, fmt.Sprintf("127.0.0.%d", k+1))
	}
	port, err := daemontest.FreePort(addresses...)
	if err != nil {
		t.Fatal(err)
	}
	p := node.DefaultParameters()
	p.Discovery = discovery.Static
	var hosts []host
	for _, a := range addresses {
		d, err := socklnd.New(socklnd.UnprivilegedConfig(port))
		if err != nil {
			t.Fatal(err)
		}
		n, err := node.Start(t.Context(), node.Config{Parameters: &p}, d, a+"@tcp")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		hosts = append(hosts, host{inproc.New(n), n.NID()})
	}
	return hosts
}
