//go:build !race

// The race detector's own work would count too.

package cost

import (
	"testing"
	"testing/synctest"
	"time"
)

// Timers that fire are wake-ups, whether each has a goroutine or not. Timers that do not fire are none.
func TestWakeupsCountTimers(t *testing.T) {
	const timers = 400
	synctest.Test(t, func(t *testing.T) {
		quiet := Wakeups(func() { time.Sleep(time.Minute) })
		var all []*time.Timer
		for range timers {
			all = append(all, time.AfterFunc(10*time.Second, func() {}))
		}
		functions := Wakeups(func() { time.Sleep(time.Minute) })
		for _, x := range all {
			x.Reset(time.Hour)
		}
		later := Wakeups(func() { time.Sleep(time.Minute) })
		for _, x := range all {
			x.Stop()
		}
		for range timers {
			go time.Sleep(30 * time.Second)
		}
		synctest.Wait()
		goroutines := Wakeups(func() { time.Sleep(time.Minute) })
		for _, c := range []struct {
			name      string
			got       uint64
			low, high uint64
		}{
			{"no timers", quiet, 0, timers / 4},
			{"functions", functions, timers / 4, 4 * timers},
			{"timers that do not fire", later, 0, timers / 4},
			{"goroutines", goroutines, timers / 4, 4 * timers},
		} {
			t.Logf("%s: %d wake-ups", c.name, c.got)
			if c.got < c.low || c.got > c.high {
				t.Errorf("%s: %d wake-ups, want %d to %d", c.name, c.got, c.low, c.high)
			}
		}
	})
}
