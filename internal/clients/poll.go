package clients

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport/shm"
)

// lookout is how the TMs of a Server poll their submissions together: one of them looks at
// the rings of all, since each that did by itself would take a processor from those who make
// what is looked for. The others are parked until it finds something in their rings, or
// their time is over. Who finds something in its own ring works it off, and comes back; if
// that takes long, another one looks in its place, when it has been parked for a while.
type lookout struct {
	mu      sync.Mutex // guards the rest
	looking bool
	parked  []*tm
}

const (
	// looks is how often to look, and to offer the processor to others in between, between
	// two looks at the clock.
	looks = 16
	// leastPoll is what part of Config.PollTime remains when polling has been in vain often.
	leastPoll = 16
	// mostParked is how long to rely on who looks.
	mostParked = 500 * time.Microsecond
)

// polling is what a TM has for that. Its goroutine alone uses it, but for kick.
type polling struct {
	most, now time.Duration // how long to poll; 0: not at all
	kick      chan struct{} // holds one
	timer     *time.Timer
}

// newPolling is polling for so long at most.
func newPolling(most time.Duration) polling {
	if most == 0 {
		return polling{}
	}
	timer := time.NewTimer(most)
	timer.Stop()
	return polling{most: most, now: most, kick: make(chan struct{}, 1), timer: timer}
}

// found tells whether the TM has something to do: also if a page of its ring is gone, which
// its own goroutine has to find out.
func (t *tm) found() bool {
	found := t.closing.Load()
	fault := memory.Guard(func() { found = found || t.ring.Submissions.Pending() })
	return found || fault != nil
}

// polled looks at the ring for a while, or has it looked at, and tells whether something has
// come. The while gets shorter when that was in vain, and longer when it was not.
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

// rest waits for a kick, for a while.
func (t *tm) rest(d time.Duration) {
	t.polling.timer.Reset(d)
	select {
	case <-t.polling.kick:
		t.polling.timer.Stop()
	case <-t.polling.timer.C:
	}
}

// look makes t the one who looks, or parks it if there is one.
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

// leave takes t out of those who are parked.
func (l *lookout) leave(t *tm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := slices.Index(l.parked, t); k >= 0 {
		l.parked = slices.Delete(l.parked, k, k+1)
	}
	select {
	case <-t.polling.kick: // that came late
	default:
	}
}

// watch looks at all rings until there is something in that of t, or a time. Then another
// one may look.
func (l *lookout) watch(t *tm, end time.Time) {
	for n := 1; !t.found(); n++ {
		if l.kick((*tm).found) {
			runtime.Gosched() // its goroutine is the next one here
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

// handOver has another one look, if any is parked.
func (l *lookout) handOver() { l.kick(func(*tm) bool { return true }) }

// kick wakes the first one who is parked, and is as it shall be.
func (l *lookout) kick(be func(t *tm) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := slices.IndexFunc(l.parked, be)
	if k < 0 {
		return false
	}
	l.parked[k].polling.kick <- struct{}{} // there is room: it is parked once, and has left before
	l.parked = slices.Delete(l.parked, k, k+1)
	return true
}
