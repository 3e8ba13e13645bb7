package transport

import "sync/atomic"

// Channel wakes waiting goroutines (transport 3.2, 3.14). Each TM has one, TransferMachine.Channel, and
// signals it when its state changes. A program can also pass a Channel to TransferMachine.Notify, to learn
// that there are events to deliver. Several TMs may signal the same Channel, so that an event loop can wait
// for all of them and for other work in one select. The zero value is ready to use.
type Channel struct {
	next   atomic.Pointer[chan struct{}] // closed by the next Signal; nil until Wait is called
	tokens atomic.Pointer[chan struct{}] // holds at most one token; nil until Tokens is called
}

// Tokens is an alternative to Wait for one goroutine that waits repeatedly. It always returns the same Go
// channel, and so allocates only once. Signal puts a token into this channel unless it already contains one.
// To miss no signal and avoid needless wake-ups, the goroutine first empties the channel, then checks for
// work, and only then waits for a token.
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

// Wait returns a Go channel that the next Signal closes. To miss no signal, call Wait before checking for
// work.
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

// Signal wakes all waiting goroutines. It does not block.
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
