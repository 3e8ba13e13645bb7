package transport

import (
	"fmt"
	"syscall"
	"time"
)

// batch holds ops to be submitted to the Core together, and their buffers. While a batch is in use, a call of
// the Core may be in progress, so the TM does not stop.
type batch struct {
	ops     []Op
	buffers []*Buffer
	// cancels are cancellations, which are submitted after ops.
	cancels []Op
	start   int // used by submitDeferred: ops[start:] are yet to be submitted
	next    *batch
}

// maxKeptBatch is the maximum capacity of a batch that is kept for reuse, in ops.
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

// putBatch returns a batch to the free list. The Core has accepted or refused all its ops. mu is held.
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

// cancel cancels the op of a queued buffer, by adding a cancellation to the batch. If a goroutine is just
// submitting the op, the Core does not know it yet; cancel then only sets cancelRequested, and that goroutine
// cancels the op when the Core has accepted it. mu of the TM is held.
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
		from += n + 1 // the Core refuses a cancellation only if the op or the TM has ended
	}
	clear(bt.cancels)
	bt.cancels = bt.cancels[:0]
}

// submit submits ops[from:] of a batch, until the Core refuses an op. It returns the number of accepted ops
// and the reason of the refusal. No lock is held on entry; mu is held on return. The caller may access
// buffers of accepted ops only while it holds mu, because their ops may end at any time.
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
			continue // the op has ended, and the program may have added the buffer again
		}
		s.submitting = false
		if s.cancelRequested {
			bt.cancel(b)
		}
	}
	if tm.down != nil {
		tm.coreLost.Store(true) // endLostOps can end the op now that submitting is false
	}
	return n, err
}

// reachable reports whether peers access the buffer of one of the first n ops of the batch.
func (bt *batch) reachable(n int) bool {
	for i := range bt.ops[:n] {
		if q := bt.ops[i].Queue; q == MsgRecv || q.passive() {
			return true
		}
	}
	return false
}

// minFlush is the minimum time that a Flush may take, even if the deadline of a buffer is earlier. A Core
// that answers needs much less.
const minFlush = time.Second

// flushUntil returns the time at which a Flush must end: the next deadline of a buffer, because the worker
// may be the goroutine that waits in Flush, and it must enforce this deadline. Zero means no limit. mu is
// held.
func (tm *TransferMachine) flushUntil(now time.Time) time.Time {
	next := tm.nextDeadline()
	if least := now.Add(minFlush); !next.IsZero() && next.Before(least) {
		return least
	}
	return next
}

// errNoRoom means that the Core has no room for the completions of another op; see makeRoom.
var errNoRoom = fmt.Errorf("transport: no room for the events of more operations: %w", syscall.ENOBUFS)

const (
	// firstRoom is the number of completions that a Core has room for initially. This number and its doubles
	// (48, 96 and so on) leave space for a few completions about the TM itself in a ring of the next power of
	// two.
	firstRoom = 24
	// maxRoom is the largest number of completions that the TM asks the Core for.
	maxRoom = 1 << 20
)

// makeRoom asks the Core for room for more completions than are reserved now. To call the Core rarely, it at
// least doubles the room if the Core permits that. It returns ENOBUFS if the Core refuses. No lock is held.
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
