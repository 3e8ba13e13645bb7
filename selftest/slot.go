package selftest

import (
	"sync/atomic"
	"time"
)

// slot makes the RPCs of a client test to one destination, one at a time. It has a unit for that. If the RPC
// of the unit is stuck on a path that the node now avoids (node.Detour), another unit takes over the slot,
// and the first unit ends when its RPC ends. So nothing is sent twice or given up, the load continues on
// working paths, and soon after the repair the number of RPCs in progress is the same as before. This
// deviates from kernels, whose load stops until the path works again.
type slot struct {
	first unit
	// spareUnits are additional units, created when they are first needed. current is the unit that has the
	// slot: it begins the RPCs. seen is the number of RPCs that this unit had begun at the last check, and since
	// is the session time from which on this number has not changed. The framework's goroutine owns these
	// fields.
	spareUnits []*unit
	current    *unit
	seen       uint32
	since      time.Duration
	// left is the number of RPCs still to begin. If it is endless or more, it does not decrease.
	left atomic.Uint32
	// working is the number of units that have the slot or an RPC in progress. test.mu guards it.
	working int
}

const (
	// stuckCheckInterval is the interval at which look searches for stuck RPCs.
	stuckCheckInterval = 250 * time.Millisecond
	// stuckTime is the minimum duration of an RPC that counts as stuck.
	stuckTime = time.Second
	// peerDetectionTime is the maximum time by which the peer may notice later than this node that a path has failed.
	// Until then it may have sent replies on this path.
	peerDetectionTime = 2 * time.Second
	// maxSpareUnits is the maximum number of additional units of a slot: one in case an RPC was in progress
	// before this node noticed the failure, and one in case the peer answered an RPC before it noticed.
	maxSpareUnits = 2
)

// begin gives the slot to its first unit and sets the number of RPCs. No unit of the test may be running.
func (p *slot) begin(loop uint32) {
	p.left.Store(loop)
	p.current, p.seen = &p.first, 0
	p.working = 1 // no unit of the test is running, so no lock is needed
	p.first.works = true
	p.first.held.Store(false)
	p.first.begun.Store(0)
}

// take reserves one of the RPCs that are left, which the caller must begin. It returns false if no RPC is
// left.
func (p *slot) take() bool {
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

// leave records that unit u has ended. When the last unit of the slot has ended, the slot ends.
func (p *slot) leave(u *unit) {
	t := u.test
	t.mu.Lock()
	u.works = false
	p.working--
	over := p.working == 0
	t.mu.Unlock()
	if over {
		t.slotEnded()
	}
}

// isStuck reports whether the RPC of the unit that has the slot has been in progress for at least stuckTime.
// now is a time since the start of the session.
func (p *slot) isStuck(now time.Duration) bool {
	u := p.current
	if n := u.begun.Load(); n != p.seen || u.phase.Load() != phaseWaiting {
		p.seen, p.since = n, now
	}
	return now-p.since >= stuckTime
}

// switchUnit gives the slot to another unit and returns this unit, which the caller must run. It returns nil
// if no unit is free, no RPC is left, or the test is stopping.
func (p *slot) switchUnit() *unit {
	t := p.current.test
	t.mu.Lock()
	defer t.mu.Unlock()
	if !p.current.works || t.stopping.Load() || p.left.Load() == 0 {
		return nil
	}
	u := p.free()
	if u == nil {
		return nil
	}
	p.working++
	u.works = true
	u.held.Store(false)
	p.current.held.Store(true)
	p.current, p.seen = u, u.begun.Load()
	return u
}

// free returns a unit of the slot that is not working, or a new one if the limits permit, or nil. The caller
// holds test.mu.
func (p *slot) free() *unit {
	if !p.first.works {
		return &p.first
	}
	for _, u := range p.spareUnits {
		if !u.works {
			return u
		}
	}
	a, t := p.first.agent, p.first.test
	if len(p.spareUnits) == maxSpareUnits {
		return nil
	}
	if a.units.Add(1) > int64(a.config.MaxUnits) {
		a.units.Add(-1)
		return nil
	}
	u := new(unit)
	u.init(a, t, p, p.first.call.To)
	u.latency = p.first.latency
	p.spareUnits = append(p.spareUnits, u)
	t.spareUnits++
	return u
}

// checkStuck searches the tests of all running batches for stuck RPCs. If no batch is running, it stops the ticker
// that triggers it.
func (a *Agent) checkStuck() {
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
				t.checkStuck(now)
			}
		}
	}
	if !running {
		a.stuckTicker.Stop()
	}
}

// checkStuck makes another unit take over each slot of the test whose RPC is stuck. now is a time since the
// start of the session.
func (t *test) checkStuck(now time.Duration) {
	var ready []*unit
	for k := range t.slots {
		p := &t.slots[k]
		if !p.isStuck(now) {
			continue
		}
		a := p.first.agent
		known, ok := a.node.Detour(p.first.call.To.NID)
		if ok && p.since <= now-known+peerDetectionTime {
			if u := p.switchUnit(); u != nil {
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
