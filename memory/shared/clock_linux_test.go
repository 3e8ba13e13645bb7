package shared

import (
	"testing"
	"time"
)

// TestClockBothWays converts times in both directions.
func TestClockBothWays(t *testing.T) {
	c := ReadClock()
	for _, d := range []time.Duration{-time.Hour, 0, 1, time.Hour} {
		at := c.base.Add(d)
		ns := c.Reading(at)
		if ns-c.zero != int64(d) {
			t.Errorf("%v after the base: %d ns", d, ns-c.zero)
		}
		if back := c.Time(ns); !back.Equal(at) || back.Sub(at) != 0 {
			t.Errorf("%v after the base: %v comes back as %v", d, at, back)
		}
		if ahead := c.Ahead(5).Reading(at); ahead != ns+5 {
			t.Errorf("%v after the base: %d ns ahead instead of 5", d, ahead-ns)
		}
	}
}

// TestClockAndNow orders converted times between readings of the clock.
func TestClockAndNow(t *testing.T) {
	c := ReadClock()
	for range 1000 {
		before := Now()
		now := time.Now()
		after := Now()
		// Half a reading of the clock is well below a microsecond, unless the process was interrupted.
		const least = int64(time.Millisecond)
		if got := c.Reading(now); got < before-least || got > after+least {
			t.Fatalf("%d is not from %d to %d", got, before, after)
		}
	}
}
