package completion

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Queue is a FIFO queue of completions. New creates one. Any goroutine may push, which blocks only on a
// short lock. One goroutine at a time may reap, and one at a time may wait. Only New, Grow, and the first
// Wait with a deadline allocate memory.
type Queue struct {
	// length is the number of completions in the queue. It is changed with mu held.
	length atomic.Int64
	closed atomic.Bool
	bell   bell

	mu   sync.Mutex // guards the fields below
	ring []transport.Completion
	// first counts the completions reaped, next those pushed. Both wrap around; modulo the length of ring,
	// a power of two, they are indexes into it.
	first, next uint
	room        int
	tmQueued    int // number of queued completions without a Token
	overruns    uint64

	// timer expires at alarm. If alarm is zero, it has expired. Both belong to the waiting goroutine.
	timer         *time.Timer
	timerDeadline time.Time
}

// tmReserve is the room for completions of the TM itself, which need no credit, in addition to room.
const tmReserve = 8

// New creates a queue with room for the given number of completions of ops.
func New(room int) *Queue {
	q := &Queue{bell: newBell()}
	q.Grow(room)
	return q
}

// Grow ensures room for the given total number of completions of ops. It allocates without holding the
// lock.
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

// ringSize returns the length of the ring needed for n completions. mu is held.
func (q *Queue) ringSize(n int) int {
	size := max(len(q.ring), 16)
	for size < n {
		size *= 2
	}
	return size
}

// moveTo copies the queued completions to a new ring, if that is longer. mu is held.
func (q *Queue) moveTo(ring []transport.Completion) {
	if len(ring) <= len(q.ring) {
		return
	}
	for i := q.first; i != q.next; i++ {
		ring[i&uint(len(ring)-1)] = *q.slot(i)
	}
	q.ring = ring
}

// slot returns place i of the ring. mu is held.
func (q *Queue) slot(i uint) *transport.Completion { return &q.ring[i&uint(len(q.ring)-1)] }

// Push appends a copy of c, the completion of an op, and wakes the waiting goroutine. The engine's credits
// guarantee that there is room. If the queue is full, the Core is faulty. Then builds with the race
// detector panic; others keep the completion and count it in Overruns.
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

// PushTM appends a copy of c, a completion of the TM itself without a Token. If several of these are queued
// already, it discards c and returns false: one report of lost messages is enough. A completion with Down,
// of which there is at most one, is never discarded.
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

// put appends c. mu is held, and the ring has room.
func (q *Queue) put(c *transport.Completion) {
	*q.slot(q.next) = *c
	q.next++
	q.length.Store(int64(q.next - q.first))
}

// makeRoom makes room for a completion beyond the credits. mu is held.
func (q *Queue) makeRoom() {
	if raceEnabled {
		q.mu.Unlock()
		panic("completion: more completions than the engine has credits for")
	}
	q.overruns++
	q.moveTo(make([]transport.Completion, q.ringSize(int(q.next-q.first)+1+tmReserve)))
}

// Overruns returns the number of completions that were pushed without room. It is 0 unless the Core is
// faulty.
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

// Wait blocks until Pending returns true, Wake or Close is called, or the time until, unless that is zero.
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
			q.timerDeadline = time.Time{} // the value was received
			break
		}
	}
	q.bell.finishSleep()
}

// startTimer returns a channel that becomes ready at until. The timer keeps running after Wait unless it has
// expired, because most later calls have the same deadline.
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

// Wake ends the current Wait. If no Wait is running, the next one returns at once.
func (q *Queue) Wake() { q.bell.forceWake() }

// Close discards queued completions and ends every Wait. Later calls have no effect.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed.Store(true)
	q.ring, q.first, q.next, q.tmQueued = nil, 0, 0, 0
	q.length.Store(0)
	q.mu.Unlock()
	q.bell.forceWake()
}
