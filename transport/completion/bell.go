package completion

import (
	"sync/atomic"
	"time"
)

// bell wakes a sleeping consumer, and costs producers little while the consumer is awake (transport 9.6).
// The consumer (1) sets the flag sleeping, (2) checks for work, (3) sleeps if it found none, and (4) clears
// the flag. A producer (1, 2) adds work, (3) claims the consumer by clearing the flag, and wakes it if the
// flag was set. Only one producer succeeds in claiming.
//
// Each side writes before it reads what the other side writes, and atomic operations have one total order.
// So either the producer sees the flag, or the consumer sees the work.
//
// A token may arrive after the consumer has already found the work. Then the consumer's next sleep ends at
// once, and it checks again.
type bell struct {
	sleeping atomic.Bool
	// woken is set by forceWake and cleared when the consumer wakes up.
	woken  atomic.Bool
	tokens chan struct{} // has capacity 1
}

func newBell() bell { return bell{tokens: make(chan struct{}, 1)} }

// wake wakes the consumer if it sleeps or is about to.
func (b *bell) wake() {
	if b.claimSleeper() {
		b.sendToken()
	}
}

// forceWake wakes the consumer even if there is no work.
func (b *bell) forceWake() {
	b.woken.Store(true)
	b.wake()
}

// claimSleeper reports whether the caller must wake the consumer. It costs one atomic load if the consumer is
// awake.
func (b *bell) claimSleeper() bool { return b.sleeping.Load() && b.sleeping.Swap(false) }

// sendToken makes sleep return. It does not block.
func (b *bell) sendToken() {
	select {
	case b.tokens <- struct{}{}:
	default: // already holds a token
	}
}

// prepareSleep announces that the consumer will sleep unless it finds work.
func (b *bell) prepareSleep() { b.sleeping.Store(true) }

// sleep blocks until it receives a token, and returns true. If expired is not nil and becomes ready first,
// sleep returns false.
func (b *bell) sleep(expired <-chan time.Time) bool {
	if expired == nil {
		<-b.tokens
		return true
	}
	select {
	case <-b.tokens:
		return true
	case <-expired:
		return false
	}
}

// finishSleep marks the consumer as awake and clears woken.
func (b *bell) finishSleep() {
	b.sleeping.Store(false)
	b.woken.Store(false)
}
