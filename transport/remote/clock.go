package remote

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock says when something was by lnetd's CLOCK_MONOTONIC. Its times go with the wall
// clock as that was when the domain was opened, and compare with time.Now by the monotonic
// clock.
type clock struct {
	base time.Time
	zero int64 // what lnetd's clock had then, in ns
}

// monotonic is CLOCK_MONOTONIC, in ns.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // which every Linux has
	return t.Nano()
}

// readings is how often both clocks are read to find a moment at which nothing came between.
const readings = 8

// newClock makes a clock, of what lnetd's was between two times of our own: it is the same
// one, unless that time is not between them, as in another time namespace.
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

// at is a time of lnetd's clock, in ns.
func (c *clock) at(ns uint64) time.Time { return c.base.Add(time.Duration(int64(ns) - c.zero)) }
