package completion

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Queue is a FIFO queue of the completions of a TM. New creates one. Any goroutine may push, which blocks
// only on a short lock. Only one goroutine at a time may reap, and only one may wait. Only New, Grow, and the
// first Wait with a deadline allocate memory.
type Queue struct {
	// length is the number of completions in the queue. It changes only while mu is held.
	length atomic.Int64
	closed atomic.Bool
	bell   bell

	mu   sync.Mutex // guards the fields below
	ring []transport.Completion
	// first is the number of completions that were reaped, and next the number that were pushed. Both wrap
	// around. Modulo the length of ring, which is a power of two, they are indexes into ring.
	first, next uint
	room        int    // number of completions of ops for which there is room
	tmQueued    int    // number of queued completions without a Token
	overruns    uint64 // see Overruns

	// timer expires at timerDeadline. If that is zero, the timer has expired. Only the waiting goroutine uses
	// both.
	timer         *time.Timer
	timerDeadline time.Time
}

// tmReserve is the additional room for completions of the TM itself, which need no credit.
const tmReserve = 8

// New creates a queue with room for the given number of completions of ops.
func New(room int) *Queue {
	q := &Queue{bell: newBell()}
	q.Grow(room)
	return q
}

// Grow ensures room for the given total number of completions of ops. It does not hold the lock while it
// allocates memory.
func (q *Queue) Grow(room int) {
	var ring []transport.Completion
	q.mu.Lock()
	for room > q.room {
		if n := q.ringSize(room + tmReserve); n > max(len(q.ring), len(ring)) {
			q.mu.Unlock()
			ring = make([]transport.Completion, n)
			q.mu.Lock()
			continue
		}
		q.room = room
		q.moveTo(ring)
	}
	q.mu.Unlock()
}

// ringSize returns the length of a ring that has room for n completions. mu is held.
func (q *Queue) ringSize(n int) int {
	size := max(len(q.ring), 16)
	for size < n {
		size *= 2
	}
	return size
}

// moveTo replaces the ring by a longer one and copies the queued completions to it. It does nothing if the
// given ring is not longer. mu is held.
func (q *Queue) moveTo(ring []transport.Completion) {
	if len(ring) <= len(q.ring) {
		return
	}
	for i := q.first; i != q.next; i++ {
		ring[i&uint(len(ring)-1)] = *q.slot(i)
	}
	q.ring = ring
}

// slot returns the entry of the ring for completion number i. mu is held.
func (q *Queue) slot(i uint) *transport.Completion { return &q.ring[i&uint(len(q.ring)-1)] }

// Push appends a copy of c, the completion of an op, and wakes the waiting goroutine. The engine's credits
// guarantee that the queue has room. A completion without room means that the Core is faulty: builds with the
// race detector panic, and other builds grow the queue and count the completion in Overruns.
func (q *Queue) Push(c *transport.Completion) {
	q.mu.Lock()
	if q.closed.Load() {
		q.mu.Unlock()
		return
	}
	if int(q.next-q.first)-q.tmQueued >= q.room {
		q.makeRoom()
	}
	q.put(c)
	q.mu.Unlock()
	q.bell.wake()
}

// PushTM appends a copy of c, a completion of the TM itself, which has no Token. If several such completions
// are queued already, PushTM discards c and returns false, because one report of lost messages is enough. It
// never discards a completion with Down, of which there is at most one.
func (q *Queue) PushTM(c *transport.Completion) bool {
	q.mu.Lock()
	if q.closed.Load() || q.tmQueued >= tmReserve-1 && !c.Down {
		q.mu.Unlock()
		return false
	}
	q.tmQueued++
	q.put(c)
	q.mu.Unlock()
	q.bell.wake()
	return true
}

// put appends c to the ring, which has room. mu is held.
func (q *Queue) put(c *transport.Completion) {
	*q.slot(q.next) = *c
	q.next++
	q.length.Store(int64(q.next - q.first))
}

// makeRoom makes room for a completion for which the engine has no credit. mu is held.
func (q *Queue) makeRoom() {
	if raceEnabled {
		q.mu.Unlock()
		panic("completion: more completions than the engine has credits for")
	}
	q.overruns++
	q.moveTo(make([]transport.Completion, q.ringSize(int(q.next-q.first)+1+tmReserve)))
}

// Overruns returns the number of completions for which there was no room when they were pushed. It is 0
// unless the Core is faulty.
func (q *Queue) Overruns() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.overruns
}

// Reap moves up to len(dst) completions to dst, and returns their number.
func (q *Queue) Reap(dst []transport.Completion) int {
	if q.length.Load() == 0 {
		return 0
	}
	q.mu.Lock()
	n := min(len(dst), int(q.next-q.first))
	for i := range n {
		slot := q.slot(q.first)
		dst[i] = *slot
		if slot.Token == nil {
			q.tmQueued--
		}
		*slot = transport.Completion{} // drop references to the buffer
		q.first++
	}
	q.length.Store(int64(q.next - q.first))
	q.mu.Unlock()
	return n
}

// Pending reports whether Reap would return a completion. It costs one atomic load.
func (q *Queue) Pending() bool { return q.length.Load() != 0 }

// Wait blocks until Pending returns true, until Wake or Close is called, or until the given time unless that
// is zero.
func (q *Queue) Wait(until time.Time) {
	var expired <-chan time.Time
	for {
		q.bell.prepareSleep()
		if q.Pending() || q.closed.Load() || q.bell.woken.Load() {
			break
		}
		if expired == nil && !until.IsZero() {
			expired = q.startTimer(until)
		}
		if !q.bell.sleep(expired) {
			q.timerDeadline = time.Time{} // the timer has expired, and its value was received
			break
		}
	}
	q.bell.finishSleep()
}

// startTimer returns a channel that becomes ready at the given time. Wait does not stop the timer, because
// the next Wait usually has the same deadline and can use the timer again.
func (q *Queue) startTimer(until time.Time) <-chan time.Time {
	switch {
	case q.timer == nil:
		q.timer = time.NewTimer(time.Until(until))
	case !q.timerDeadline.Equal(until):
		q.timer.Reset(time.Until(until))
	}
	q.timerDeadline = until
	return q.timer.C
}

// Wake ends the Wait that is in progress. If no Wait is in progress, the next Wait returns immediately.
func (q *Queue) Wake() { q.bell.forceWake() }

// Close discards the queued completions and makes every Wait return. Completions that are pushed later are
// discarded.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed.Store(true)
	q.ring, q.first, q.next, q.tmQueued = nil, 0, 0, 0
	q.length.Store(0)
	q.mu.Unlock()
	q.bell.forceWake()
}
