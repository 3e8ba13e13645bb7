package remote

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock converts times of lnetd's CLOCK_MONOTONIC to time.Time. The wall clock reading is based on the wall
// clock when the domain was opened. The results have a monotonic reading, so they compare with time.Now.
type clock struct {
	base time.Time
	zero int64 // lnetd's clock at base, in ns
}

// monotonic returns CLOCK_MONOTONIC in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // exists on every Linux
	return t.Nano()
}

// readings is the number of attempts to read both clocks without a delay in between.
const readings = 8

// newClock returns a clock, given lnetd's time now, which was read between two local times. Usually both
// processes share one clock. If now is not between before and after, as in another time namespace, newClock
// adds the offset.
func newClock(before, after int64, now uint64) clock {
	var c clock
	least := int64(-1)
	for range readings {
		m := monotonic()
		t := time.Now()
		if gap := monotonic() - m; least < 0 || gap < least {
			least = gap
			c = clock{base: t, zero: m + gap/2}
		}
	}
	if theirs := int64(now); theirs < before || theirs > after {
		c.zero += theirs - (before + (after-before)/2)
	}
	return c
}

// at converts a time of lnetd's clock, in nanoseconds.
func (c *clock) at(ns uint64) time.Time { return c.base.Add(time.Duration(int64(ns) - c.zero)) }
