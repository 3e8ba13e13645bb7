package remote

import "github.com/lnetd/lnetd/transport/shm"

// newClock returns a clock that converts lnetd's times to local ones. now is lnetd's time, which lnetd has
// read between the local times before and after. Usually both processes share one clock, and now is between
// these. If it is not, as in another time namespace, lnetd's clock is ahead by the difference.
func newClock(before, after, now int64) shm.Clock {
	c := shm.ReadClock()
	if now < before || now > after {
		c = c.Ahead(now - (before + (after-before)/2))
	}
	return c
}
