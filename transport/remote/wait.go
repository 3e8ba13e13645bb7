package remote

import (
	"runtime"
	"time"

	"github.com/lnetd/lnetd/transport/shm"
)

// Wait polls for a while if configured, and then sleeps: in the ring, where lnetd wakes it, or in waitAside
// if lnetd is gone.
func (t *tm) Wait(until time.Time) {
	defer t.woken.Store(false)
	if t.Pending() || t.poll > 0 && t.polled(until) {
		return
	}
	if !t.ended.Load() && t.gate.enter() {
		err := t.ring.Completions.Wait(until)
		t.gate.leave()
		if err == nil {
			return
		}
	}
	t.waitAside(until)
}

const (
	// looks is the number of checks, with a yield after each, between two readings of the clock.
	looks = 16
	// leastPoll is the divisor of Config.PollTime that yields the shortest time of polling.
	leastPoll = 16
)

// polled polls for a while, and reports whether Wait can return. The time is halved after each failure and
// doubled after each success.
func (t *tm) polled(until time.Time) bool {
	most := t.domain.core.config.PollTime
	end := time.Now().Add(t.poll)
	if !until.IsZero() && until.Before(end) {
		end = until
	}
	for {
		for range looks {
			if t.Pending() || t.woken.Load() {
				t.poll = min(2*t.poll, most)
				return true
			}
			shm.Yield()
		}
		if !time.Now().Before(end) {
			t.poll = max(t.poll/2, most/leastPoll)
			return false
		}
		runtime.Gosched()
	}
}

// waitAside waits without the ring. It is used between the end of the ring and the call of fall, which
// calls Wake, and after the end was reaped.
func (t *tm) waitAside(until time.Time) {
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
