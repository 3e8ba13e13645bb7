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
	// letterMax and letterMin are the longest and shortest length of a letter in bytes.
	letterMax = 1 << 10
	letterMin = letterHead + transport.LargeDescriptorSize
	// cargoMin is the smallest bulk transfer in bytes, because the first word identifies the stream.
	cargoMin = 8
)

// berthPlan is a seed's plan for one berth.
type berthPlan struct {
	rail        int    // the rail of its NID; loopback: 0@lo
	number      uint16 // transport.Dynamic: any
	synchronous bool   // events are delivered by the program
	pooled      bool   // it uses the station's pool
	colour      uint32
	queueLength int // number of receive buffers
	size        int // bytes of each receive buffer
	maxMessages int
}

// loopback stands for 0@lo where a rail is expected.
const loopback = -1

// machinePlan is a seed's plan for the transfer machines in a scenario.
type machinePlan struct {
	berths   [][]berthPlan // by member
	couriers int           // agents that generate their traffic
	errands  int           // actions of all couriers together
	cargoMax int           // largest bulk transfer in bytes
	spare    int           // buffers in a pool beyond those that its machines hold
	alert    time.Duration // longest timeout
}

// drawMachines draws the machines, in half of the scenarios. Routers get no machines. It uses separate random
// numbers, so the rest of the scenario does not depend on the machines.
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

// machineColours is the number of colours of a pool.
const machineColours = 2

// operationWithin is the time limit for operations with other nodes. It runs from Add, or for operations
// that wait for the peer from the request to end them, to the final event.
func (s *scenario) operationWithin() time.Duration {
	return max(s.sendWithin(), s.responseWithin()) + s.discoverWithin() + s.slack()
}
