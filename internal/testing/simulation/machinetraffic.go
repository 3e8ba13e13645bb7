package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// machineTraffic performs one agent's share of the transfer machines' actions.
func (w *world) machineTraffic(r *rand.Rand) {
	share := w.machines.actions / w.machines.agents
	pace := pace{gap: float64(w.duration) / float64(share), bursts: 12, longest: 12}
	for range share {
		pace.wait(r)
		b := w.drawMachineSlot(r)
		if b == nil || !b.layer.enter() {
			continue
		}
		w.performAction(r, b)
		b.layer.leave()
	}
}

// drawMachineSlot draws a slot of a running node with transfer machines. It returns nil if it finds no
// such node.
func (w *world) drawMachineSlot(r *rand.Rand) *machineSlot {
	l := w.members[r.IntN(len(w.members))].current()
	for k := 0; k < len(w.members) && (l == nil || l.transport == nil); k++ {
		l = w.members[r.IntN(len(w.members))].current()
	}
	if l == nil || l.transport == nil {
		return nil
	}
	return l.transport.machineSlots[r.IntN(len(l.transport.machineSlots))]
}

// performAction performs a random action in a slot: start, stop or disturb its machine, or send a
// message or bulk data.
func (w *world) performAction(r *rand.Rand, b *machineSlot) {
	m := b.running()
	what := r.IntN(60)
	if m == nil {
		b.start()
		return
	}
	switch {
	case what < 3:
		b.stop(r.IntN(2) == 0)
		if r.IntN(3) > 0 {
			pause(time.Duration(r.Int64N(int64(time.Second))))
		}
		b.start()
		return
	case what < 6:
		b.layer.emptyPool(r)
		return
	case what < 9:
		b.layer.reregister(r)
		return
	case what < 13:
		b.layer.cancelSome(r)
		return
	case what < 15:
		m.resize(r)
		return
	}
	to, a := w.drawReceiver(r, m)
	if what < 35 {
		m.announce(r, to, a, r.IntN(2) == 0, false)
		return
	}
	m.ask(r, to, a, false)
}

// resize changes the length of the machine's receive queue, and restores it after a while.
func (m *machine) resize(r *rand.Rand) {
	w := m.world()
	for _, n := range [...]int{1 + r.IntN(8), m.queueLength} {
		if err := m.tm.SetQueueLength(n); err != nil {
			w.mu.Lock()
			if !m.mayRefuse(err) {
				w.violate("%v: queue length %d: %v", m, n, err)
			}
			w.mu.Unlock()
		}
		if m.tm.Deficit() > 0 {
			w.countAction(ActionNoBuffers)
		}
		pause(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
	}
}

// cancelSome cancels about a third of the buffers in use.
func (s *transportLayer) cancelSome(r *rand.Rand) {
	w := s.life.member.w
	w.mu.Lock()
	var loans []*loan
	for _, c := range s.buffers {
		if c.loan != nil && r.IntN(3) == 0 {
			loans = append(loans, c.loan)
		}
	}
	w.mu.Unlock()
	for _, l := range loans {
		l.cancel()
	}
}

// drawReceiver draws the receiver of a message from m: the address of a machine that m may send to, and
// its member. It returns m itself if it finds no other.
func (w *world) drawReceiver(r *rand.Rand, m *machine) (*member, transport.Address) {
	self := m.layer.life.member
	w.mu.Lock()
	defer w.mu.Unlock()
	to, a := self, m.address
	for range 8 {
		to = w.members[r.IntN(len(w.members))]
		if len(to.addresses) == 0 {
			continue
		}
		a = to.addresses[r.IntN(len(to.addresses))]
		if a != (transport.Address{}) && w.maySend(m.address.NID, a.NID, self == to) {
			return to, a
		}
	}
	return self, m.address
}

// maySend reports whether a machine with NID from may send to a machine with NID to. same is set if both
// are on one member. Without routers, it excludes targets on other nets if the scenario has no faults,
// because messages to them would fail.
func (w *world) maySend(from, to lnet.NID, same bool) bool {
	if from.IsLoopback() || to.IsLoopback() {
		return same && from == to
	}
	return w.routers > 0 || !w.faultless() || from.Net() == to.Net()
}
