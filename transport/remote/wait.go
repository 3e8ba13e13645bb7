package remote

import (
	"runtime"
	"time"

	"github.com/lnetd/lnetd/transport/shm"
)

// Wait polls for a while if configured, and then sleeps: in the ring, where lnetd wakes it, or in waitWithoutRing
// if lnetd is gone.
func (t *tm) Wait(until time.Time) {
	defer t.woken.Store(false)
	if t.Pending() || t.pollTime > 0 && t.pollUntil(until) {
		return
	}
	if !t.drained.Load() && t.gate.enter() {
		err := t.ring.Completions.Wait(until)
		t.gate.leave()
		if err == nil {
			return
		}
	}
	t.waitWithoutRing(until)
}

const (
	// checksPerReading is the number of checks, with a yield after each, between two readings of the clock.
	checksPerReading = 16
	// minPoll is the divisor of Config.PollTime that yields the shortest time of polling.
	minPoll = 16
)

// pollUntil polls for a while, and reports whether Wait can return. The time is halved after each failure and
// doubled after each success.
func (t *tm) pollUntil(until time.Time) bool {
	most := t.domain.core.config.PollTime
	end := time.Now().Add(t.pollTime)
	if !until.IsZero() && until.Before(end) {
		end = until
	}
	for {
		for range checksPerReading {
			if t.Pending() || t.woken.Load() {
				t.pollTime = min(2*t.pollTime, most)
				return true
			}
			shm.Yield()
		}
		if !time.Now().Before(end) {
			t.pollTime = max(t.pollTime/2, most/minPoll)
			return false
		}
		runtime.Gosched()
	}
}

// waitWithoutRing waits without the ring. It is used between the end of the ring and the call of fall, which
// calls Wake, and after the end was reaped.
func (t *tm) waitWithoutRing(until time.Time) {
	var expired <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-t.tokens:
	case <-expired:
	}
}

// Wake ends the current Wait. If no Wait is running, the next one returns at once.
func (t *tm) Wake() {
	t.woken.Store(true)
	select {
	case t.tokens <- struct{}{}:
	default: // already holds a token
	}
	if t.gate.enter() {
		t.ring.Completions.Wake()
		t.gate.leave()
	}
}
