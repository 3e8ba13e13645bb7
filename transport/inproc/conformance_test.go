package inproc

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport/coretest"
)

var posts = flag.Int("posts", 0, "how often the cases of group Order of TestConformance post a buffer; 0: 200")

// TestConformance runs the conformance suite for Cores on nodes with various networks.
//
// r.M0.net.xprt.lnet.kernel
// r.m0.net.xprt.lnet.user-space
func TestConformance(t *testing.T) {
	lan := simlnd.Config{Seed: 1, Link: simlnd.Link{Latency: 50 * time.Microsecond, Jitter: 20 * time.Microsecond, Bandwidth: 1 << 30}}
	bad := simlnd.Config{Seed: 2, Link: simlnd.Link{Latency: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.02}}
	for _, c := range []struct {
		name  string
		nodes func(t *testing.T, n int) []*node.Node
		h     coretest.Harness
	}{
		{"Perfect", inMemory(simConfig), coretest.Harness{Bubble: synctest.Test, Patience: 10 * time.Minute}},
		{"LAN", inMemory(lan), coretest.Harness{Bubble: synctest.Test, Patience: 10 * time.Minute}},
		{"Lossy", inMemory(bad), coretest.Harness{Bubble: synctest.Test, Patience: 10 * time.Minute}},
		{"Loopback", func(t *testing.T, _ int) []*node.Node { return []*node.Node{newNode(t)} }, coretest.Harness{Bubble: synctest.Test}},
		{"RDMA", overRDMA, coretest.Harness{Bubble: synctest.Test, Patience: 10 * time.Minute}},
		{"TCP", func(t *testing.T, n int) []*node.Node { return overTCP(t, n) }, coretest.Harness{Allocations: !testenv.Race}},
	} {
		if testenv.Race && (c.name == "Perfect" || c.name == "Lossy") {
			continue // LAN runs the same goroutines
		}
		t.Run(c.name, func(t *testing.T) {
			if c.name != "TCP" { // parallel tests would disturb it
				t.Parallel()
			}
			c.h.New = func(t *testing.T, n int) *coretest.Network {
				nodes, world := c.nodes(t, n), &coretest.Network{}
				for _, n := range nodes {
					nis := n.NIs()
					world.Hosts = append(world.Hosts, coretest.Host{Core: New(n), NID: nis[len(nis)-1].NID})
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

func inMemory(c simlnd.Config) func(t *testing.T, n int) []*node.Node {
	return func(t *testing.T, n int) []*node.Node {
		var addresses []string
		for k := range n {
			addresses = append(addresses, fmt.Sprintf("10.3.0.%d", k+1))
		}
		return simulated(t, c, nil, addresses...)
	}
}
