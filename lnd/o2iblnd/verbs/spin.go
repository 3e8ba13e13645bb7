package verbs

import "time"

// Spin adapts how long a CQ is looked at before its waiter sleeps: Limit while that pays, and
// ever less while it does not. The zero value never spins. It is for
// implementations of CQ.Wait, which have one caller.
type Spin struct{ now time.Duration }

// spinSteps is how often the time is halved before nothing is left of it.
const spinSteps = 6

// Time is how long to look on now, of at most limit.
func (s *Spin) Time(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	s.now = min(s.now, limit)
	if s.now < limit>>spinSteps {
		return 0
	}
	return s.now
}

// Found says that looking on has found something, or that it was there at once: the
// next look is longer.
func (s *Spin) Found(limit time.Duration) {
	s.now = min(max(2*s.now, limit>>(spinSteps-1)), max(limit, 0))
}

// Missed says that it was in vain: the next look is shorter.
func (s *Spin) Missed() { s.now /= 2 }
