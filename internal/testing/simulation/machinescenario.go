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
	// messageMax and messageMin are the longest and shortest length of a message in bytes.
	messageMax = 1 << 10
	messageMin = messageHeader + transport.LargeDescriptorSize
	// payloadMin is the smallest bulk transfer in bytes. The checker needs 8 bytes to identify the stream.
	payloadMin = 8
)

// machineSlotPlan is the part of a scenario that describes one slot for transfer machines.
type machineSlotPlan struct {
	rail        int    // the rail of the machines' NID; loopback: 0@lo
	number      uint16 // the machines' number; transport.Dynamic: any number
	synchronous bool   // the program delivers the events (synchronous delivery)
	pooled      bool   // the receive queue is filled from the pool
	colour      uint32
	queueLength int // number of receive buffers
	size        int // bytes of each receive buffer
	maxMessages int
}

// loopback stands for 0@lo where a rail is expected.
const loopback = -1

// machinePlan is the part of a scenario that describes the transfer machines and their traffic.
type machinePlan struct {
	slots        [][]machineSlotPlan // by member
	agents       int                 // agents that generate their traffic
	actions      int                 // actions of all agents together
	payloadMax   int                 // largest bulk transfer in bytes
	extraBuffers int                 // number of buffers in a pool in addition to those in receive queues
	timeoutMax   time.Duration       // longest timeout
}

// drawMachines draws the transfer machines. Half of the scenarios have some, and routers never do. It
// uses separate random numbers, so that the rest of the scenario does not depend on the machines.
func (s *scenario) drawMachines() {
	r := rand.New(rand.NewPCG(s.seed, 0x7a))
	p := &s.machines
	p.slots = make([][]machineSlotPlan, s.nodes)
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
			p.slots[k] = append(p.slots[k], s.drawMachineSlot(r, k, uint16(j+1)))
		}
	}
	p.agents = 1 + r.IntN(3)
	p.actions = 40 + r.IntN(160)
	p.payloadMax = 32 << 10
	if r.IntN(8) == 0 {
		p.payloadMax = lnet.MTU
		p.actions /= 2
	}
	p.extraBuffers = r.IntN(3)
	p.timeoutMax = time.Duration(1+r.IntN(10)) * time.Second
}

// drawMachineSlot draws a slot of member k.
func (s *scenario) drawMachineSlot(r *rand.Rand, k int, number uint16) machineSlotPlan {
	b := machineSlotPlan{
		rail: s.homes[k][r.IntN(len(s.homes[k]))], number: number,
		synchronous: r.IntN(3) == 0, pooled: r.IntN(3) > 0, colour: uint32(r.IntN(3)),
		queueLength: 2 + r.IntN(4), size: messageMax << r.IntN(4), maxMessages: 1 + r.IntN(8),
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

// operationWithin is the time limit for the final event of a buffer. For sends and active transfers it
// runs from Add. For receive and passive buffers it runs from the cancellation or the deadline.
func (s *scenario) operationWithin() time.Duration {
	return max(s.sendWithin(), s.responseWithin()) + s.discoverWithin() + s.slack()
}
