package coretest

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// Harness contains the parameters of the suite for one Core.
type Harness struct {
	// New creates a network of n hosts for one test case. It must use t.Cleanup to release everything. It is
	// required.
	New func(t *testing.T, n int) *Network
	// Bubble runs a test case in simulated time, such as synctest.Test. If it is nil, the case runs in real
	// time, and the network must keep the order of small messages between two hosts.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Strict means that the Core reports losses that LNet does not report, as mem does with Config.Strict.
	Strict bool
	// Limits are the expected limits of the Core's domains. Zero means the limits of LNet.
	Limits transport.Limits
	// Patience is the maximum time to wait for an expected event. It must exceed the Core's time-outs. 0
	// means 10 s.
	Patience time.Duration
	// Allocations makes Run check that messages and bulk operations in steady state allocate nothing on
	// either side. It must be false with the race detector, with which allocations cannot be measured.
	Allocations bool
	// PageSize and CopyMemory are the expected values if Limits is zero.
	PageSize, CopyMemory int
	// Own makes the suite place all buffers in memory of the program instead of Domain.Buffer, even if the
	// Core then copies the data.
	Own bool
	// Posts is the number of times that each case of group Order adds a buffer that a peer then uses
	// immediately. 0 means 200.
	Posts int
	// Only, if not nil, selects the cases to run by group and name.
	Only func(group, name string) bool
}

// Network consists of the hosts of one test case.
type Network struct {
	Hosts []Host
}

// Host is a host of a Network.
type Host struct {
	// Core is the Core of the host. If a host can only reach itself, by 0@lo, all hosts must have the same
	// Core.
	Core transport.Core
	// NID is the NID at which the host's TMs are started.
	NID lnet.NID
}

// scenario is a test case that runs on a stage.
type scenario struct {
	name  string
	hosts int // number of hosts; 0 means two
	run   func(s *stage)
	// silent cases run only on Cores that lose data silently, strict cases only on Cores that report losses.
	silent, strict bool
}

// Run runs the suite on the Core of h, one subtest per group and case.
func Run(t *testing.T, h Harness) {
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	if h.Posts == 0 {
		h.Posts = 200
	}
	if h.Limits == (transport.Limits{}) {
		h.Limits = transport.Limits{
			BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256,
			DescriptorSize: 48, Confine: canConfine, Synchronous: true,
			PageSize: h.PageSize, CopyMemory: h.CopyMemory,
		}
	}
	groups := []struct {
		name  string
		cases []scenario
	}{
		{"Domain", domainCases},
		{"Buffer", bufferCases},
		{"Event", eventCases},
		{"Life", lifeCases},
		{"Message", messageCases},
		{"Several", severalCases},
		{"Bulk", bulkCases},
		{"Order", orderCases},
		{"Loss", lossCases},
		{"Timeout", timeoutCases},
		{"Synchronous", synchronousCases},
		{"Provisioning", provisioningCases},
		{"Dynamic", dynamicCases},
		{"Load", loadCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				if h.Only != nil && !h.Only(g.name, c.name) || c.silent && h.Strict || c.strict && !h.Strict {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					if g.name == "Timeout" && h.Bubble == nil {
						t.Parallel() // they only wait
					}
					c.runCase(t, &h)
				})
			}
		})
	}
	if h.Allocations {
		t.Run("Allocations", func(t *testing.T) { allocations(t, &h) })
	}
}

func (c *scenario) runCase(t *testing.T, h *Harness) {
	run := func(t *testing.T) {
		s := &stage{t: t, h: h, net: h.New(t, max(c.hosts, 2))}
		defer s.finish()
		c.run(s)
	}
	if h.Bubble == nil {
		run(t)
	} else {
		h.Bubble(t, run)
	}
}
