package mem_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/coretest"
	"github.com/lnetd/lnetd/transport/mem"
)

var posts = flag.Int("posts", 0, "how often the cases of group Order of TestConformance post a buffer; 0: 200")

// TestConformance runs the conformance suite for Cores on various networks.
//
// r.m0.net.xprt.lnet.user-space
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts func(t *testing.T, n int) *coretest.Network
		h     coretest.Harness
	}{
		{"Lossy", hosts(mem.Config{}), coretest.Harness{Bubble: synctest.Test}},
		{"Strict", hosts(mem.Config{Strict: true}), coretest.Harness{Bubble: synctest.Test, Strict: true}},
		{"LargeNIDs", largeHosts, coretest.Harness{Bubble: synctest.Test, Limits: largeLimits}},
		{"Loopback", loopbackHost, coretest.Harness{Bubble: synctest.Test}},
		{"RealTime", hosts(mem.Config{}), coretest.Harness{Allocations: true}},
	} {
		if testenv.Race && c.name != "Strict" {
			continue // the others run the same goroutines
		}
		t.Run(c.name, func(t *testing.T) {
			c.h.New = c.hosts
			c.h.Posts = *posts
			coretest.Run(t, c.h)
		})
	}
}

// hosts returns networks of hosts with one NID each.
func hosts(c mem.Config) func(t *testing.T, n int) *coretest.Network {
	return func(_ *testing.T, n int) *coretest.Network {
		network, world := mem.New(c), &coretest.Network{}
		for i := range n {
			at := nid(uint32(i + 1))
			world.Hosts = append(world.Hosts, coretest.Host{Core: network.Host(at), NID: at})
		}
		return world
	}
}

// largeHosts returns networks like those of hosts, but with NIDs of 16 bytes.
func largeHosts(t *testing.T, n int) *coretest.Network {
	network, world := mem.New(mem.Config{}), &coretest.Network{}
	for i := range n {
		at, err := lnet.ParseNID(fmt.Sprintf("fd00::%x@tcp", i+1))
		if err != nil {
			t.Fatal(err)
		}
		world.Hosts = append(world.Hosts, coretest.Host{Core: network.Host(at), NID: at})
	}
	return world
}

var largeLimits = transport.Limits{
	BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256,
	DescriptorSize: transport.LargeDescriptorSize, Confine: runtime.GOOS == "linux", Synchronous: true,
}

// loopbackHost returns a network on which a single host, reached by 0@lo, takes the place of all n hosts.
func loopbackHost(_ *testing.T, n int) *coretest.Network {
	core, world := mem.New(mem.Config{}).Host(), &coretest.Network{}
	for range n {
		world.Hosts = append(world.Hosts, coretest.Host{Core: core, NID: lnet.LoopbackNID})
	}
	return world
}
