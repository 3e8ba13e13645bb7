package transport

import (
	"container/heap"
	"time"
)

// deadlines is a heap of the queued buffers that have a deadline, earliest first.
type deadlines []*Buffer

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Less(i, j int) bool {
	return d[i].state.deadline.Before(d[j].state.deadline)
}

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].state.heapIndex, d[j].state.heapIndex = i+1, j+1
}

// Push implements heap.Interface.
func (d *deadlines) Push(b any) {
	*d = append(*d, b.(*Buffer))
	(*d)[len(*d)-1].state.heapIndex = len(*d)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	b := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	b.state.heapIndex = 0
	return b
}

// addDeadline adds b to the heap if it has a deadline. mu is held.
func (tm *TransferMachine) addDeadline(b *Buffer) {
	s := &b.state
	if s.deadline.IsZero() {
		return
	}
	heap.Push(&tm.deadlines, b)
	if s.heapIndex == 1 {
		tm.wakeBy(s.deadline)
	}
}

// wakeBy ensures that the worker does not wait longer than until t. mu is held.
func (tm *TransferMachine) wakeBy(t time.Time) {
	if tm.waiting != waitNone && (tm.waitsUntil.IsZero() || t.Before(tm.waitsUntil)) {
		tm.wakeNeeded = true
	}
}

// removeDeadline removes b from the heap if it has a deadline. mu is held.
func (tm *TransferMachine) removeDeadline(b *Buffer) {
	if i := b.state.heapIndex; i > 0 {
		heap.Remove(&tm.deadlines, i-1)
	}
}

// cancelExpired cancels the operations of the buffers whose deadline has passed. Only the worker calls it. mu
// is held, but released temporarily.
func (tm *TransferMachine) cancelExpired() {
	if len(tm.deadlines) == 0 {
		return
	}
	now := time.Now()
	if tm.deadlines[0].state.deadline.After(now) {
		return
	}
	bt := tm.getBatch()
	for len(tm.deadlines) > 0 && !tm.deadlines[0].state.deadline.After(now) {
		b := heap.Pop(&tm.deadlines).(*Buffer)
		b.state.flags |= FlagTimedOut
		bt.cancel(b)
	}
	tm.unlock()
	tm.cancelAll(bt)
	tm.mu.Lock()
	tm.putBatch(bt)
}

// nextDeadline returns the next time at which cancelExpired or refillAfterPause has work, or zero if there is
// no such time. mu is held.
func (tm *TransferMachine) nextDeadline() time.Time {
	next := tm.provisioning.pauseEnd
	if len(tm.deadlines) > 0 {
		if first := tm.deadlines[0].state.deadline; next.IsZero() || first.Before(next) {
			next = first
		}
	}
	return next
}
