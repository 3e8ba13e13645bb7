package verbs

import "time"

// Spin adapts how long a CQ is polled before its waiter sleeps. The time grows up to a limit while
// polling finds completions, and shrinks while it does not. The zero value starts at 0. It is for
// implementations of CQ.Wait, which have one caller.
type Spin struct{ now time.Duration }

// spinSteps is how often the time is halved before it becomes 0.
const spinSteps = 6

// Time returns how long to poll now, at most limit.
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

// Found records that polling found completions, or that some were there at once. The next time is longer.
func (s *Spin) Found(limit time.Duration) {
	s.now = min(max(2*s.now, limit>>(spinSteps-1)), max(limit, 0))
}

// Missed records that polling found no completions. The next time is shorter.
func (s *Spin) Missed() { s.now /= 2 }
