package transport

import (
	"fmt"
	"syscall"
	"time"
)

// batch is what goes to the Core in one call: ops, and the buffers that they are on. While
// somebody has one, a call is under way, and the TM does not stop.
type batch struct {
	ops     []Op
	buffers []*Buffer
	// cancels are ops, too, that go when the others have gone.
	cancels []Op
	from    int // of addNow: ops[from:] are to be handed over
	next    *batch
}

// maxKept is up to how many ops a batch is kept for the next call.
const maxKept = 1024

// takeBatch returns an empty batch; mu is held.
func (tm *TransferMachine) takeBatch() *batch {
	tm.calls++
	bt := tm.batches
	if bt == nil {
		return new(batch)
	}
	tm.batches, bt.next = bt.next, nil
	return bt
}

// putBatch gives a batch back, of whose ops it is known by now what the Core has taken; mu
// is held.
func (tm *TransferMachine) putBatch(bt *batch) {
	tm.calls--
	tm.answered.Broadcast()
	if cap(bt.ops)+cap(bt.cancels) > maxKept {
		return
	}
	clear(bt.ops)
	clear(bt.buffers)
	bt.ops, bt.buffers, bt.from = bt.ops[:0], bt.buffers[:0], 0
	bt.next, tm.batches = tm.batches, bt
}

// cancel notes that the op of a queued buffer is to be ended: by the batch, or, if it is
// with the Core at this moment, by whoever has brought it there. The TM's mu is held.
func (bt *batch) cancel(b *Buffer) {
	s := &b.state
	if s.submitting {
		s.unwanted = true
		return
	}
	bt.cancels = append(bt.cancels, Op{Queue: s.queue, Cancel: true, Buffer: s.core, Sequence: s.sequence})
}

// cancelAll has the Core end what cancel has noted. No lock is held.
func (tm *TransferMachine) cancelAll(bt *batch) {
	for from := 0; from < len(bt.cancels); {
		n, err := tm.inner.Submit(bt.cancels[from:])
		if err == nil {
			break
		}
		from += n + 1 // what the Core does not cancel is over, or the TM is
	}
	clear(bt.cancels)
	bt.cancels = bt.cancels[:0]
}

// submit hands the ops of a batch, from one on, to the Core, until it refuses one, and
// notes what it has taken; of that nothing may be touched but under mu, since it may be
// over. It returns how many it has taken, and with mu held.
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
			continue // it is over, and may have been added again
		}
		s.submitting = false
		if s.unwanted {
			bt.cancel(b)
		}
	}
	if tm.down != nil {
		tm.abandoned.Store(true) // now that it is known what the Core had
	}
	return n, err
}

// reachable reports whether peers look for a buffer of the first n ops of the batch.
func (bt *batch) reachable(n int) bool {
	for i := range bt.ops[:n] {
		if q := bt.ops[i].Queue; q == MsgRecv || q.passive() {
			return true
		}
	}
	return false
}

// leastFlush is how long a Flush may last whatever the deadlines are. It is much more than a
// Core needs that works.
const leastFlush = time.Second

// flushUntil returns when a Flush must end, since the worker may be waiting for it: zero, or the
// next deadline of a buffer. mu is held.
func (tm *TransferMachine) flushUntil(now time.Time) time.Time {
	next := tm.nextDeadline()
	if least := now.Add(leastFlush); !next.IsZero() && next.Before(least) {
		return least
	}
	return next
}

// errNoRoom says that the Core has to make room for more completions first.
var errNoRoom = fmt.Errorf("transport: no room for the events of more operations: %w", syscall.ENOBUFS)

const (
	// firstRoom is how many completions a Core makes room for at first. It, and twice as
	// many, and so on, fit a power of two together with a few that are about the TM.
	firstRoom = 24
	// maxRoom is how many it is asked for at most.
	maxRoom = 1 << 20
)

// makeRoom has the Core make room for so many more completions than are spoken for, and
// twice as many as there were if that is more. No lock is held. ENOBUFS: it does not.
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
