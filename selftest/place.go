package selftest

import (
	"sync/atomic"
	"time"
)

// place stands for one degree of concurrency of a test: one unit at a time makes RPCs for it. A unit's
// RPC may be stuck on a path that the node avoids by now (node.Detour). Then another unit takes over, and
// the first one leaves when its RPC ends. Nothing is sent twice or given up, the load continues on
// working paths, and soon after the repair the number of RPCs is the same as before. This deviates from
// kernels, whose load stops until the path works again.
type place struct {
	first unit
	// standIns are additional units, created when first needed. turn is the unit that currently makes
	// RPCs. seen is the number of RPCs that it had begun at the last check, and since is the session time
	// from which on that number is unchanged. These fields belong to the framework's goroutine.
	standIns []*unit
	turn     *unit
	seen     uint32
	since    time.Duration
	// left is the number of RPCs still to begin. From endless on, it does not decrease.
	left atomic.Uint32
	// working is the number of units that have the place or an RPC under way. test.mu guards it.
	working int
}

const (
	// lookInterval is the interval of the search for stuck RPCs.
	lookInterval = 250 * time.Millisecond
	// patience is the minimum age of an RPC that counts as stuck.
	patience = time.Second
	// settling is how much later than this node the peer may notice that a path has failed, and may still
	// have replied over it.
	settling = 2 * time.Second
	// maxStandIns is the number of additional units of a place: one for RPCs that were under way before
	// this node noticed the failure, and one for those that the peer answered before it noticed.
	maxStandIns = 2
)

// begin makes the first unit ready to run.
func (p *place) begin(loop uint32) {
	p.left.Store(loop)
	p.turn, p.seen = &p.first, 0
	p.working = 1 // no unit of the test runs
	p.first.works = true
	p.first.held.Store(false)
	p.first.begun.Store(0)
}

// take reserves an RPC to begin. It returns false if no RPC is left.
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

// leave is called by each unit when it ends. When the last one has left, the place ends.
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

// late reports whether the RPC of the current unit takes long. now is a time of the session.
func (p *place) late(now time.Duration) bool {
	u := p.turn
	if n := u.begun.Load(); n != p.seen || u.phase.Load() != phaseWaiting {
		p.seen, p.since = n, now
	}
	return now-p.since >= patience
}

// relieve gives the place to a free unit and returns that unit, which the caller must run. It returns nil
// if no unit is free or no RPC is left.
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

// free returns an idle unit, or a new one if the limit permits, or nil. The caller holds test.mu.
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

// look searches all running batches for stuck RPCs. Without a running batch, it stops the ticker.
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

// look starts stand-ins for the units of the test that are stuck.
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
