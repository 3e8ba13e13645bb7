package shared

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time of CLOCK_MONOTONIC in nanoseconds. Processes on one host use this clock when they
// exchange times.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail: every Linux has this clock
	return t.Nano()
}

// maxReadings is the number of attempts of ReadClock to read both clocks without an interruption in between.
const maxReadings = 8

// Clock converts between CLOCK_MONOTONIC and time.Time. ReadClock returns one. Copies of a Clock convert
// alike.
type Clock struct {
	base time.Time // time at which ReadClock was called
	zero int64     // CLOCK_MONOTONIC at that time
}

// ReadClock returns a Clock. The error of its conversions is at most half the time that reading a clock
// takes. It is larger only if the process was interrupted in each of several attempts.
func ReadClock() Clock {
	var c Clock
	least := int64(-1)
	for range maxReadings {
		before := Now()
		t := time.Now()
		if gap := Now() - before; least < 0 || gap < least {
			least = gap
			c = Clock{t, before + gap/2}
		}
	}
	return c
}

// Time converts a reading of CLOCK_MONOTONIC to a time. The result has a monotonic clock reading, so it can
// be compared with time.Now. Its wall clock reading does not follow changes of the wall clock after
// ReadClock.
func (c Clock) Time(ns int64) time.Time { return c.base.Add(time.Duration(ns - c.zero)) }

// Reading converts a time to a reading of CLOCK_MONOTONIC. The time must have a monotonic clock reading, as a
// result of time.Now does.
func (c Clock) Reading(t time.Time) int64 { return c.zero + int64(t.Sub(c.base)) }

// Ahead returns a Clock for the readings of a clock that is ns nanoseconds ahead of CLOCK_MONOTONIC.
func (c Clock) Ahead(ns int64) Clock { return Clock{c.base, c.zero + ns} }
