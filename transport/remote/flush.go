package remote

import (
	"time"

	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

const (
	// flushLooks is how often Flush looks, and yields the processor in between, before it
	// sleeps: some 20 µs, in which an lnetd that is not busy carries out a submission.
	flushLooks = 40
	// longYield is how long a yield takes if others use the processor. A thread that sleeps
	// comes back sooner than one that yields.
	longYield = 50 * time.Microsecond
)

// Flush waits until lnetd has carried out what was submitted (transport 9.12). If lnetd does not
// answer for Config.Patience, the connection is given up. An lnetd that does not say how far it
// is (protocol.FeatPosted) is not waited for.
func (t *tm) Flush(until time.Time) {
	if t.domain.agreed.Features&protocol.FeatPosted == 0 || !t.gate.enter() {
		return
	}
	defer t.gate.leave()
	t.mu.Lock()
	position := t.ring.Submissions.Published()
	t.mu.Unlock()
	for range flushLooks {
		if t.flushed(position) {
			return
		}
		before := time.Now()
		shm.Yield()
		if time.Since(before) > longYield {
			break
		}
	}
	if t.acquireFlushing(until) {
		defer func() { <-t.flushing }()
		t.sleepFlushed(position, until)
	}
}

// acquireFlushing waits until no other goroutine sleeps in Flush, and reports whether that was so
// before the time; zero: it waits as long as it takes.
func (t *tm) acquireFlushing(until time.Time) bool {
	select {
	case t.flushing <- struct{}{}: // as mostly: without a timer
		return true
	default:
	}
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	select {
	case t.flushing <- struct{}{}:
		return true
	case <-late:
		return false
	}
}

// flushed reports whether there is nothing to wait for.
func (t *tm) flushed(position uint32) bool {
	return t.ring.Submissions.Posted(position) || t.over()
}

// sleepFlushed is Flush without polling. The caller has acquired flushing.
func (t *tm) sleepFlushed(position uint32, until time.Time) {
	c := t.domain.connection
	nap := min(silence, c.patience/4)
	var w *watch
	defer func() {
		if w != nil {
			w.stop()
		}
	}()
	for {
		t.ring.Submissions.PrepareWait()
		if t.flushed(position) {
			return
		}
		d := nap
		if !until.IsZero() {
			if d = min(d, time.Until(until)); d <= 0 {
				return
			}
		}
		t.ring.Submissions.WaitPosted(d)
		if d < nap || t.flushed(position) {
			continue
		}
		// It takes long. From now on lnetd must answer questions.
		c.sound()
		if w == nil {
			w = c.watch()
		}
	}
}
