package selftest

import (
	"sync/atomic"
	"time"
)

// place is what makes the concurrency of a test: one unit at a time makes RPCs
// there. When its RPC is held up on a way that this node goes round by now
// (node.Detour), another unit takes the place, and the first one leaves with the
// end of that RPC: nothing is sent twice or given up, the load goes on by the ways
// that work, and soon after the repair there are no more RPCs than before. It
// deviates from kernels, whose load stands still until the way works again.
type place struct {
	first unit
	// standIns are further units, made when they are first needed. They and turn,
	// the unit that is not held up, belong to the framework's goroutine, as does
	// what it has last seen: that so many RPCs had been begun, since a time of the
	// session.
	standIns []*unit
	turn     *unit
	seen     uint32
	since    time.Duration
	// left are the RPCs to be begun; from endless on they do not count.
	left atomic.Uint32
	// working are the units that have the place, or an RPC under way; test.mu
	// guards it.
	working int
}

const (
	// lookInterval is how often it is seen to RPCs that are held up.
	lookInterval = 250 * time.Millisecond
	// patience is how old an RPC is at least that counts as held up.
	patience = time.Second
	// settling is how long after this node the peer may find out that a way is in
	// trouble, and answer by it.
	settling = 2 * time.Second
	// maxStandIns is how many further units a place has: one for RPCs that were
	// under way when this node did not know of the trouble, and one for those that
	// the peer answered when it did not.
	maxStandIns = 2
)

// begin makes the first unit ready to run.
func (p *place) begin(loop uint32) {
	p.left.Store(loop)
	p.turn, p.seen = &p.first, 0
	p.working = 1 // nobody works at the test
	p.first.works = true
	p.first.held.Store(false)
	p.first.begun.Store(0)
}

// take takes an RPC to be begun; false if there is none.
func (p *place) take() bool {
	for {
		n := p.left.Load()
		switch {
		case n == 0:
			return false
		case n >= endless || p.left.CompareAndSwap(n, n-1):
			return true
		}
	}
}

// leave is called by each unit when it ends. Nobody works at a place without
// units.
func (p *place) leave(u *unit) {
	t := u.test
	t.mu.Lock()
	u.works = false
	p.working--
	over := p.working == 0
	t.mu.Unlock()
	if over {
		t.placeEnded()
	}
}

// late tells whether the RPC of the unit whose turn it is takes long. now is a time
// of the session.
func (p *place) late(now time.Duration) bool {
	u := p.turn
	if n := u.begun.Load(); n != p.seen || u.phase.Load() != phaseWaiting {
		p.seen, p.since = n, now
	}
	return now-p.since >= patience
}

// relieve gives the place to a unit that is free, and returns it to be run; nil if
// there is none, or nothing is left to do.
func (p *place) relieve() *unit {
	t := p.turn.test
	t.mu.Lock()
	defer t.mu.Unlock()
	if !p.turn.works || t.stopping.Load() || p.left.Load() == 0 {
		return nil
	}
	u := p.free()
	if u == nil {
		return nil
	}
	p.working++
	u.works = true
	u.held.Store(false)
	p.turn.held.Store(true)
	p.turn, p.seen = u, u.begun.Load()
	return u
}

// free is a unit that does not work, a new one if there may be more. test.mu is
// held.
func (p *place) free() *unit {
	if !p.first.works {
		return &p.first
	}
	for _, u := range p.standIns {
		if !u.works {
			return u
		}
	}
	a, t := p.first.agent, p.first.test
	if len(p.standIns) == maxStandIns {
		return nil
	}
	if a.units.Add(1) > int64(a.config.MaxUnits) {
		a.units.Add(-1)
		return nil
	}
	u := new(unit)
	u.init(a, t, p, p.first.call.To)
	u.latency = p.first.latency
	p.standIns = append(p.standIns, u)
	t.standIns++
	return u
}

// look sees to RPCs that are held up, as long as a batch runs.
func (a *Agent) look() {
	s := a.session
	running := false
	if s != nil {
		now := time.Since(s.made)
		for _, b := range s.batches {
			if !b.running() {
				continue
			}
			running = true
			for _, t := range b.tests {
				t.look(now)
			}
		}
	}
	if !running {
		a.looks.Stop()
	}
}

// look has stand-ins make RPCs in place of units that are held up.
func (t *test) look(now time.Duration) {
	var ready []*unit
	for k := range t.places {
		p := &t.places[k]
		if !p.late(now) {
			continue
		}
		a := p.first.agent
		known, ok := a.node.Detour(p.first.call.To.NID)
		if ok && p.since <= now-known+settling {
			if u := p.relieve(); u != nil {
				ready = append(ready, u)
			}
		}
	}
	if len(ready) > 0 {
		t.batch.session.agent.spawn(func() {
			for _, u := range ready {
				u.run()
			}
		})
	}
}
