package verbs

import "time"

// Spin determines how long a CQ is polled before its waiter sleeps. The time grows up to a limit while polling
// finds completions, and shrinks while it finds none. The zero value starts with 0. Spin is for implementations
// of CQ.Wait, of which only one call runs at a time.
type Spin struct{ now time.Duration }

// spinSteps is how often the limit is halved before the time becomes 0.
const spinSteps = 6

// Time returns how long to poll now, which is at most limit.
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

// Found records that completions were found, by polling or without waiting. This makes the next time longer, up
// to limit.
func (s *Spin) Found(limit time.Duration) {
	s.now = min(max(2*s.now, limit>>(spinSteps-1)), max(limit, 0))
}

// Missed records that polling found no completions. This makes the next time shorter.
func (s *Spin) Missed() { s.now /= 2 }
