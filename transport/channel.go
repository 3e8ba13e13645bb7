package transport

import "sync/atomic"

// Channel wakes those who wait (transport 3.2, 3.14): a TM's is signalled when its state
// changes, and a program hands one to TransferMachine.Notify. Several TMs may signal one,
// so that an event loop waits for them, and for its own work, in one select. The zero
// value is ready.
type Channel struct {
	next   atomic.Pointer[chan struct{}] // what the next Signal closes; nil: nobody waits
	tokens atomic.Pointer[chan struct{}] // holds one; nil: nobody has asked for it
}

// Tokens is Wait for one goroutine that waits again and again: the same Go channel each time,
// into which Signal puts a token, unless there is one. So it allocates once, and Wait each
// time. Who takes what token there is before he looks whether there is work, and waits then,
// misses nothing, and is woken for nothing that he has seen.
func (c *Channel) Tokens() <-chan struct{} {
	if tokens := c.tokens.Load(); tokens != nil {
		return *tokens
	}
	made := make(chan struct{}, 1)
	if c.tokens.CompareAndSwap(nil, &made) {
		return made
	}
	return *c.tokens.Load()
}

// Wait returns a Go channel that is closed at the next Signal. Who calls it before he looks
// whether there is work misses nothing.
func (c *Channel) Wait() <-chan struct{} {
	if next := c.next.Load(); next != nil {
		return *next
	}
	made := make(chan struct{})
	for {
		if c.next.CompareAndSwap(nil, &made) {
			return made
		}
		if next := c.next.Load(); next != nil {
			return *next
		}
	}
}

// Signal wakes all who wait. It does not block.
func (c *Channel) Signal() {
	if tokens := c.tokens.Load(); tokens != nil {
		select {
		case *tokens <- struct{}{}:
		default:
		}
	}
	if c.next.Load() == nil {
		return
	}
	if next := c.next.Swap(nil); next != nil {
		close(*next)
	}
}
