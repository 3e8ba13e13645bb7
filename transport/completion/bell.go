package completion

import (
	"sync/atomic"
	"time"
)

// bell wakes the goroutine that consumes completions, and costs producers little while the consumer is awake
// (transport 9.6). Before the consumer sleeps, it (1) sets the flag sleeping, (2) checks for work, and (3) if
// it has found none, sleeps until it receives a token. When it continues, it (4) clears the flag. A producer
// adds work, claims the consumer by clearing the flag, and sends a token if the flag was set. Only one
// producer succeeds in claiming.
//
// Each side writes before it reads what the other side writes, and atomic operations have one total order. So
// either the producer sees the flag, or the consumer sees the work.
//
// A token may arrive after the consumer has already found the work. The consumer's next sleep then ends
// immediately, and the consumer checks again.
type bell struct {
	sleeping atomic.Bool
	// woken is set by forceWake and cleared by finishSleep.
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

// forceWake wakes the consumer even if there is no work. A consumer that is awake does not sleep until
// finishSleep.
func (b *bell) forceWake() {
	b.woken.Store(true)
	b.wake()
}

// claimSleeper reports whether the caller must call sendToken, because the consumer sleeps or is about to,
// and no other producer has claimed it. It costs one atomic load if the consumer is awake.
func (b *bell) claimSleeper() bool { return b.sleeping.Load() && b.sleeping.Swap(false) }

// sendToken makes the consumer's sleep return. It does not block.
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
