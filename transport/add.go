package transport

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Add queues b on b.Queue, and returns. Unless it returns an error, with which nothing
// has happened, one final event follows, perhaps before Add returns. When Add returns, peers
// reach a buffer on MsgRecv or a passive queue. Over lnetd it waits for that, as long as lnetd
// answers (remote.Config.Patience), but not beyond the deadlines of the TM's buffers.
//
// EINVAL: the TM is not StateStarted, which State tells, b is not registered in its domain,
// or something in b does not fit its queue; EBUSY: b is queued; ETIME: its deadline has passed; EPERM: the
// descriptor is for the other direction; EFBIG: sizes do not fit; ENOBUFS: the Core has
// no room for more events; EPIPE: the Core is gone; or what the Core says, such as
// EHOSTUNREACH (transport 3.16).
func (tm *TransferMachine) Add(b *Buffer) error {
	_, err := tm.AddAll(b)
	return err
}

// AddAll is Add of several, in order, at the cost of one call of the Core, and one wait. It
// returns how many it has added, and of the next why it could not.
func (tm *TransferMachine) AddAll(bs ...*Buffer) (int, error) {
	if len(bs) == 0 {
		return 0, nil
	}
	now := time.Now()
	tm.mu.Lock()
	bt := tm.takeBatch()
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
			tm.withdraw(b)
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
		return n, tm.notAdded(bs[n], err)
	}
	return n, nil
}

// notAdded is err with what was attempted.
func (tm *TransferMachine) notAdded(b *Buffer, err error) error {
	if b == nil {
		return fmt.Errorf("transport: add: no buffer: %w", err)
	}
	return fmt.Errorf("transport: add to %v: %w", b.Queue, err)
}

// finish ends what takeBatch began, with what was noted to be cancelled; mu is held, and
// released.
func (tm *TransferMachine) finish(bt *batch) {
	if len(bt.cancels) > 0 {
		tm.unlock()
		tm.cancelAll(bt)
		tm.mu.Lock()
	}
	tm.putBatch(bt)
	tm.unlock()
}

// enqueueWithRoom is enqueue that asks the Core for room if there is too little. It
// releases mu meanwhile.
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

// enqueue checks a buffer, and puts it on its queue and into the batch; mu is held. An
// error means that nothing has happened; errNoRoom that makeRoom has to be called, with mu
// released, before the next attempt.
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

// creditsOf is how many completions an op on a buffer has at most.
func creditsOf(b *Buffer) int {
	if b.Queue == MsgRecv {
		return b.MaxMessages
	}
	return 1
}

// check tells whether a buffer that the caller has claimed can be added (transport 3.8); mu
// is held.
func (tm *TransferMachine) check(b *Buffer, now time.Time) error {
	size := b.state.size
	switch q := b.Queue; {
	case b.state.domain != tm.domain:
		return errForeign
	case tm.state != StateStarted:
		return fmt.Errorf("the TM is %v, and takes buffers only while it is %v: %w", tm.state, StateStarted, syscall.EINVAL)
	case tm.down != nil:
		return tm.down
	case q >= QueueTypes:
		return errQueue
	case b.Callbacks == nil || b.Callbacks[q] == nil:
		return errCallback
	case b.Offset != 0:
		return fmt.Errorf("offset %d: %w", b.Offset, syscall.EINVAL)
	case !q.receives() && (b.Length < 1 || b.Length > size):
		return fmt.Errorf("length %d, not 1 to %d: %w", b.Length, size, syscall.EINVAL)
	case q == MsgSend && b.EndPoint == nil:
		return errNoEndPoint
	case q == MsgSend && (b.EndPoint.tm != tm || b.EndPoint.refs == 0):
		return errEndPoint
	case q == MsgRecv && b.EndPoint != nil:
		return errReceives
	case q == MsgRecv && (b.MinReceiveSize < 1 || b.MinReceiveSize > size):
		return fmt.Errorf("minimum receive size %d, not 1 to %d: %w", b.MinReceiveSize, size, syscall.EINVAL)
	case q == MsgRecv && (b.MaxMessages < 1 || b.MaxMessages > MostMessages):
		return fmt.Errorf("at most %d messages, not 1 to %d: %w", b.MaxMessages, MostMessages, syscall.EINVAL)
	case q.active() && len(b.Descriptor) == 0:
		return errNoDescriptor
	}
	if !b.Deadline.IsZero() && !b.Deadline.After(now) {
		return errLate
	}
	return nil
}

