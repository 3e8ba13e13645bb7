package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// courier generates one agent's share of the machines' traffic.
func (w *world) courier(r *rand.Rand) {
	share := w.machines.errands / w.machines.couriers
	pace := pace{gap: float64(w.duration) / float64(share), bursts: 12, longest: 12}
	for range share {
		pace.wait(r)
		b := w.drawBerth(r)
		if b == nil || !b.station.enter() {
			continue
		}
		w.carryOut(r, b)
		b.station.leave()
	}
}

// drawBerth draws a berth of a running life, or returns nil if the chosen member has none.
func (w *world) drawBerth(r *rand.Rand) *berth {
	l := w.members[r.IntN(len(w.members))].current()
	for k := 0; k < len(w.members) && (l == nil || l.station == nil); k++ {
		l = w.members[r.IntN(len(w.members))].current()
	}
	if l == nil || l.station == nil {
		return nil
	}
	return l.station.berths[r.IntN(len(l.station.berths))]
}

// carryOut performs a random action at a berth.
func (w *world) carryOut(r *rand.Rand, b *berth) {
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
		b.station.starve(r)
		return
	case what < 9:
		b.station.renew(r)
		return
	case what < 13:
		b.station.cancelSome(r)
		return
	case what < 15:
		m.resize(r)
		return
	}
	to, a := w.correspondent(r, m)
	if what < 35 {
		m.announce(r, to, a, r.IntN(2) == 0, false)
		return
	}
	m.ask(r, to, a, false)
}

// resize changes the length of the receive queue for a while.
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
			w.countDeed(DeedStarved)
		}
		pause(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
	}
}

// cancelSome cancels some of the buffers in use.
func (s *station) cancelSome(r *rand.Rand) {
	w := s.life.member.w
	w.mu.Lock()
	var loans []*loan
	for _, c := range s.crates {
		if c.loan != nil && r.IntN(3) == 0 {
			loans = append(loans, c.loan)
		}
	}
	w.mu.Unlock()
	for _, l := range loans {
		l.cancel()
	}
}

// correspondent draws the receiver of a letter: a machine that m can reach, or m itself.
func (w *world) correspondent(r *rand.Rand, m *machine) (*member, transport.Address) {
	self := m.station.life.member
	w.mu.Lock()
	defer w.mu.Unlock()
	to, a := self, m.address
	for range 8 {
		to = w.members[r.IntN(len(w.members))]
		if len(to.addresses) == 0 {
			continue
		}
		a = to.addresses[r.IntN(len(to.addresses))]
		if a != (transport.Address{}) && w.within(m.address.NID, a.NID, self == to) {
			return to, a
		}
	}
	return self, m.address
}

// within reports whether a machine may send to another one at its NID.
func (w *world) within(from, to lnet.NID, same bool) bool {
	if from.IsLoopback() || to.IsLoopback() {
		return same && from == to
	}
	return w.routers > 0 || !w.faultless() || from.Net() == to.Net()
}
