package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// transportLayer is what a life has on top of its node: a domain, a pool, and slots for transfer
// machines.
type transportLayer struct {
	life         *life
	domain       *transport.Domain
	pool         *transport.Pool
	machineSlots []*machineSlot

	// Guarded by world.mu.
	small, large []*trackedBuffer // free buffers, for messages and for bulk
	buffers      []*trackedBuffer // all buffers except the pool's
	machines     []*machine
	closing      bool // enter returns false
	users        int  // number of callers between enter and leave
}

const (
	smallBuffers = 12 // for messages
	largeBuffers = 8  // for bulk
)

// openTransport creates the transport layer of a life and starts its machines. It does nothing if the
// scenario has no machines for this member.
func (l *life) openTransport() {
	w, plans := l.member.w, l.member.w.machines.slots[l.member.index]
	if len(plans) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	d, err := transport.NewDomain(ctx, inproc.New(l.node))
	if err != nil {
		w.violate("%v: domain: %v", l, err)
		return
	}
	s := &transportLayer{life: l, domain: d}
	s.openPool(ctx, plans)
	for range smallBuffers {
		s.addBuffer(w.newRegion(messageMax, 1), &s.small)
	}
	for k := range largeBuffers {
		pieces := 1
		if k%2 == 0 && w.machines.payloadMax < 1<<20 { // otherwise there are too many segments
			pieces = 1 + k
		}
		s.addBuffer(w.newRegion(w.machines.payloadMax, pieces), &s.large)
	}
	for k, plan := range plans {
		s.machineSlots = append(s.machineSlots, &machineSlot{layer: s, index: k, machineSlotPlan: plan, changing: make(chan struct{}, 1)})
	}
	l.transport = s
	for _, b := range s.machineSlots {
		b.start()
	}
}

// newRegion returns memory from the pool. finish releases it.
func (w *world) newRegion(n, pieces int) *region {
	r := w.memory.region(n, pieces)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.regions = append(w.regions, r)
	return r
}

// openPool creates a pool with buffers for all slots that use one. It creates none if no slot does.
func (s *transportLayer) openPool(ctx context.Context, plans []machineSlotPlan) {
	w := s.life.member.w
	n, size := w.machines.extraBuffers, 0
	for _, p := range plans {
		if p.pooled {
			n += p.queueLength
			size = max(size, p.size)
		}
	}
	if size == 0 {
		return
	}
	segment := min(size, s.domain.Limits().SegmentSize)
	p, err := s.domain.NewPool(transport.PoolConfig{
		Segments: (size + segment - 1) / segment, SegmentSize: segment, Colours: machineColours,
	})
	if err != nil {
		w.violate("%v: pool: %v", s.life, err)
		return
	}
	s.pool = p
	if got, err := p.Provision(ctx, n); err != nil {
		w.violate("%v: provision: %d of %d buffers, %v", s.life, got, n, err)
	}
}

// enter prevents that the transport layer is closed until leave is called. It returns false if the layer
// is closing already. w.mu is not held.
func (s *transportLayer) enter() bool {
	s.life.member.w.mu.Lock()
	defer s.life.member.w.mu.Unlock()
	if s.closing {
		return false
	}
	s.users++
	return true
}

func (s *transportLayer) leave() {
	s.life.member.w.mu.Lock()
	defer s.life.member.w.mu.Unlock()
	s.users--
}

// startClosing makes enter return false from now on.
func (s *transportLayer) startClosing() {
	s.life.member.w.mu.Lock()
	defer s.life.member.w.mu.Unlock()
	s.closing = true
}

// stopAll stops all machines of a running node, and checks that none of their match entries remain.
func (s *transportLayer) stopAll() {
	w := s.life.member.w
	s.startClosing()
	s.await("users to leave", func() bool { return s.users == 0 })
	for _, b := range s.machineSlots {
		b.stop(b.index%2 == 0)
	}
	claim, err := s.life.node.Claim(portalMachines, 0, ^uint64(0))
	if err != nil {
		w.violate("%v: all machines have ended, but their portal cannot be claimed: %v", s.life, err)
		return
	}
	s.life.node.Unclaim(claim)
	w.countAction(ActionAllStopped)
}

// close closes the transport layer after its node was closed. It checks that all running machines fail,
// that their statistics are right, and that all buffers were returned.
func (s *transportLayer) close() {
	w := s.life.member.w
	s.startClosing()
	s.await("users to leave", func() bool { return s.users == 0 })
	for _, b := range s.machineSlots {
		b.awaitFailure()
	}
	for _, m := range s.machines {
		m.checkStats()
	}
	for _, c := range s.buffers {
		c.inspect()
		if err := s.domain.Deregister(c.buffer); err != nil {
			w.violate("%v: deregister: %v", s.life, err)
		}
	}
	if s.pool != nil {
		if free, size := s.pool.Free(), s.pool.Size(); free != size {
			w.violate("%v: %d of %d buffers are in the pool", s.life, free, size)
		}
		if err := s.pool.Close(); err != nil {
			w.violate("%v: close pool: %v", s.life, err)
		}
	}
	if err := s.domain.Close(); err != nil {
		w.violate("%v: close domain: %v", s.life, err)
	}
}

// await waits until f returns true. It returns false and records a violation that names what if that
// takes too long. f is called with w.mu held.
func (s *transportLayer) await(what string, f func() bool) bool {
	w := s.life.member.w
	deadline := w.since() + w.operationWithin() + callTimeout
	for {
		w.mu.Lock()
		done := f()
		w.mu.Unlock()
		if done {
			return true
		}
		if w.since() > deadline {
			w.violate("%v: waits in vain for %s", s.life, what)
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// reregister deregisters a free buffer and registers it again.
func (s *transportLayer) reregister(r *rand.Rand) {
	w := s.life.member.w
	from := &s.small
	if r.IntN(2) == 0 {
		from = &s.large
	}
	c := s.takeFree(from, 1)
	if c == nil {
		return
	}
	c.inspect()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := s.domain.Deregister(c.buffer); err != nil {
		w.violate("%v: deregister: %v", s.life, err)
	}
	if err := s.domain.Register(ctx, c.buffer); err != nil {
		if s.life.running() {
			w.violate("%v: register again: %v", s.life, err)
		}
		s.removeBuffer(c)
		return
	}
	w.countAction(ActionReregistered)
	s.putFree(c)
}

// removeBuffer removes a buffer from the list of all buffers.
func (s *transportLayer) removeBuffer(c *trackedBuffer) {
	w := s.life.member.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, other := range s.buffers {
		if other == c {
			s.buffers = append(s.buffers[:k:k], s.buffers[k+1:]...)
			return
		}
	}
}

// emptyPool takes some buffers out of the pool, and returns them after up to two seconds.
func (s *transportLayer) emptyPool(r *rand.Rand) {
	if s.pool == nil || !s.enter() {
		return
	}
	w := s.life.member.w
	var taken []*transport.Buffer
	for range 1 + r.IntN(6) {
		if b := s.pool.Get(uint32(r.IntN(machineColours + 1))); b != nil {
			taken = append(taken, b)
		}
	}
	time.AfterFunc(time.Duration(r.Int64N(int64(2*time.Second))), func() {
		defer s.leave()
		for _, b := range taken {
			if err := s.pool.Put(b, transport.AnyColour); err != nil {
				w.violate("%v: put: %v", s.life, err)
			}
		}
	})
}

// countAction counts one action. w.mu is not held.
func (w *world) countAction(d Action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Actions[d]++
}
