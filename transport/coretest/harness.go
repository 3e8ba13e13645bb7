package coretest

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// Harness is what a Core's test supplies.
type Harness struct {
	// New makes a network of n hosts for one case; what it made, t.Cleanup takes down.
	// Required.
	New func(t *testing.T, n int) *Network
	// Bubble runs a case where time is simulated (synctest.Test); nil runs it in real time.
	// Then messages between two hosts must keep their order while they are small.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Strict says that the Core complains of what LNet loses in silence, as mem does with
	// Config.Strict.
	Strict bool
	// Limits are what the Core's domains must say; zero: LNet's.
	Limits transport.Limits
	// Patience bounds the wait for what must happen; 0: 10 s. It must exceed the Core's
	// time-outs.
	Patience time.Duration
	// Allocations says that messages and bulk in steady state must allocate nothing, on
	// both sides together, and that this can be measured: not with the race detector.
	Allocations bool
	// PageSize and CopyMemory are those that Limits must have, if Limits is zero.
	PageSize, CopyMemory int
	// Own has all buffers be in memory of the program, not in that of Domain.Buffer, though the
	// Core copies such.
	Own bool
	// Posts is how often each case of group Order posts a buffer and has a peer use it at
	// once; 0: 200.
	Posts int
	// Only, if not nil, chooses the cases to run, by the group and the name.
	Only func(group, name string) bool
}

// Network is the hosts of one case.
type Network struct {
	Hosts []Host
}

// Host is one of them.
type Host struct {
	// Core is the host's. Hosts that can only talk to themselves, by 0@lo, are one and the
	// same.
	Core transport.Core
	// NID is where its TMs are started.
	NID lnet.NID
}

// scenario is a case: a story that a stage plays.
type scenario struct {
	name  string
	hosts int // 0: two
	run   func(s *stage)
	// silent and strict are for Cores that do not complain, and for those that do, alone.
	silent, strict bool
}

// Run runs the suite.
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
				t.Run(c.name, func(t *testing.T) { c.play(t, &h) })
			}
		})
	}
	if h.Allocations {
		t.Run("Allocations", func(t *testing.T) { allocations(t, &h) })
	}
}

func (c *scenario) play(t *testing.T, h *Harness) {
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
