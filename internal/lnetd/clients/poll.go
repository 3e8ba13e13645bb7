package clients

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/memory/shared"
)

// sharedPoller lets the TMs of a Server share the polling of their submission rings. At any time, one TM
// polls the rings of all TMs that wait for submissions. If each TM polled its own ring, they would take
// processors from the clients that produce the submissions. The other TMs are parked: their goroutines
// sleep until the polling TM finds a submission in their ring, or for at most maxParked. The polling TM
// stops polling when it finds a submission in its own ring. Another TM polls then.
type sharedPoller struct {
	mu      sync.Mutex // guards the fields below
	polling bool       // a TM polls now
	parked  []*tm      // the TMs that wait for the polling TM, in the order of their arrival
}

const (
	// pollsPerCheck is the number of polls after which the polling TM checks the clock and yields to other
	// goroutines.
	pollsPerCheck = 16
	// minPollDivisor limits how short the poll time of a TM becomes after polling that found nothing: it is
	// at least Config.PollTime / minPollDivisor.
	minPollDivisor = 16
	// maxParked is how long a TM stays parked at most. It then looks at its ring itself, and polls if no
	// other TM does.
	maxParked = 500 * time.Microsecond
)

// pollState is the polling state of a TM. Only the TM's goroutine uses it, except that the polling TM
// sends to wake.
type pollState struct {
	max, current time.Duration // the maximum and the current poll time; 0 means that the TM does not poll
	wake         chan struct{} // wakes the TM while it is parked; has a capacity of one
	timer        *time.Timer   // ends the time for which the TM is parked
}

// newPolling returns the polling state of a TM whose maximum poll time is most.
func newPolling(most time.Duration) pollState {
	if most == 0 {
		return pollState{}
	}
	timer := time.NewTimer(most)
	timer.Stop()
	return pollState{max: most, current: most, wake: make(chan struct{}, 1), timer: timer}
}

// hasWork reports whether the TM's goroutine has something to do: its submission ring has an entry, or the
// TM is closing. It also returns true if the client has removed a page of the ring, because the TM's own
// goroutine must handle that.
func (t *tm) hasWork() bool {
	found := t.closing.Load()
	fault := memory.Guard(func() { found = found || t.pending() })
	return found || fault != nil
}

// pending reports whether the client has made submissions, or has made room for kept completions.
func (t *tm) pending() bool {
	return t.ring.Submissions.Pending() || t.keeping.Load() && !t.ring.Completions.OverflowMarked()
}

// poll waits for submissions for the TM's current poll time, by polling its ring or by being parked while
// another TM polls it. It reports whether there are submissions. If so, the next poll time is longer;
// otherwise it is shorter.
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
	if !t.pending() {
		t.polling.current = max(t.polling.current/2, t.polling.max/minPollDivisor)
		return false
	}
	t.polling.current = min(2*t.polling.current, t.polling.max)
	return true
}

// park waits until the polling TM wakes t, for at most d.
func (t *tm) park(d time.Duration) {
	t.polling.timer.Reset(d)
	select {
	case <-t.polling.wake:
		t.polling.timer.Stop()
	case <-t.polling.timer.C:
	}
}

// tryPoll makes t the polling TM and returns true. If another TM is polling, it adds t to the parked TMs
// and returns false; the caller must call park and unpark then.
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

// unpark removes t from the parked TMs, and discards a wakeup that came after park returned.
func (l *sharedPoller) unpark(t *tm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := slices.Index(l.parked, t); k >= 0 {
		l.parked = slices.Delete(l.parked, k, k+1)
	}
	select {
	case <-t.polling.wake:
	default:
	}
}

// pollAll polls the ring of t and those of all parked TMs, and wakes parked TMs that have work. It returns
// when t has work, or at the time end. After that another TM may poll. If t has no submissions, pollAll
// wakes one to do so.
func (l *sharedPoller) pollAll(t *tm, end time.Time) {
	for n := 1; !t.hasWork(); n++ {
		if l.wakeMatching((*tm).hasWork) {
			runtime.Gosched() // the goroutine of the woken TM runs next on this processor
		}
		if n%pollsPerCheck == 0 && !time.Now().Before(end) {
			break
		}
		shared.Yield()
		if n%pollsPerCheck == 0 {
			runtime.Gosched()
		}
	}
	l.mu.Lock()
	l.polling = false
	l.mu.Unlock()
	if !t.pending() {
		l.wakeFirst()
	}
}

// wakeFirst wakes the first parked TM, which polls next.
func (l *sharedPoller) wakeFirst() { l.wakeMatching(func(*tm) bool { return true }) }

// wakeMatching wakes the first parked TM for which be returns true, and removes it from the parked TMs. It
// returns false if be returns false for all of them.
func (l *sharedPoller) wakeMatching(be func(t *tm) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := slices.IndexFunc(l.parked, be)
	if k < 0 {
		return false
	}
	l.parked[k].polling.wake <- struct{}{} // does not block: a TM is in parked only once, and unpark empties the channel
	l.parked = slices.Delete(l.parked, k, k+1)
	return true
}
