package node

import (
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// CreditInfo shows a kind of credit.
type CreditInfo struct {
	// Max is the number of credits, Available what is left of it, less than 0
	// by the number of waiting messages, and Min the lowest it ever was.
	Max, Available, Min int
}

// credits counts messages under way and keeps those that must wait, in order
// (lnet-core 7). Taking and giving touch no lock while there are enough.
type credits struct {
	limit     atomic.Int64
	grants    uint8 // what a message holds that got one: heldPeer or heldBoth
	available atomic.Int64
	min       atomic.Int64
	surplus   atomic.Int64 // credits that are out and are not to come back

	// answers counts the ACKs and REPLYs among those that wait.
	answers atomic.Int64

	mu      sync.Mutex
	waiting messageQueue
	// owed are credits given while their taker was on its way to the queue.
	owed int
}

func (c *credits) init(limit int, grants uint8) {
	c.limit.Store(int64(limit))
	c.grants = grants
	c.available.Store(int64(limit))
	c.min.Store(int64(limit))
}

// take takes a credit for m. If it returns false m waits, and belongs to
// whoever gives the credit.
func (c *credits) take(m *message) bool {
	left := c.available.Add(-1)
	for low := c.min.Load(); left < low && !c.min.CompareAndSwap(low, left); low = c.min.Load() {
	}
	if left >= 0 {
		m.held = c.grants
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed > 0 {
		c.owed--
		m.held = c.grants
		return true
	}
	if m.isAnswer() {
		c.answers.Add(1)
	}
	c.waiting.push(m)
	return false
}

// give gives a credit back and returns the message that it goes to, if any.
func (c *credits) give() *message {
	if c.surplus.Load() > 0 && lower(&c.surplus) {
		return nil
	}
	if c.available.Add(1) > 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.waiting.pop()
	if m == nil {
		c.owed++
		return nil
	}
	if m.isAnswer() {
		c.answers.Add(-1)
	}
	m.held = c.grants
	m.waited = true
	return m
}

// resize sets the number of credits and returns the messages that go on if it
// has grown. Where more are out than shall be, those that come back are not
// given again.
func (c *credits) resize(limit int) (ready messageQueue) {
	more := int64(limit) - c.limit.Swap(int64(limit))
	for ; more < 0; more++ {
		if !lower(&c.available) {
			c.surplus.Add(1)
		}
	}
	for ; more > 0; more-- {
		if m := c.give(); m != nil {
			ready.push(m)
		}
	}
	c.min.Store(c.available.Load())
	return ready
}

// lower takes one off a, unless nothing is left.
func lower(a *atomic.Int64) bool {
	for v := a.Load(); v > 0; v = a.Load() {
		if a.CompareAndSwap(v, v-1) {
			return true
		}
	}
	return false
}

func (c *credits) info() CreditInfo {
	return CreditInfo{Max: int(c.limit.Load()), Available: int(c.available.Load()), Min: int(c.min.Load())}
}

// weight is what a message adds to its peer NI's queued bytes.
func (m *message) weight() int64 { return int64(m.tx.Payload.Length) + lnet.HeaderNID4Size }

// takeCredits takes the credits that m lacks, the peer NI's first. If it
// returns false m waits and is no longer the caller's.
func (m *message) takeCredits() bool {
	if m.peer == nil {
		return true
	}
	if m.held == heldNone {
		m.peer.queued.Add(m.weight())
		if !m.peer.credits.take(m) {
			return false
		}
	}
	return m.held == heldBoth || m.ni.credits.take(m)
}

// giveCredits gives back what m holds, the NI's first (lnet-core 7.3), and
// puts the messages that may go on in ready.
func (m *message) giveCredits(ready *messageQueue) {
	if m.held == heldBoth {
		if w := m.ni.credits.give(); w != nil {
			ready.push(w)
		}
	}
	if m.held != heldNone {
		m.peer.queued.Add(-m.weight())
		if w := m.peer.credits.give(); w != nil {
			ready.push(w)
		}
	}
	m.held = heldNone
}
