package transport

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Add adds b to the queue b.Queue. If Add succeeds, exactly one final event follows, possibly before Add
// returns. If Add fails, nothing has changed. If b is on MsgRecv or a passive queue, peers can reach it when
// Add returns. With remote.Core, Add waits for this as long as lnetd answers (remote.Config.Patience), but
// not beyond the next deadline of the TM's buffers.
//
// Add returns EINVAL if the TM is not started, b is not registered in its domain, or a field of b does not
// suit the queue; EBUSY if b is queued or in a pool; ETIME if its deadline has passed; EPERM if the
// descriptor is for the other direction; EFBIG if sizes do not match; ENOBUFS if the Core has no room for
// more events; EPIPE if the Core is gone; and other errors of the Core, such as EHOSTUNREACH (transport
// 3.16).
func (tm *TransferMachine) Add(b *Buffer) error {
	_, err := tm.AddAll(b)
	return err
}

// AddAll is like Add for several buffers, in order, with one call of the Core and one wait. It returns the
// number of buffers added. If this is less than len(bs), the next buffer was refused, err is the reason, and
// the buffers after it were not tried.
func (tm *TransferMachine) AddAll(bs ...*Buffer) (int, error) {
	if len(bs) == 0 {
		return 0, nil
	}
	now := time.Now()
	tm.mu.Lock()
	bt := tm.getBatch()
	var err error
	for _, b := range bs {
		if err = tm.enqueueWithRoom(bt, b, now); err != nil {
			break
		}
	}
	n := len(bt.ops)
	if n > 0 {
		tm.unlock()
		taken, refusal := tm.submit(bt, 0)
		for _, b := range bt.buffers[taken:] {
			tm.undoAdd(b)
		}
		if refusal != nil {
			n, err = taken, refusal
		}
	}
	flush, until := bt.reachable(n), tm.flushUntil(now)
	tm.finish(bt)
	if flush {
		tm.inner.Flush(until)
	}
	if err != nil {
		return n, tm.addError(bs[n], err)
	}
	return n, nil
}

// addError adds to err that the attempted operation was to add b.
func (tm *TransferMachine) addError(b *Buffer, err error) error {
	if b == nil {
		return fmt.Errorf("transport: add: the buffer is nil: %w", err)
	}
	return fmt.Errorf("transport: add to %v: %w", b.Queue, err)
}

// finish submits the cancellations in the batch and returns the batch to the free list. mu is held on entry
// and released on return.
func (tm *TransferMachine) finish(bt *batch) {
	if len(bt.cancels) > 0 {
		tm.unlock()
		tm.cancelAll(bt)
		tm.mu.Lock()
	}
	tm.putBatch(bt)
	tm.unlock()
}

