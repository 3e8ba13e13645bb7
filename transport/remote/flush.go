package remote

import (
	"time"

	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

const (
	// flushChecks is the number of checks, with a yield after each, before Flush sleeps. They take about 20
	// µs, enough for an idle lnetd to carry out a submission.
	flushChecks = 40
	// longYield is the duration from which a yield indicates that other threads use the processor. Then
	// sleeping is better, because a sleeping thread is resumed sooner than one that yields.
	longYield = 50 * time.Microsecond
)

// Flush waits until lnetd has carried out all submissions (transport 9.12). If lnetd does not answer for
// Config.Patience, the connection is given up. Flush returns at once if lnetd does not support
// protocol.FeatPosted.
func (t *tm) Flush(until time.Time) {
	if t.domain.hello.Features&protocol.FeatPosted == 0 || !t.gate.enter() {
		return
	}
	defer t.gate.leave()
	t.mu.Lock()
	position := t.ring.Submissions.Published()
	t.mu.Unlock()
	for range flushChecks {
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

// acquireFlushing waits until no other goroutine sleeps in Flush. It returns false if until passes first;
// zero means no limit.
func (t *tm) acquireFlushing(until time.Time) bool {
	select {
	case t.flushing <- struct{}{}: // the common case, without a timer
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

// flushed reports whether Flush can return.
func (t *tm) flushed(position uint32) bool {
	return t.ring.Submissions.Posted(position) || t.ended()
}

// sleepFlushed is Flush without polling. The caller has acquired flushing.
func (t *tm) sleepFlushed(position uint32, until time.Time) {
	c := t.domain.connection
	nap := min(maxSilence, c.patience/4)
	var w *watchdog
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
		// Flush takes long. From now on lnetd must answer requests.
		c.ensureNop()
		if w == nil {
			w = c.startWatchdog()
		}
	}
}
