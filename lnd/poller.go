package lnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Poller is an Interface whose callers can read the answers they wait for themselves. This saves the
// time to wake them.
type Poller interface {
	// Poll reads what peer sends until w has ended, or for a few milliseconds at most. It may return at
	// once. It makes upcalls and completions in the caller's goroutine, including those for other
	// waiters, and waits for nothing else. It may be called from any goroutine, but not with a lock
	// held that an upcall acquires.
	Poll(peer lnet.NID, w *Wait)
}

// Wait is the condition that a caller of Poll waits for. The zero value is a wait that has not ended.
// Its methods are safe for concurrent use, except that only one goroutine at a time may use Sleep and
// Rise.
type Wait struct {
	over    atomic.Bool
	sleeper atomic.Pointer[Sleeper]
}

// Sleeper is a goroutine that sleeps in Poll. Wake must not block. It may be called at any time, also
// when the goroutine is already awake.
type Sleeper struct{ Wake func() }

// Over reports whether the wait has ended.
func (w *Wait) Over() bool { return w.over.Load() }

// End ends the wait. It returns false if the wait had already ended. The caller calls Wake afterwards.
func (w *Wait) End() bool { return !w.over.Swap(true) }

// Wake wakes the sleeper, if any.
func (w *Wait) Wake() {
	if s := w.sleeper.Load(); s != nil {
		s.Wake()
	}
}

// Reset starts another wait.
func (w *Wait) Reset() { w.over.Store(false) }

// Sleep registers s as about to sleep. It returns false if the wait has ended, and s must not sleep.
func (w *Wait) Sleep(s *Sleeper) bool {
	w.sleeper.Store(s)
	if w.over.Load() {
		w.sleeper.Store(nil)
		return false
	}
	return true
}

// Rise removes the registration that Sleep made.
func (w *Wait) Rise() { w.sleeper.Store(nil) }
