package lnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Poller is an Interface whose connections can be read by the goroutine that waits for an answer. This saves
// the time that waking this goroutine would take.
type Poller interface {
	// Poll reads what peer sends until w has ended, or for a few milliseconds at most. It may also return
	// immediately. In the caller's goroutine, it makes the upcalls and completions of what it reads, including
	// those for other goroutines that wait. It waits for nothing else. It may be called from any goroutine, but
	// not with a lock held that an upcall acquires.
	Poll(peer lnet.NID, w *Wait)
}

// Wait is something that a caller of Poll waits for, such as an answer. It has ended when End was called. The
// zero value has not ended. The methods are safe for concurrent use, except that only one goroutine at a time
// may use Sleep and Rise.
type Wait struct {
	over    atomic.Bool
	sleeper atomic.Pointer[Sleeper]
}

// Sleeper represents a goroutine that sleeps in Poll. Wake wakes it. Wake must not block, and may be called at
// any time, also when the goroutine is awake.
type Sleeper struct{ Wake func() }

// Over reports whether the wait has ended.
func (w *Wait) Over() bool { return w.over.Load() }

// End ends the wait. It returns false if the wait had already ended. The caller calls Wake afterwards.
func (w *Wait) End() bool { return !w.over.Swap(true) }

// Wake wakes the goroutine that sleeps in Poll for this wait, if there is such a goroutine.
func (w *Wait) Wake() {
	if s := w.sleeper.Load(); s != nil {
		s.Wake()
	}
}

// Reset makes w a wait that has not ended, so that it can be used again.
func (w *Wait) Reset() { w.over.Store(false) }

// Sleep registers s, whose goroutine is about to sleep, for Wake. It returns false if the wait has ended; the
// goroutine must then not sleep.
func (w *Wait) Sleep(s *Sleeper) bool {
	w.sleeper.Store(s)
	if w.over.Load() {
		w.sleeper.Store(nil)
		return false
	}
	return true
}

// Rise removes the registration that Sleep has made. The goroutine calls it when it no longer sleeps.
func (w *Wait) Rise() { w.sleeper.Store(nil) }
