package remote

import "github.com/lnetd/lnetd/memory/shared"

// newClock returns a clock for lnetd's times, given lnetd's time now, which was read between two local times.
// Usually both processes share one clock. If now is not between before and after, as in another time
// namespace, the clock is ahead of the local one by the difference.
func newClock(before, after, now int64) shared.Clock {
	c := shared.ReadClock()
	if now < before || now > after {
		c = c.Ahead(now - (before + (after-before)/2))
	}
	return c
}