// Why a buffer cannot be added.
var (
	errForeign      = fmt.Errorf("the buffer is another domain's: %w", syscall.EINVAL)
	errQueue        = fmt.Errorf("no such queue: %w", syscall.EINVAL)
	errCallback     = fmt.Errorf("the buffer has no callback for it: %w", syscall.EINVAL)
	errNoEndPoint   = fmt.Errorf("no end point: %w", syscall.EINVAL)
	errEndPoint     = fmt.Errorf("the end point is another TM's, or was dropped: %w", syscall.EINVAL)
	errReceives     = fmt.Errorf("EndPoint is not nil, as it has to be of what receives, or goes to a pool: %w", syscall.EINVAL)
	errNoDescriptor = fmt.Errorf("no descriptor: %w", syscall.EINVAL)
	errLate         = fmt.Errorf("the deadline has passed: %w", syscall.ETIME)
)

// describe fills in the op of a buffer that check has let pass; mu is held.
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

// link queues a buffer whose op goes to the Core now; mu is held.
func (tm *TransferMachine) link(b *Buffer, op *Op, now time.Time) {
	s := &b.state
	s.sequence = op.Sequence
	s.queue = b.Queue
	s.flags = FlagRegistered | FlagQueued
	s.call = b.Callbacks[b.Queue]
	s.length = b.Length
	s.credits = creditsOf(b)
	s.added, s.deadline = now, b.Deadline
	s.submitting, s.certain, s.unwanted = true, false, false
	s.messages.Store(0)
	if s.queue == MsgSend {
		s.endPoint = b.EndPoint
		tm.endPoints.retain(s.endPoint)
	}
	tm.credits += s.credits
	tm.queues[s.queue].add(b)
	tm.queued++
	tm.watch(b)
	s.tm.Store(tm)
}

// unlink ends what link began, gives b a deadline, and makes it the program's; mu is
// held. It returns the end point that b has kept, whose reference is the caller's.
func (tm *TransferMachine) unlink(b *Buffer, deadline time.Time) *EndPoint {
	s := &b.state
	tm.unwatch(b)
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

// withdraw takes back a buffer that the Core has not taken, as if it had never been added;
// mu is held.
func (tm *TransferMachine) withdraw(b *Buffer) {
	if b.state.queue.passive() {
		b.Descriptor = nil
	}
	if kept := tm.unlink(b, b.state.deadline); kept != nil {
		tm.endPoints.drop(kept)
	}
}

// Cancel asks that the operation on b be ended, and tells whether b is queued on the TM.
// If it is, its final event follows: ECANCELED, or what came first. The buffer stays lent
// until then. While another goroutine adds b, Cancel waits for what becomes of that.
func (tm *TransferMachine) Cancel(b *Buffer) bool {
	if b == nil {
		return false
	}
	tm.mu.Lock()
	s := &b.state
	for s.tm.Load() == tm && s.submitting && !s.certain {
		tm.answered.Wait()
	}
	if s.tm.Load() != tm {
		tm.mu.Unlock()
		return false
	}
	bt := tm.takeBatch()
	tm.cancel(bt, b)
	tm.finish(bt)
	return true
}

// cancel notes that a program wants a queued buffer's op ended; mu is held.
func (tm *TransferMachine) cancel(bt *batch, b *Buffer) {
	b.state.flags |= FlagCancelled
	tm.stats[b.state.queue].Cancels++
	bt.cancel(b)
}
