package clients

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport/shm"
)

// sharedPoller lets the TMs of a Server share the polling of their submission rings. One TM polls the rings of
// all, because polling by each would take processors from the clients that produce the submissions. The
// other TMs are parked until the polling TM finds something in their rings or their time is over. If the
// polling TM finds something in its own ring, it processes that and comes back. If this takes long, a TM
// that has been parked for maxParked polls in its place.
type sharedPoller struct {
	mu      sync.Mutex // guards the rest
	polling bool
	parked  []*tm
}

const (
	// pollsPerCheck is how many polls there are between two checks of the clock. After as many, the poller also
	// yields to other goroutines.
	pollsPerCheck = 16
	// minPollDivisor limits how far the poll time shrinks after polls in vain: to Config.PollTime / minPollDivisor.
	minPollDivisor = 16
	// maxParked is how long a parked TM relies on the polling TM.
	maxParked = 500 * time.Microsecond
)

// pollState is the polling state of a TM. Only the TM's goroutine uses it, except for wake.
type pollState struct {
	max, current time.Duration // how long to poll; 0: no polling
	wake         chan struct{} // has a capacity of one
	timer        *time.Timer
}

// newPolling returns the state for polling up to most.
func newPolling(most time.Duration) pollState {
	if most == 0 {
		return pollState{}
	}
	timer := time.NewTimer(most)
	timer.Stop()
	return pollState{max: most, current: most, wake: make(chan struct{}, 1), timer: timer}
}

// hasWork reports whether the TM has something to do. It also returns true if a page of the ring is
// missing: the TM's own goroutine must handle that.
func (t *tm) hasWork() bool {
	found := t.closing.Load()
	fault := memory.Guard(func() { found = found || t.ring.Submissions.Pending() })
	return found || fault != nil
}

// poll polls the ring for a while, or waits while another TM polls it. It reports whether submissions
// have come. The poll time shrinks when polling was in vain, and grows when it was not.
func (t *tm) poll() bool {
	if t.polling.max == 0 {
		return false
	}
	l := &t.client.server.poller
	end := time.Now().Add(t.polling.current)
	for !t.hasWork() && time.Now().Before(end) {
		if l.tryPoll(t) {
			l.pollAll(t, end)
		} else {
			t.park(min(time.Until(end), maxParked))
			l.unpark(t)
		}
	}
	if !t.ring.Submissions.Pending() {
		t.polling.current = max(t.polling.current/2, t.polling.max/minPollDivisor)
		return false
	}
	t.polling.current = min(2*t.polling.current, t.polling.max)
	return true
}

// park waits for a kick, for at most d.
func (t *tm) park(d time.Duration) {
	t.polling.timer.Reset(d)
	select {
	case <-t.polling.wake:
		t.polling.timer.Stop()
	case <-t.polling.timer.C:
	}
}

// tryPoll makes t the polling TM and returns true. If another TM polls already, it parks t and returns
// false.
func (l *sharedPoller) tryPoll(t *tm) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.polling {
		l.parked = append(l.parked, t)
		return false
	}
	l.polling = true
	return true
}

// unpark removes t from the parked TMs.
func (l *sharedPoller) unpark(t *tm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := slices.Index(l.parked, t); k >= 0 {
		l.parked = slices.Delete(l.parked, k, k+1)
	}
	select {
	case <-t.polling.wake: // a late kick
	default:
	}
}

// pollAll polls all rings until there is something in the ring of t, or until end. Then another TM may
// poll.
func (l *sharedPoller) pollAll(t *tm, end time.Time) {
	for n := 1; !t.hasWork(); n++ {
		if l.wakeMatching((*tm).hasWork) {
			runtime.Gosched() // its goroutine runs next on this processor
		}
		if n%pollsPerCheck == 0 && !time.Now().Before(end) {
			break
		}
		shm.Yield()
		if n%pollsPerCheck == 0 {
			runtime.Gosched()
		}
	}
	l.mu.Lock()
	l.polling = false
	l.mu.Unlock()
	if !t.ring.Submissions.Pending() {
		l.wakeFirst()
	}
}

// wakeFirst wakes the first parked TM, which polls next.
func (l *sharedPoller) wakeFirst() { l.wakeMatching(func(*tm) bool { return true }) }

// wakeMatching wakes the first parked TM for which be returns true. It reports whether there was one.
func (l *sharedPoller) wakeMatching(be func(t *tm) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := slices.IndexFunc(l.parked, be)
	if k < 0 {
		return false
	}
	l.parked[k].polling.wake <- struct{}{} // does not block: a TM is parked once, and drains kick
	l.parked = slices.Delete(l.parked, k, k+1)
	return true
}
