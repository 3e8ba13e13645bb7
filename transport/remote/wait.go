package remote

import (
	"runtime"
	"time"

	"github.com/lnetd/lnetd/memory/shared"
)

// Wait implements transport.CoreTM. If Config.PollTime is set, it first polls. Then it sleeps: in the ring,
// where lnetd can wake it, or in waitWithoutRing if lnetd is gone.
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
	// checksPerReading is the number of times that pollUntil checks and yields before it reads the clock
	// again.
	checksPerReading = 16
	// minPoll bounds how far pollUntil reduces the time: to Config.PollTime divided by minPoll.
	minPoll = 16
)

// pollUntil polls for t.pollTime, at most until the given time, and reports whether Wait can return. It
// halves t.pollTime if it finds nothing, and otherwise doubles it, up to Config.PollTime.
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
			shared.Yield()
		}
		if !time.Now().Before(end) {
			t.pollTime = max(t.pollTime/2, most/minPoll)
			return false
		}
		runtime.Gosched()
	}
}

// waitWithoutRing waits until Wake is called, or until the given time, where zero means no time limit. It is
// used when the ring has ended but markLost, which calls Wake, has not been called yet, and after Reap has
// reported the end.
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

// Wake ends the Wait that is in progress. If no Wait is in progress, the next Wait returns immediately.
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
