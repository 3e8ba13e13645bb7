package node

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// CreditInfo describes one kind of credit.
type CreditInfo struct {
	// Max is the number of credits. Available is the number of free ones; if n messages wait
	// for one, it is -n. Min is the lowest value that Available ever had.
	Max, Available, Min int
}

// credits limits the number of messages under way and queues the messages that wait for a
// credit, in order (lnet-core 7). While credits are free, acquiring and releasing them
// needs no lock.
type credits struct {
	available *atomic.Int64
	limit     atomic.Int32
	min       atomic.Int32
	retiring  atomic.Int64 // credits in use that exceed limit after it was reduced; not available again after their release
	// queues is nil until a message waits for a credit, because a node may have very many peer
	// NIs for which no message ever waits.
	queues atomic.Pointer[creditQueues]
}

// creditQueues holds the messages that wait for a credit.
type creditQueues struct {
	// answers is the number of ACKs and REPLYs in the queues.
	answers atomic.Int64

	mu      sync.Mutex // guards the fields below, and changes of answers
	waiting messageQueue
	urgent  messageQueue // messages that precede all in waiting
	// A release can be concurrent with an acquire or a withdrawal of the message that should
	// receive the credit. releasedEarly counts credits that were released before that message
	// was in a queue: acquire uses one of them instead of queueing its message. cancelled
	// counts releases that are still to give their credit to a message which was withdrawn
	// meanwhile: nextWaiting gives such a credit to no message, because withdraw has already
	// made it available.
	releasedEarly, cancelled int
}

// init sets the number of credits, all of which are free. The number of free credits is
// kept in available, which other code may read.
func (c *credits) init(available *atomic.Int64, limit int) {
	limit = min(limit, math.MaxInt32)
	c.available = available
	c.limit.Store(int32(limit))
	c.available.Store(int64(limit))
	c.min.Store(int32(limit))
}

// makeQueues returns the queues. The first call creates them.
func (c *credits) makeQueues() *creditQueues {
	if q := c.queues.Load(); q != nil {
		return q
	}
	c.queues.CompareAndSwap(nil, new(creditQueues))
	return c.queues.Load()
}

// answersWaiting returns how many ACKs and REPLYs wait for a credit.
func (c *credits) answersWaiting() int64 {
	if q := c.queues.Load(); q != nil {
		return q.answers.Load()
	}
	return 0
}

// acquire acquires a credit for m. If no credit is free, it queues m and returns false; m
// then belongs to the queue.
func (c *credits) acquire(m *message) bool {
	left := c.available.Add(-1)
	for low := c.min.Load(); left < int64(low) && !c.min.CompareAndSwap(low, int32(left)); low = c.min.Load() {
	}
	if left >= 0 {
		return true
	}
	q := c.makeQueues()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.releasedEarly > 0 {
		q.releasedEarly--
		return true
	}
	if m.isAnswer() {
		q.answers.Add(1)
	}
	if m.out.urgent {
		q.urgent.push(m)
	} else {
		q.waiting.push(m)
	}
	return false
}

// release releases a credit. If a message waits for one, release removes it from the queue
// and returns it; the message then holds the credit, and the caller must resume it.
// Otherwise release returns nil.
func (c *credits) release() *message {
	if c.retiring.Load() > 0 && subtractDown(&c.retiring, 1) == 1 {
		return nil
	}
	if c.available.Add(1) > 0 {
		return nil
	}
	return c.nextWaiting()
}

// nextWaiting removes the next waiting message from its queue and returns it. It is called
// after a release has added 1 to available; the message receives that credit.
func (c *credits) nextWaiting() *message {
	q := c.makeQueues()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cancelled > 0 { // messages that were queued later receive credits of other releases
		q.cancelled--
		return nil
	}
	m := q.urgent.pop()
	if m == nil {
		m = q.waiting.pop()
	}
	if m == nil {
		q.releasedEarly++
		return nil
	}
	if m.isAnswer() {
		q.answers.Add(-1)
	}
	return m
}

// withdraw removes and returns the waiting messages for which match returns true.
func (c *credits) withdraw(match func(*message) bool) (out messageQueue) {
	q := c.queues.Load()
	if q == nil {
		return out
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	out = q.urgent.withdraw(match)
	bulk := q.waiting.withdraw(match)
	out.append(&bulk)
	for m := out.head; m != nil; m = m.next {
		if m.isAnswer() {
			q.answers.Add(-1)
		}
		if c.available.Add(1) > 0 {
			q.cancelled++
		}
	}
	return out
}

// resize sets the number of credits. If the new limit is lower than the number of credits
// in use, the surplus does not become available when it is released. If the limit grows,
// resize returns the waiting messages that receive the new credits; the caller must resume
// them.
func (c *credits) resize(limit int) (ready messageQueue) {
	limit = min(limit, math.MaxInt32)
	more := int64(limit) - int64(c.limit.Swap(int32(limit)))
	if more < 0 {
		c.retiring.Add(-more - subtractDown(c.available, -more))
	}
	if more > 0 {
		more -= subtractDown(&c.retiring, more)
	}
	for ; more > 0; more-- {
		// No message is waiting while v is not negative.
		if v := c.available.Load(); v >= 0 {
			if c.available.CompareAndSwap(v, v+more) {
				break
			}
			more++
			continue
		}
		if m := c.release(); m != nil {
			ready.push(m)
		}
	}
	c.min.Store(int32(c.available.Load()))
	return ready
}

// subtractDown subtracts the number by from a, but does not let a fall below 0. It returns
// the amount that it subtracted.
func subtractDown(a *atomic.Int64, by int64) int64 {
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

// inUse reports whether a message holds a credit or waits for one.
func (c *credits) inUse() bool {
	return c.available.Load() != int64(c.limit.Load()) || c.retiring.Load() != 0
}

func (c *credits) info() CreditInfo {
	return CreditInfo{Max: int(c.limit.Load()), Available: int(c.available.Load()), Min: int(c.min.Load())}
}

// queuedBytes returns the number of bytes that m adds to the queued bytes of its peer NI.
func (m *message) queuedBytes() int64 { return int64(m.tx.Payload.Length) + lnet.HeaderNID4Size }

// acquireCredits acquires the credits that m does not hold yet, first that of the peer NI,
// then that of the NI. If one of them is not free, it queues m and returns false; m then
// belongs to the queue.
func (m *message) acquireCredits() bool {
	if m.peer == nil {
		return true
	}
	if m.out.held == heldNone {
		m.peer.Queued.Add(m.queuedBytes())
		if !m.peer.tx.acquire(m) {
			return false
		}
		m.out.held = heldPeer
	}
	if m.out.held == heldBoth {
		return true
	}
	if !m.ni.tx.acquire(m) {
		return false
	}
	m.out.held = heldBoth
	return true
}

// releaseCredits releases m's credits, first that of the NI (lnet-core 7.3). Waiting
// messages that receive them are appended to ready; the caller must transmit these.
func (m *message) releaseCredits(ready *messageQueue) {
	if m.out.held == heldBoth {
		if w := m.ni.tx.release(); w != nil {
			w.out.held, w.out.waited = heldBoth, true
			ready.push(w)
		}
	}
	if m.out.held != heldNone {
		m.peer.Queued.Add(-m.queuedBytes())
		if w := m.peer.tx.release(); w != nil {
			w.out.held, w.out.waited = heldPeer, true
			ready.push(w)
		}
	}
	m.out.held = heldNone
}
