package transport

import (
	"fmt"
	"syscall"
	"time"
)

// batch holds the ops of one call to the Core, and their buffers. While a batch is in use, a call is in
// progress and the TM does not stop.
type batch struct {
	ops     []Op
	buffers []*Buffer
	// cancels are submitted after the other ops.
	cancels []Op
	start   int // used by submitDeferred: ops[from:] are to be submitted
	next    *batch
}

// maxKeptBatch is the largest capacity, in ops, of a batch that is kept for reuse.
const maxKeptBatch = 1024

// getBatch returns an empty batch. mu is held.
func (tm *TransferMachine) getBatch() *batch {
	tm.batchesInUse++
	bt := tm.batches
	if bt == nil {
		return new(batch)
	}
	tm.batches, bt.next = bt.next, nil
	return bt
}

// putBatch returns a batch to the free list, after the Core has accepted or refused all its ops. mu is
// held.
func (tm *TransferMachine) putBatch(bt *batch) {
	tm.batchesInUse--
	tm.batchReturned.Broadcast()
	if cap(bt.ops)+cap(bt.cancels) > maxKeptBatch {
		return
	}
	clear(bt.ops)
	clear(bt.buffers)
	bt.ops, bt.buffers, bt.start = bt.ops[:0], bt.buffers[:0], 0
	bt.next, tm.batches = tm.batches, bt
}

// cancel requests the end of the op of a queued buffer. The batch submits the cancellation, unless the op
// itself is just being submitted; then the submitting goroutine cancels it afterwards. mu of the TM is
// held.
func (bt *batch) cancel(b *Buffer) {
	s := &b.state
	if s.submitting {
		s.cancelRequested = true
		return
	}
	bt.cancels = append(bt.cancels, Op{Queue: s.queue, Cancel: true, Buffer: s.core, Sequence: s.sequence})
}

// cancelAll submits the cancellations of the batch. No lock is held.
func (tm *TransferMachine) cancelAll(bt *batch) {
	for from := 0; from < len(bt.cancels); {
		n, err := tm.inner.Submit(bt.cancels[from:])
		if err == nil {
			break
		}
		from += n + 1 // an op that the Core does not cancel has ended, or the TM has
	}
	clear(bt.cancels)
	bt.cancels = bt.cancels[:0]
}

// submit submits ops[from:] of a batch until the Core refuses one. It returns the number of ops that were
// accepted, with mu held. Buffers of accepted ops may be accessed only under mu, because their ops may have
// ended.
func (tm *TransferMachine) submit(bt *batch, from int) (int, error) {
	n, err := tm.inner.Submit(bt.ops[from:])
	if err == nil {
		n = len(bt.ops) - from
	}
	tm.mu.Lock()
	for i := from; i < from+n; i++ {
		b, op := bt.buffers[i], &bt.ops[i]
		tm.stats[op.Queue].Adds++
		s := &b.state
		if s.tm.Load() != tm || s.sequence != op.Sequence {
			continue // the op has ended, and the buffer may have been added again
		}
		s.submitting = false
		if s.cancelRequested {
			bt.cancel(b)
		}
	}
	if tm.down != nil {
		tm.coreLost.Store(true) // abandon can end the op now that it is known to be accepted
	}
	return n, err
}

// reachable reports whether one of the first n ops of the batch has a buffer that peers access.
func (bt *batch) reachable(n int) bool {
	for i := range bt.ops[:n] {
		if q := bt.ops[i].Queue; q == MsgRecv || q.passive() {
			return true
		}
	}
	return false
}

// minFlush is the minimum time allowed for a Flush, regardless of deadlines. A Core that works needs much
// less.
const minFlush = time.Second

// flushUntil returns the time at which a Flush must end, because the worker may be blocked in it. It is
// based on the next deadline of a buffer. Zero means no limit. mu is held.
func (tm *TransferMachine) flushUntil(now time.Time) time.Time {
	next := tm.nextDeadline()
	if least := now.Add(minFlush); !next.IsZero() && next.Before(least) {
		return least
	}
	return next
}

// errNoRoom means that the Core must make room for more completions first.
var errNoRoom = fmt.Errorf("transport: no room for the events of more operations: %w", syscall.ENOBUFS)

const (
	// firstRoom is the initial number of completions that a Core has room for. Together with a few
	// completions about the TM, it and its doubles fit in a power of two.
	firstRoom = 24
	// maxRoom is the largest number that the Core is asked for.
	maxRoom = 1 << 20
)

// makeRoom asks the Core for room for more completions beyond those reserved. It at least doubles the room
// if the Core permits. It returns ENOBUFS if the Core refuses. No lock is held.
func (tm *TransferMachine) makeRoom(more int) error {
	tm.mu.Lock()
	inner, need, room := tm.inner, tm.credits+more, max(tm.room, firstRoom)
	tm.mu.Unlock()
	if more > maxRoom || need > maxRoom || inner == nil {
		return errNoRoom
	}
	for room < need {
		room *= 2
	}
	room = min(room, maxRoom)
	err := inner.Grow(room)
	if err != nil && need < room {
		room = need
		err = inner.Grow(room)
	}
	if err != nil {
		return fmt.Errorf("transport: make room for %d events: %w", room, err)
	}
	tm.mu.Lock()
	tm.room = max(tm.room, room)
	tm.mu.Unlock()
	return nil
}