// enqueueWithRoom is like enqueue, but asks the Core for more room if that is needed. For this it releases mu
// temporarily.
func (tm *TransferMachine) enqueueWithRoom(bt *batch, b *Buffer, now time.Time) error {
	for {
		err := tm.enqueue(bt, b, now)
		if err == nil || !errors.Is(err, errNoRoom) {
			return err
		}
		more := creditsOf(b)
		tm.unlock()
		err = tm.makeRoom(more)
		tm.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// enqueue validates b and adds it to its queue and to the batch. After an error nothing has changed. If the
// error is errNoRoom, the caller must release mu and call makeRoom before it tries again. mu is held.
func (tm *TransferMachine) enqueue(bt *batch, b *Buffer, now time.Time) error {
	if b == nil {
		return errUnregistered
	}
	s := &b.state
	if err := s.claim(queued); err != nil {
		return err
	}
	bt.ops = append(bt.ops, Op{})
	op := &bt.ops[len(bt.ops)-1]
	err := tm.check(b, now)
	if err == nil && creditsOf(b) > tm.room-tm.credits {
		err = errNoRoom
	}
	if err == nil {
		err = tm.describe(b, op)
	}
	if err != nil {
		bt.ops = bt.ops[:len(bt.ops)-1]
		if b.Queue.passive() {
			b.Descriptor = nil
		}
		s.use.Store(idle)
		return err
	}
	bt.buffers = append(bt.buffers, b)
	tm.link(b, op, now)
	return nil
}

// creditsOf returns the maximum number of completions that an op on b can produce.
func creditsOf(b *Buffer) int {
	if b.Queue == MsgRecv {
		return b.MaxMessages
	}
	return 1
}

// check returns an error if the claimed buffer b cannot be added (transport 3.8). mu is held.
func (tm *TransferMachine) check(b *Buffer, now time.Time) error {
	size := b.state.size
	switch q := b.Queue; {
	case b.state.domain != tm.domain:
		return errOtherDomain
	case tm.state != StateStarted:
		return fmt.Errorf("the TM is %v, but only accepts buffers while it is %v: %w", tm.state, StateStarted, syscall.EINVAL)
	case tm.down != nil:
		return tm.down
	case q >= QueueTypes:
		return errQueue
	case b.Callbacks == nil || b.Callbacks[q] == nil:
		return errCallback
	case b.Offset != 0:
		return fmt.Errorf("offset %d: must be 0: %w", b.Offset, syscall.EINVAL)
	case !q.receives() && (b.Length < 1 || b.Length > size):
		return fmt.Errorf("length %d is not within 1 to %d: %w", b.Length, size, syscall.EINVAL)
	case q == MsgSend && b.EndPoint == nil:
		return errNoEndPoint
	case q == MsgSend && (b.EndPoint.tm != tm || b.EndPoint.refs == 0):
		return errEndPoint
	case q == MsgRecv && b.EndPoint != nil:
		return errReceives
	case q == MsgRecv && (b.MinReceiveSize < 1 || b.MinReceiveSize > size):
		return fmt.Errorf("minimum receive size %d is not within 1 to %d: %w", b.MinReceiveSize, size, syscall.EINVAL)
	case q == MsgRecv && (b.MaxMessages < 1 || b.MaxMessages > MostMessages):
		return fmt.Errorf("MaxMessages %d is not within 1 to %d: %w", b.MaxMessages, MostMessages, syscall.EINVAL)
	case q.active() && len(b.Descriptor) == 0:
		return errNoDescriptor
	}
	if !b.Deadline.IsZero() && !b.Deadline.After(now) {
		return errDeadlinePassed
	}
	return nil
}

// Reasons why a buffer cannot be added.
var (
	errOtherDomain    = fmt.Errorf("the buffer belongs to another domain: %w", syscall.EINVAL)
	errQueue          = fmt.Errorf("there is no such queue: %w", syscall.EINVAL)
	errCallback       = fmt.Errorf("the buffer has no callback for this queue: %w", syscall.EINVAL)
	errNoEndPoint     = fmt.Errorf("EndPoint is nil: %w", syscall.EINVAL)
	errEndPoint       = fmt.Errorf("the end point belongs to another TM, or was dropped: %w", syscall.EINVAL)
	errReceives       = fmt.Errorf("EndPoint must be nil in a buffer that receives or is put into a pool: %w", syscall.EINVAL)
	errNoDescriptor   = fmt.Errorf("Descriptor is empty: %w", syscall.EINVAL)
	errDeadlinePassed = fmt.Errorf("the deadline has passed: %w", syscall.ETIME)
)

// describe sets the fields of the op for buffer b, which has passed check. For a passive queue it also sets
// b.Descriptor. mu is held.
func (tm *TransferMachine) describe(b *Buffer, op *Op) error {
	s := &b.state
	*op = Op{Queue: b.Queue, Buffer: s.core, Sequence: s.sequence + 1}
	switch b.Queue {
	case MsgRecv:
		op.MinReceiveSize, op.MaxMessages = b.MinReceiveSize, b.MaxMessages
	case MsgSend:
		op.Length, op.Peer = b.Length, b.EndPoint.address
	case PassiveBulkRecv, PassiveBulkSend:
		size := s.size
		if b.Queue == PassiveBulkSend {
			op.Length, size = b.Length, b.Length
		}
		tm.matchBits = tm.matchBits.Next()
		op.MatchBits = tm.matchBits
		p := Passive{Address: tm.self.address, MatchBits: op.MatchBits, Queue: b.Queue, Size: size}
		s.descriptor = p.AppendDescriptor(s.descriptor[:0])
		b.Descriptor = s.descriptor
	case ActiveBulkRecv, ActiveBulkSend:
		p, n, err := b.Descriptor.transfer(b.Queue, s.size, b.Length)
		op.Peer, op.MatchBits, op.Length = p.Address, p.MatchBits, n
		return err
	}
	return nil
}

// link adds a buffer to its queue, before its op is submitted. mu is held.
func (tm *TransferMachine) link(b *Buffer, op *Op, now time.Time) {
	s := &b.state
	s.sequence = op.Sequence
	s.queue = b.Queue
	s.flags = FlagRegistered | FlagQueued
	s.call = b.Callbacks[b.Queue]
	s.length = b.Length
	s.credits = creditsOf(b)
	s.added, s.deadline = now, b.Deadline
	s.submitting, s.reportRefusal, s.cancelRequested = true, false, false
	s.messages.Store(0)
	if s.queue == MsgSend {
		s.endPoint = b.EndPoint
		tm.endPoints.retain(s.endPoint)
	}
	tm.credits += s.credits
	tm.queues[s.queue].add(b)
	tm.queued++
	tm.addDeadline(b)
	s.tm.Store(tm)
}

// unlink reverts link, sets b.Deadline to deadline, and returns b to the program. If b holds a reference to
// an end point, unlink returns this end point, and the caller must drop the reference. mu is held.
func (tm *TransferMachine) unlink(b *Buffer, deadline time.Time) *EndPoint {
	s := &b.state
	tm.removeDeadline(b)
	tm.queues[s.queue].remove(b)
	tm.queued--
	tm.credits -= s.credits
	kept := s.endPoint
	s.endPoint, s.call = nil, nil
	s.flags = FlagRegistered
	b.Deadline = deadline
	s.tm.Store(nil)
	s.use.Store(idle)
	return kept
}

// undoAdd removes a buffer that the Core has refused, as if it had never been added. mu is held.
func (tm *TransferMachine) undoAdd(b *Buffer) {
	if b.state.queue.passive() {
		b.Descriptor = nil
	}
	if kept := tm.unlink(b, b.state.deadline); kept != nil {
		tm.endPoints.drop(kept)
	}
}

// Cancel requests the end of the operation on b. It returns false if b is not queued on the TM. Otherwise the
// final event follows, with ECANCELED, or with the outcome of an operation that ended earlier. The buffer
// stays lent until then. If another goroutine is just adding b, Cancel first waits for the result.
func (tm *TransferMachine) Cancel(b *Buffer) bool {
	if b == nil {
		return false
	}
	tm.mu.Lock()
	s := &b.state
	for s.tm.Load() == tm && s.submitting && !s.reportRefusal {
		tm.batchReturned.Wait()
	}
	if s.tm.Load() != tm {
		tm.mu.Unlock()
		return false
	}
	bt := tm.getBatch()
	tm.cancel(bt, b)
	tm.finish(bt)
	return true
}

// cancel counts the cancellation of a queued buffer, and adds the cancellation to the batch. mu is held.
func (tm *TransferMachine) cancel(bt *batch, b *Buffer) {
	b.state.flags |= FlagCancelled
	tm.stats[b.state.queue].Cancels++
	bt.cancel(b)
}
