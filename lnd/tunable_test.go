package lnd_test

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

type tuned struct{ Pause time.Duration }

func pauses() lnd.Fields[tuned] {
	return lnd.Fields[tuned]{lnd.NumberIn(func(c *tuned) *time.Duration { return &c.Pause }, lnd.Tunable{
		Name: "pause", Parameter: "pause", Max: 10, Unit: lnd.Seconds,
	})}
}

// An error names a number outside the range, even if it is so only by a fraction.
func TestFractionsOutsideTheRange(t *testing.T) {
	for pause, want := range map[time.Duration]string{
		0:                        "",
		500 * time.Millisecond:   "",
		10 * time.Second:         "",
		10*time.Second + 1:       "pause: 11 is not in 0 to 10",
		-1:                       "pause: -1 is not in 0 to 10",
		-500 * time.Millisecond:  "pause: -1 is not in 0 to 10",
		-time.Second:             "pause: -1 is not in 0 to 10",
		-1500 * time.Millisecond: "pause: -2 is not in 0 to 10",
	} {
		got := ""
		if err := pauses().Validate(&tuned{pause}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: %q, want %q", pause, got, want)
		}
	}
}

// A fraction of a unit is not shown as 0, which may mean something else.
func TestFractionsAreRounded(t *testing.T) {
	for pause, want := range map[time.Duration]int64{
		0: 0, 1: 1, 500 * time.Millisecond: 1, time.Second: 1, 1500 * time.Millisecond: 2, 10 * time.Second: 10,
	} {
		if got := pauses().Values(&tuned{pause})["pause"]; got != want {
			t.Errorf("%v is shown as %d, want %d", pause, got, want)
		}
	}
}
