package remote

import (
	"time"

	"github.com/lnetd/lnetd/memory/polling"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

const (
	// flushChecks is the number of times that Flush checks and yields before it sleeps. This takes about 20
	// µs, enough for an idle lnetd to carry out a submission.
	flushChecks = 40
)

// Flush waits until lnetd has carried out all submissions so far, at most until the given time (transport
// 9.12). If lnetd does not answer for Config.Patience, Flush ends the connection. Flush returns immediately
// if lnetd does not support protocol.FeatPosted.
func (t *tm) Flush(until time.Time) {
	if t.domain.hello.Features&protocol.FeatPosted == 0 || !t.gate.enter() {
		return
	}
	defer t.gate.leave()
	t.mu.Lock()
	// Waiting submissions follow those in the ring.
	position := t.ring.Submissions.Published() + uint32(len(t.backlog.submissions))
	t.mu.Unlock()
	for range flushChecks {
		if t.flushed(position) {
			return
		}
		if !polling.Yield() {
			break
		}
	}
	if t.acquireFlushing(until) {
		defer func() { <-t.flushing }()
		t.sleepFlushed(position, until)
	}
}

// acquireFlushing waits until no other goroutine sleeps in Flush, and then fills t.flushing. It returns false
// if the time until passes first; zero means no limit.
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

// flushed reports whether Flush can return: lnetd has carried out the submissions up to position, or the TM
// has ended.
func (t *tm) flushed(position uint32) bool {
	return t.ring.Submissions.Posted(position) || t.ended()
}

// sleepFlushed sleeps until Flush can return. The caller has filled t.flushing, and must empty it.
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
		// Flush takes long, so lnetd may hang. Check this: send a NOP, and end the connection if lnetd sends
		// nothing.
		c.ensureNop()
		if w == nil {
			w = c.startWatchdog()
		}
	}
}
