package remote

import (
	"runtime"
	"time"

	"github.com/lnetd/lnetd/transport/shm"
)

// Wait polls for a while, if it is to, and sleeps then: in the ring, where lnetd wakes it, or
// aside, when there is no lnetd any more.
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
	// looks is how often to look, and to offer the processor to others in between, between
	// two looks at the clock.
	looks = 16
	// leastPoll is what part of Config.PollTime remains when polling has been in vain often.
	leastPoll = 16
)

// polled looks for something to do for a while, and tells whether there is. The while gets
// shorter when that was in vain, and longer when it was not.
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

// waitAside waits without the ring: when lnetd has left that, until it is known that it is
// gone, which fall tells by Wake; and when that has been told, for who calls Wake then.
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

// Wake has the Wait that is under way return, wherever it waits, or else the next.
func (t *tm) Wake() {
	t.woken.Store(true)
	select {
	case t.tokens <- struct{}{}:
	default: // there is one
	}
	if t.gate.enter() {
		t.ring.Completions.Wake()
		t.gate.leave()
	}
}
