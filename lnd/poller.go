package lnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Poller is an Interface whose callers can find the answers that they wait for themselves,
// so that nobody has to wake them.
type Poller interface {
	// Poll reads what peer sends until w is over, or for milliseconds at most; it may return at
	// once. It makes upcalls and completions, whomever they are for, in the caller's goroutine,
	// and waits for nothing else. It may be called from any goroutine but not with a lock held
	// that an upcall takes.
	Poll(peer lnet.NID, w *Wait)
}

// Wait is what a caller of Poll waits for. The zero value is not over. Its methods may be
// called from any goroutine, Sleep and Rise by one at a time.
type Wait struct {
	over    atomic.Bool
	sleeper atomic.Pointer[Sleeper]
}

// Sleeper is who sleeps in Poll. Wake does not block; it may come at any time, also too late.
type Sleeper struct{ Wake func() }

// Over tells whether the wait is over.
func (w *Wait) Over() bool { return w.over.Load() }

// End ends the wait; false: it was over. Wake is to follow.
func (w *Wait) End() bool { return !w.over.Swap(true) }

// Wake wakes who sleeps for the wait.
func (w *Wait) Wake() {
	if s := w.sleeper.Load(); s != nil {
		s.Wake()
	}
}

// Reset begins another wait.
func (w *Wait) Reset() { w.over.Store(false) }

// Sleep tells that s is about to sleep; false: it shall not, the wait is over.
func (w *Wait) Sleep(s *Sleeper) bool {
	w.sleeper.Store(s)
	if w.over.Load() {
		w.sleeper.Store(nil)
		return false
	}
	return true
}

// Rise tells that nobody sleeps any more.
func (w *Wait) Rise() { w.sleeper.Store(nil) }
