package shm

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_MONOTONIC in nanoseconds, by which processes of one host tell each other times.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // exists on every Linux
	return t.Nano()
}

// maxReadings is the number of attempts to read both clocks without a delay in between.
const maxReadings = 8

// Clock converts between CLOCK_MONOTONIC and time.Time. Copies are equal. Use ReadClock to get one.
type Clock struct {
	base time.Time
	zero int64 // CLOCK_MONOTONIC at base
}

// ReadClock returns a Clock. Its conversions are exact up to half the time that one reading of a clock takes,
// unless the process was interrupted in each of several attempts.
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

// Time converts a reading of CLOCK_MONOTONIC. The result has a monotonic reading, so it compares with
// time.Now. Its wall clock reading follows the wall clock as it was at the time of ReadClock.
func (c Clock) Time(ns int64) time.Time { return c.base.Add(time.Duration(ns - c.zero)) }

// Reading converts a time that has a monotonic reading, such as a result of time.Now.
func (c Clock) Reading(t time.Time) int64 { return c.zero + int64(t.Sub(c.base)) }

// Ahead returns a Clock for readings that are ns ahead of CLOCK_MONOTONIC.
func (c Clock) Ahead(ns int64) Clock { return Clock{c.base, c.zero + ns} }
