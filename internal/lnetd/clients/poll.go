package clients

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport/shm"
)

// lookout lets the TMs of a Server share the polling of their submission rings. One TM polls the rings of
// all, because polling by each would take processors from the clients that produce the submissions. The
// other TMs are parked until the polling TM finds something in their rings or their time is over. If the
// polling TM finds something in its own ring, it processes that and comes back. If this takes long, a TM
// that has been parked for mostParked polls in its place.
type lookout struct {
	mu      sync.Mutex // guards the rest
	looking bool
	parked  []*tm
}

const (
	// looks is how many polls there are between two checks of the clock. After as many, the poller also
	// yields to other goroutines.
	looks = 16
	// leastPoll limits how far the poll time shrinks after polls in vain: to Config.PollTime / leastPoll.
	leastPoll = 16
	// mostParked is how long a parked TM relies on the polling TM.
	mostParked = 500 * time.Microsecond
)

// polling is the polling state of a TM. Only the TM's goroutine uses it, except for kick.
type polling struct {
	most, now time.Duration // how long to poll; 0: no polling
	kick      chan struct{} // has a capacity of one
	timer     *time.Timer
}

// newPolling returns the state for polling up to most.
func newPolling(most time.Duration) polling {
	if most == 0 {
		return polling{}
	}
	timer := time.NewTimer(most)
	timer.Stop()
	return polling{most: most, now: most, kick: make(chan struct{}, 1), timer: timer}
}

// found reports whether the TM has something to do. It also returns true if a page of the ring is
// missing: the TM's own goroutine must handle that.
func (t *tm) found() bool {
	found := t.closing.Load()
	fault := memory.Guard(func() { found = found || t.ring.Submissions.Pending() })
	return found || fault != nil
}

// polled polls the ring for a while, or waits while another TM polls it. It reports whether submissions
// have come. The poll time shrinks when polling was in vain, and grows when it was not.
func (t *tm) polled() bool {
	if t.polling.most == 0 {
		return false
	}
	l := &t.client.server.lookout
	end := time.Now().Add(t.polling.now)
	for !t.found() && time.Now().Before(end) {
		if l.look(t) {
			l.watch(t, end)
		} else {
			t.rest(min(time.Until(end), mostParked))
			l.leave(t)
		}
	}
	if !t.ring.Submissions.Pending() {
		t.polling.now = max(t.polling.now/2, t.polling.most/leastPoll)
		return false
	}
	t.polling.now = min(2*t.polling.now, t.polling.most)
	return true
}

// rest waits for a kick, for at most d.
func (t *tm) rest(d time.Duration) {
	t.polling.timer.Reset(d)
	select {
	case <-t.polling.kick:
		t.polling.timer.Stop()
	case <-t.polling.timer.C:
	}
}

// look makes t the polling TM and returns true. If another TM polls already, it parks t and returns
// false.
func (l *lookout) look(t *tm) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looking {
		l.parked = append(l.parked, t)
		return false
	}
	l.looking = true
	return true
}

// leave removes t from the parked TMs.
func (l *lookout) leave(t *tm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := slices.Index(l.parked, t); k >= 0 {
		l.parked = slices.Delete(l.parked, k, k+1)
	}
	select {
	case <-t.polling.kick: // a late kick
	default:
	}
}

// watch polls all rings until there is something in the ring of t, or until end. Then another TM may
// poll.
func (l *lookout) watch(t *tm, end time.Time) {
	for n := 1; !t.found(); n++ {
		if l.kick((*tm).found) {
			runtime.Gosched() // its goroutine runs next on this processor
		}
		if n%looks == 0 && !time.Now().Before(end) {
			break
		}
		shm.Yield()
		if n%looks == 0 {
			runtime.Gosched()
		}
	}
	l.mu.Lock()
	l.looking = false
	l.mu.Unlock()
	if !t.ring.Submissions.Pending() {
		l.handOver()
	}
}

// handOver wakes the first parked TM, which polls next.
func (l *lookout) handOver() { l.kick(func(*tm) bool { return true }) }

// kick wakes the first parked TM for which be returns true. It reports whether there was one.
func (l *lookout) kick(be func(t *tm) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := slices.IndexFunc(l.parked, be)
	if k < 0 {
		return false
	}
	l.parked[k].polling.kick <- struct{}{} // does not block: a TM is parked once, and drains kick
	l.parked = slices.Delete(l.parked, k, k+1)
	return true
}
