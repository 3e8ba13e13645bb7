package completion

import (
	"sync/atomic"
	"time"
)

// bell is how producers wake a consumer that sleeps, and leave one alone that does not
// (transport 9.6). The consumer (1) lies down, (2) looks whether there is anything, (3)
// sleeps if not, and (4) gets up. A producer (1, 2) puts something there, (3) claims the
// sleeper, which one producer alone succeeds in, and if it has, wakes him. Each side
// writes before it reads what the other one writes, and atomic operations have one order:
// so either the producer finds the sleeper, or the consumer what was put there.
//
// A token that comes late, to a consumer that has found the thing by himself, wakes him
// from his next sleep, and he looks again.
type bell struct {
	sleeping atomic.Bool
	// woken is set by shout until the consumer gets up.
	woken  atomic.Bool
	tokens chan struct{} // holds one
}

func newBell() bell { return bell{tokens: make(chan struct{}, 1)} }

// ring wakes the consumer if he sleeps, or is about to.
func (b *bell) ring() {
	if b.claim() {
		b.wake()
	}
}

// shout wakes him though there be nothing.
func (b *bell) shout() {
	b.woken.Store(true)
	b.ring()
}

// claim tells whether the caller has to wake the consumer. One that is up costs a load.
func (b *bell) claim() bool { return b.sleeping.Load() && b.sleeping.Swap(false) }

// wake lets the consumer return from sleep. It does not block.
func (b *bell) wake() {
	select {
	case b.tokens <- struct{}{}:
	default: // there is one
	}
}

// lieDown says that the consumer is going to sleep unless he finds something.
func (b *bell) lieDown() { b.sleeping.Store(true) }

// sleep blocks until there is a token, and returns true, or until expired, if it is not
// nil, and returns false.
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

// getUp says that the consumer is up, and has heard who shouted.
func (b *bell) getUp() {
	b.sleeping.Store(false)
	b.woken.Store(false)
}
