package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

const (
	// portalMachines is the portal of all transfer machines.
	portalMachines = 34
	// letterMax is the longest message between them, and letterMin the shortest.
	letterMax = 1 << 10
	letterMin = letterHead + transport.LargeDescriptorSize
	// cargoMin is the least bulk: a stream is known by its first word.
	cargoMin = 8
)

// berthPlan is what a seed says of a place for transfer machines.
type berthPlan struct {
	rail        int    // whose NID it is at; loopback: 0@lo
	number      uint16 // transport.Dynamic: any
	synchronous bool   // events are delivered by the program
	pooled      bool   // it has a pool
	colour      uint32
	queueLength int // of receive buffers
	size        int // of each
	maxMessages int
}

// loopback is the rail of 0@lo.
const loopback = -1

// machinePlan is what a seed says of the transfer machines in a scenario.
type machinePlan struct {
	berths   [][]berthPlan // by member
	couriers int           // agents that make their traffic
	errands  int           // what these do in all
	cargoMax int           // the most bulk, in bytes
	spare    int           // buffers in a pool beyond what its machines hold
	alert    time.Duration // the longest time-out
}

// drawMachines draws the machines, in half of the scenarios; routers have none. It has a
// source of its own, so that the rest is the same with and without.
func (s *scenario) drawMachines() {
	r := rand.New(rand.NewPCG(s.seed, 0x7a))
	p := &s.machines
	p.berths = make([][]berthPlan, s.nodes)
	if r.IntN(2) == 0 {
		return
	}
	first := s.routers + r.IntN(s.nodes-s.routers-1)
	for k := s.routers; k < s.nodes; k++ {
		n := r.IntN(4)
		if k == first || k == first+1 {
			n = max(1, n)
		}
		for j := range n {
			p.berths[k] = append(p.berths[k], s.drawBerth(r, k, uint16(j+1)))
		}
	}
	p.couriers = 1 + r.IntN(3)
	p.errands = 40 + r.IntN(160)
	p.cargoMax = 32 << 10
	if r.IntN(8) == 0 {
		p.cargoMax = lnet.MTU
		p.errands /= 2
	}
	p.spare = r.IntN(3)
	p.alert = time.Duration(1+r.IntN(10)) * time.Second
}

// drawBerth draws a berth of member k.
func (s *scenario) drawBerth(r *rand.Rand, k int, number uint16) berthPlan {
	b := berthPlan{
		rail: s.homes[k][r.IntN(len(s.homes[k]))], number: number,
		synchronous: r.IntN(3) == 0, pooled: r.IntN(3) > 0, colour: uint32(r.IntN(3)),
		queueLength: 2 + r.IntN(4), size: letterMax << r.IntN(4), maxMessages: 1 + r.IntN(8),
	}
	if r.IntN(8) == 0 {
		b.rail = loopback
	}
	if r.IntN(3) == 0 {
		b.number = transport.Dynamic
	}
	if b.colour == machineColours {
		b.colour = transport.AnyColour
	}
	return b
}

// machineColours is how many colours pools have.
const machineColours = 2

// operationWithin bounds the time from an Add of what goes to another node, or from the
// wish that what comes from there should end, to the final event.
func (s *scenario) operationWithin() time.Duration {
	return max(s.sendWithin(), s.responseWithin()) + s.discoverWithin() + s.slack()
}
