package transport

import (
	"container/heap"
	"time"
)

// deadlines is a heap of the queued buffers with a deadline, earliest first.
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

// watch adds b to the heap if it has a deadline. mu is held.
func (tm *TransferMachine) watch(b *Buffer) {
	s := &b.state
	if s.deadline.IsZero() {
		return
	}
	heap.Push(&tm.deadlines, b)
	if s.heapIndex == 1 {
		tm.rouseBy(s.deadline)
	}
}

// rouseBy ensures that the worker does not rest beyond t. mu is held.
func (tm *TransferMachine) rouseBy(t time.Time) {
	if tm.rest != restNone && (tm.restsUntil.IsZero() || t.Before(tm.restsUntil)) {
		tm.rousing = true
	}
}

// unwatch removes b from the heap if it is in it. mu is held.
func (tm *TransferMachine) unwatch(b *Buffer) {
	if i := b.state.heapIndex; i > 0 {
		heap.Remove(&tm.deadlines, i-1)
	}
}

// expire cancels the buffers whose deadline has passed. Only the worker calls it. mu is held, but released
// temporarily.
func (tm *TransferMachine) expire() {
	if len(tm.deadlines) == 0 {
		return
	}
	now := time.Now()
	if tm.deadlines[0].state.deadline.After(now) {
		return
	}
	bt := tm.takeBatch()
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

// nextDeadline returns the next time at which expire or retry has work. It returns zero if no time is set.
// mu is held.
func (tm *TransferMachine) nextDeadline() time.Time {
	next := tm.filler.until
	if len(tm.deadlines) > 0 {
		if first := tm.deadlines[0].state.deadline; next.IsZero() || first.Before(next) {
			next = first
		}
	}
	return next
}
