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
	available *atomic.Int64
	min       atomic.Int64
	surplus   atomic.Int64 // credits that are out and are not to come back

	// answers counts the ACKs and REPLYs among those that wait.
	answers atomic.Int64

	mu      sync.Mutex // guards waiting, urgent, owed and excess, and the steps of answers
	waiting messageQueue
	urgent  messageQueue // those that go before all in waiting
	// owed are credits given while their taker was on its way to the queue, excess
	// those that were on their way to one that has been withdrawn.
	owed, excess int
}

// init makes c count in available.
func (c *credits) init(available *atomic.Int64, limit int) {
	c.available = available
	c.limit.Store(int64(limit))
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
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed > 0 {
		c.owed--
		return true
	}
	if m.isAnswer() {
		c.answers.Add(1)
	}
	if m.out.urgent {
		c.urgent.push(m)
	} else {
		c.waiting.push(m)
	}
	return false
}

// give gives a credit back and returns the message that it goes to, if any.
func (c *credits) give() *message {
	if c.surplus.Load() > 0 && lower(&c.surplus, 1) == 1 {
		return nil
	}
	if c.available.Add(1) > 0 {
		return nil
	}
	return c.grant()
}

// grant hands a credit that has been counted to the message that waits for it.
func (c *credits) grant() *message {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.excess > 0 { // who has queued up since has a credit of its own coming
		c.excess--
		return nil
	}
	m := c.urgent.pop()
	if m == nil {
		m = c.waiting.pop()
	}
	if m == nil {
		c.owed++
		return nil
	}
	if m.isAnswer() {
		c.answers.Add(-1)
	}
	return m
}

// withdraw takes out the waiting messages for which match is true.
func (c *credits) withdraw(match func(*message) bool) (out messageQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out = c.urgent.withdraw(match)
	bulk := c.waiting.withdraw(match)
	out.append(&bulk)
	for m := out.head; m != nil; m = m.next {
		if m.isAnswer() {
			c.answers.Add(-1)
		}
		if c.available.Add(1) > 0 {
			c.excess++
		}
	}
	return out
}

// resize sets the number of credits and returns the messages that go on if it
// has grown. Where more are out than shall be, those that come back are not
// given again.
func (c *credits) resize(limit int) (ready messageQueue) {
	more := int64(limit) - c.limit.Swap(int64(limit))
	if more < 0 {
		c.surplus.Add(-more - lower(c.available, -more))
	}
	if more > 0 {
		more -= lower(&c.surplus, more)
	}
	for ; more > 0; more-- {
		// While there is none left to give, nobody waits.
		if v := c.available.Load(); v >= 0 {
			if c.available.CompareAndSwap(v, v+more) {
				break
			}
			more++
			continue
		}
		if m := c.give(); m != nil {
			ready.push(m)
		}
	}
	c.min.Store(c.available.Load())
	return ready
}

// lower takes as much off a as there is, by at most. It returns how much.
func lower(a *atomic.Int64, by int64) int64 {
	for {
		v := a.Load()
		n := min(v, by)
		if n <= 0 {
			return 0
		}
		if a.CompareAndSwap(v, v-n) {
			return n
		}
	}
}

// out tells whether some are out, or waited for.
func (c *credits) out() bool { return c.available.Load() != c.limit.Load() || c.surplus.Load() != 0 }

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
	if m.out.held == heldNone {
		m.peer.Queued.Add(m.weight())
		if !m.peer.tx.take(m) {
			return false
		}
		m.out.held = heldPeer
	}
	if m.out.held == heldBoth {
		return true
	}
	if !m.ni.tx.take(m) {
		return false
	}
	m.out.held = heldBoth
	return true
}

// giveCredits gives back what m holds, the NI's first (lnet-core 7.3), and
// puts the messages that may go on in ready.
func (m *message) giveCredits(ready *messageQueue) {
	if m.out.held == heldBoth {
		if w := m.ni.tx.give(); w != nil {
			w.out.held, w.out.waited = heldBoth, true
			ready.push(w)
		}
	}
	if m.out.held != heldNone {
		m.peer.Queued.Add(-m.weight())
		if w := m.peer.tx.give(); w != nil {
			w.out.held, w.out.waited = heldPeer, true
			ready.push(w)
		}
	}
	m.out.held = heldNone
}
