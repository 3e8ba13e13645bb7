package completion

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Queue holds completions in the order in which they were pushed. New makes it. Any
// goroutine may push, which never blocks but on a short lock; one at a time reaps, and one
// at a time waits. Nothing is allocated but by New, by Grow, and by the first Wait that
// has a deadline.
type Queue struct {
	// fill is how many completions wait; mu is held where it changes.
	fill   atomic.Int64
	closed atomic.Bool
	bell   bell

	mu   sync.Mutex // guards the rest
	ring []transport.Completion
	// first counts the completions that were reaped, next those that were pushed: both run
	// freely, and are places in ring modulo its length, a power of two.
	first, next uint
	room        int
	told        int // how many of those that wait have no Token
	overruns    uint64

	// timer wakes the one who waits at alarm, unless that is zero: then it has. Both are his.
	timer *time.Timer
	alarm time.Time
}

// reserve is how many completions of the TM itself, which no op has a credit for, there
// is room for besides.
const reserve = 8

// New makes a queue with room for so many completions of ops.
func New(room int) *Queue {
	q := &Queue{bell: newBell()}
	q.Grow(room)
	return q
}

// Grow makes room for that many completions of ops in all, if there was less. Who pushes or
// reaps does not wait for the memory.
func (q *Queue) Grow(room int) {
	var ring []transport.Completion
	q.mu.Lock()
	for room > q.room {
		if n := q.places(room + reserve); n > max(len(q.ring), len(ring)) {
			q.mu.Unlock()
			ring = make([]transport.Completion, n)
			q.mu.Lock()
			continue
		}
		q.room = room
		q.move(ring)
	}
	q.mu.Unlock()
}

// places is how long the ring has to be for n completions. mu is held.
func (q *Queue) places(n int) int {
	size := max(len(q.ring), 16)
	for size < n {
		size *= 2
	}
	return size
}

// move moves what waits to another ring, if that is longer. mu is held.
func (q *Queue) move(ring []transport.Completion) {
	if len(ring) <= len(q.ring) {
		return
	}
	for i := q.first; i != q.next; i++ {
		ring[i&uint(len(ring)-1)] = *q.at(i)
	}
	q.ring = ring
}

// at is place i of the ring. mu is held.
func (q *Queue) at(i uint) *transport.Completion { return &q.ring[i&uint(len(q.ring)-1)] }

// Push appends a copy of c, the completion of an op, and wakes who waits. The engine's
// credits see to it that there is room. One more is a mistake of the Core's: tests with
// the race detector panic; else it is kept all the same, and Overruns counts it.
func (q *Queue) Push(c *transport.Completion) {
	q.mu.Lock()
	if q.closed.Load() {
		q.mu.Unlock()
		return
	}
	if int(q.next-q.first)-q.told >= q.room {
		q.overrun()
	}
	q.put(c)
	q.mu.Unlock()
	q.bell.ring()
}

// Tell appends a copy of c, which tells of the TM itself and has no Token. It returns
// false, and drops c, if several of those wait already: a program that does not hear that
// messages were lost need not hear of each. One with Down, of which there is one in the
// life of a TM, is never dropped.
func (q *Queue) Tell(c *transport.Completion) bool {
	q.mu.Lock()
	if q.closed.Load() || q.told >= reserve-1 && !c.Down {
		q.mu.Unlock()
		return false
	}
	q.told++
	q.put(c)
	q.mu.Unlock()
	q.bell.ring()
	return true
}

// put appends c. mu is held, and there is a place.
func (q *Queue) put(c *transport.Completion) {
	*q.at(q.next) = *c
	q.next++
	q.fill.Store(int64(q.next - q.first))
}

// overrun makes a place for a completion that has no credit. mu is held.
func (q *Queue) overrun() {
	if raceEnabled {
		q.mu.Unlock()
		panic("completion: more completions than the engine has credits for")
	}
	q.overruns++
	q.move(make([]transport.Completion, q.places(int(q.next-q.first)+1+reserve)))
}

// Overruns is how many completions there was no room for when they were pushed: 0, unless
// the Core is wrong.
func (q *Queue) Overruns() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.overruns
}

// Reap moves completions to dst, as many as it holds and there are, and returns their
// number.
func (q *Queue) Reap(dst []transport.Completion) int {
	if q.fill.Load() == 0 {
		return 0
	}
	q.mu.Lock()
	n := min(len(dst), int(q.next-q.first))
	for i := range n {
		slot := q.at(q.first)
		dst[i] = *slot
		if slot.Token == nil {
			q.told--
		}
		*slot = transport.Completion{} // what it names is no longer the ring's
		q.first++
	}
	q.fill.Store(int64(q.next - q.first))
	q.mu.Unlock()
	return n
}

// Pending tells whether Reap would find one. It is an atomic load.
func (q *Queue) Pending() bool { return q.fill.Load() != 0 }

// Wait blocks until Pending, Wake or Close, or until a time, unless that is zero.
func (q *Queue) Wait(until time.Time) {
	var expired <-chan time.Time
	for {
		q.bell.lieDown()
		if q.Pending() || q.closed.Load() || q.bell.woken.Load() {
			break
		}
		if expired == nil && !until.IsZero() {
			expired = q.setAlarm(until)
		}
		if !q.bell.sleep(expired) {
			q.alarm = time.Time{} // its value has been taken
			break
		}
	}
	q.bell.getUp()
}

// setAlarm returns what delivers a value at until. The timer keeps running when the Wait
// ends, unless its value was taken: most of those that follow have the same deadline.
func (q *Queue) setAlarm(until time.Time) <-chan time.Time {
	switch {
	case q.timer == nil:
		q.timer = time.NewTimer(time.Until(until))
	case !q.alarm.Equal(until):
		q.timer.Reset(time.Until(until))
	}
	q.alarm = until
	return q.timer.C
}

// Wake has the Wait that is under way return, or else the next.
func (q *Queue) Wake() { q.bell.shout() }

// Close drops what waits, and has every Wait return. Calls that follow do nothing.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed.Store(true)
	q.ring, q.first, q.next, q.told = nil, 0, 0, 0
	q.fill.Store(0)
	q.mu.Unlock()
	q.bell.shout()
}
