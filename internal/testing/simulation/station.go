package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// station is the transport layer of a life: a domain on its node, a pool, and berths.
type station struct {
	life   *life
	domain *transport.Domain
	pool   *transport.Pool
	berths []*berth

	// Guarded by world.mu.
	small, large []*crate // free ones
	crates       []*crate // all, except the pool's
	machines     []*machine
	closing      bool // enter returns false
	users        int  // callers between enter and leave
}

const (
	smallCrates = 12 // for messages
	largeCrates = 8  // for bulk
)

// openStation creates the station of a life, if the scenario has machines.
func (l *life) openStation() {
	w, plans := l.member.w, l.member.w.machines.berths[l.member.index]
	if len(plans) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := transport.NewDomain(ctx, inproc.New(l.node))
	if err != nil {
		w.violate("%v: domain: %v", l, err)
		return
	}
	s := &station{life: l, domain: d}
	s.openPool(ctx, plans)
	for range smallCrates {
		s.addCrate(w.newRegion(letterMax, 1), &s.small)
	}
	for k := range largeCrates {
		pieces := 1
		if k%2 == 0 && w.machines.cargoMax < 1<<20 { // otherwise there are too many segments
			pieces = 1 + k
		}
		s.addCrate(w.newRegion(w.machines.cargoMax, pieces), &s.large)
	}
	for k, plan := range plans {
		s.berths = append(s.berths, &berth{station: s, index: k, berthPlan: plan, turn: make(chan struct{}, 1)})
	}
	l.station = s
	for _, b := range s.berths {
		b.start()
	}
}

// newRegion allocates memory that finish releases.
func (w *world) newRegion(n, pieces int) *region {
	r := w.memory.region(n, pieces)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.regions = append(w.regions, r)
	return r
}

// openPool creates a pool with buffers for all berths that use one.
func (s *station) openPool(ctx context.Context, plans []berthPlan) {
	w := s.life.member.w
	n, size := w.machines.spare, 0
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

// enter keeps the station open until leave. It returns false if the station is closing. w.mu is not held.
func (s *station) enter() bool {
	s.life.member.w.mu.Lock()
	defer s.life.member.w.mu.Unlock()
	if s.closing {
		return false
	}
	s.users++
	return true
}

func (s *station) leave() {
	s.life.member.w.mu.Lock()
	defer s.life.member.w.mu.Unlock()
	s.users--
}

// shut makes enter return false from now on.
func (s *station) shut() {
	s.life.member.w.mu.Lock()
	defer s.life.member.w.mu.Unlock()
	s.closing = true
}

// vacate ends all machines of a running node, and checks that none of their entries remain.
func (s *station) vacate() {
	w := s.life.member.w
	s.shut()
	s.await("users to leave", func() bool { return s.users == 0 })
	for _, b := range s.berths {
		b.stop(b.index%2 == 0)
	}
	claim, err := s.life.node.Claim(portalMachines, 0, ^uint64(0))
	if err != nil {
		w.violate("%v: all machines have ended, and yet: %v", s.life, err)
		return
	}
	s.life.node.Unclaim(claim)
	w.countDeed(DeedVacated)
}

// close closes the station of a closed node. Its running machines must have failed.
func (s *station) close() {
	w := s.life.member.w
	s.shut()
	s.await("users to leave", func() bool { return s.users == 0 })
	for _, b := range s.berths {
		b.fall()
	}
	for _, m := range s.machines {
		m.audit()
	}
	for _, c := range s.crates {
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

// await waits until f returns true, and records a violation if that takes too long. f is called with w.mu
// held.
func (s *station) await(what string, f func() bool) bool {
	w := s.life.member.w
	deadline := w.since() + w.operationWithin() + patience
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

// renew deregisters a free crate and registers it again.
func (s *station) renew(r *rand.Rand) {
	w := s.life.member.w
	from := &s.small
	if r.IntN(2) == 0 {
		from = &s.large
	}
	c := s.take(from, 1)
	if c == nil {
		return
	}
	c.inspect()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.domain.Deregister(c.buffer); err != nil {
		w.violate("%v: deregister: %v", s.life, err)
	}
	if err := s.domain.Register(ctx, c.buffer); err != nil {
		if s.life.running() {
			w.violate("%v: register again: %v", s.life, err)
		}
		s.forget(c)
		return
	}
	w.countDeed(DeedRegistered)
	s.giveBack(c)
}

// forget removes a crate from the station's list.
func (s *station) forget(c *crate) {
	w := s.life.member.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, other := range s.crates {
		if other == c {
			s.crates = append(s.crates[:k:k], s.crates[k+1:]...)
			return
		}
	}
}

// starve takes buffers out of the pool for a while.
func (s *station) starve(r *rand.Rand) {
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

// countDeed counts an action. w.mu is not held.
func (w *world) countDeed(d Deed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Deeds[d]++
}
