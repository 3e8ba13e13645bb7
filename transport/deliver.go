package transport

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// These errors are allocated once, so that delivering an event allocates nothing.
var (
	errCancelled  = fmt.Errorf("transport: the TM has failed: %w", syscall.ECANCELED)
	errTimedOut   = fmt.Errorf("transport: the deadline has passed: %w", syscall.ETIMEDOUT)
	errSender     = fmt.Errorf("transport: the sender of the message has no valid address: %w", syscall.EPROTO)
	errCompletion = fmt.Errorf("transport: the Core returned an invalid completion: %w", syscall.EPROTO)
	errNoCallback = fmt.Errorf("transport: the callback has returned: %w", syscall.EINVAL)
)

const (
	// firstReaped is the number of completions that the first call of Reap may return. This number doubles up
	// to maxReaped whenever a call returns that many.
	firstReaped = 8
	maxReaped   = 64
)

// deliver calls the callbacks for up to maxReaped pending completions, and submits the buffers that the
// callbacks have added with BufferEvent.Add. It returns the number of callbacks called. more is false if
// nothing was pending. The caller must be the delivering goroutine. If a callback ends by runtime.Goexit or a
// panic, the next call of deliver continues after the event of this callback.
func (tm *TransferMachine) deliver() (events int, more bool) {
	if tm.reaped == nil {
		tm.reaped = make([]Completion, firstReaped)
	}
	if tm.next == tm.last {
		tm.next, tm.last = 0, tm.inner.Reap(tm.reaped)
	}
	if tm.last == 0 && !tm.coreLost.Load() && !tm.moreEvents.Load() && tm.deferred == nil {
		return 0, false
	}
	tm.mu.Lock()
	tm.moreEvents.Store(false)
	for tm.next < tm.last {
		c := &tm.reaped[tm.next]
		tm.next++
		events += tm.handleCompletion(c)
	}
	if tm.coreLost.Load() {
		events += tm.endLostOps()
	}
	if tm.deferred != nil || tm.submittingBatch != nil {
		events += tm.submitDeferred()
	}
	tm.unlock()
	clear(tm.reaped[:tm.last])
	if n := tm.last; n == len(tm.reaped) && n < maxReaped {
		tm.reaped = make([]Completion, 2*n)
	}
	tm.next, tm.last = 0, 0
	return events, true
}

// handleCompletion processes a completion and returns the number of callbacks called. mu is held, but released
// during callbacks.
func (tm *TransferMachine) handleCompletion(c *Completion) int {
	b, ok := c.Token.(*Buffer)
	if !ok {
		tm.handleTMCompletion(c)
		return 0
	}
	s := &b.state
	if s.tm.Load() != tm || s.sequence != c.Sequence {
		return 0 // the op has already ended
	}
	return tm.reportEvent(b, outcome{c.Final, tm.completionError(b, c), c.Length, c.Offset, c.Sender, c.Time})
}

// outcome is the result of an op or, on MsgRecv, of one message.
type outcome struct {
	final          bool
	err            error
	length, offset int
	sender         Address
	time           time.Time
}

// completionError returns the error to report for a completion: the completion's own error, or EPROTO if its
// contents are invalid (transport 3.10, 6.5, 6.9). If the deadline caused the cancellation, it returns
// ETIMEDOUT instead of ECANCELED.
func (tm *TransferMachine) completionError(b *Buffer, c *Completion) error {
	s := &b.state
	switch {
	case c.Err != nil:
		// If the op was cancelled before its deadline, but reported only after it, this is not a time-out.
		if s.flags&FlagTimedOut != 0 && errors.Is(c.Err, syscall.ECANCELED) && !c.Time.Before(s.deadline) {
			return errTimedOut
		}
		return c.Err
	case s.queue.receives() && (c.Offset < 0 || c.Length < 0 || c.Length > s.size-c.Offset):
		return errCompletion
	case s.queue == MsgRecv && c.Sender == Address{}:
		return errSender
	}
	return nil
}

// reportEvent counts an outcome in the statistics and calls the callback of a queued buffer, with the steps
// in the order of transport 3.10. It returns the number of callbacks called, 1 or 0: a failure that is not
// final is only counted. mu is held, but released during the callback.
func (tm *TransferMachine) reportEvent(b *Buffer, o outcome) int {
	s := &b.state
	q := s.queue
	stats := &tm.stats[q]
	if o.err != nil {
		stats.Failures++
		if !o.final {
			return 0
		}
		o.length, o.offset = 0, 0
	} else {
		length := s.length
		if q.receives() {
			length = o.length
		}
		stats.succeeded(length)
	}
	e := &tm.event
	*e = BufferEvent{TM: tm, Buffer: b, Queue: q, Final: o.final, Err: o.err, Time: o.time}
	if q.receives() {
		e.Length, e.Offset = o.length, o.offset
	}
	if q == MsgRecv && o.err == nil {
		s.messages.Add(1)
		tm.eventEndPoint = tm.endPoints.acquire(tm, o.sender)
		e.EndPoint = tm.eventEndPoint
	}
	call := s.call
	if q == MsgRecv {
		tm.noteReceive(b, &o)
	}
	if o.final {
		stats.TimeInQueue += max(0, o.time.Sub(s.added))
		if to := tm.unlink(b, time.Time{}); to != nil {
			tm.eventEndPoint = to
		}
	}
	refill := o.final && q == MsgRecv && tm.state == StateStarted && tm.provisioning.pool != nil
	tm.callbacks++
	tm.unlock()
	told := poolCalls(0)
	if refill {
		told = tm.refill()
	}
	tm.inCallback = true
	call(e)
	tm.provisioning.pool.call(told)
	tm.mu.Lock()
	tm.afterCallback()
	return 1
}

// afterCallback cleans up after a buffer's callback has returned or has been interrupted. mu is held.
func (tm *TransferMachine) afterCallback() {
	tm.inCallback = false
	tm.event = BufferEvent{}
	if tm.eventEndPoint != nil {
		tm.endPoints.drop(tm.eventEndPoint)
		tm.eventEndPoint = nil
	}
	tm.endCallback()
}

// endCallback records that a callback has returned, and signals the TM's channel if no other one is running.
// mu is held.
func (tm *TransferMachine) endCallback() {
	tm.callbacks--
	if tm.callbacks == 0 {
		tm.channel.Signal()
	}
}

// endLostOps ends the operations that were in progress when the Core was lost (transport 3.5). It calls their
// callbacks with ECANCELED or ETIMEDOUT and returns the number of callbacks. mu is held, but released during
// callbacks.
func (tm *TransferMachine) endLostOps() int {
	n := 0
	tm.coreLost.Store(false)
	for q := range tm.queues {
		for b := tm.queues[q].first; b != nil; {
			if b.state.submitting {
				b = b.state.next
				continue
			}
			err := errCancelled
			if b.state.flags&FlagTimedOut != 0 {
				err = errTimedOut
			}
			n += tm.reportEvent(b, outcome{final: true, err: err, time: time.Now()})
			b = tm.queues[q].first
		}
	}
	return n
}

// handleTMCompletion processes a completion about the TM itself. It wakes the worker, which reports the event
// to the program. mu is held.
func (tm *TransferMachine) handleTMCompletion(c *Completion) {
	if c.Down && tm.down == nil {
		err := c.Err
		if err == nil {
			err = syscall.EPIPE
		}
		tm.down = fmt.Errorf("transport: the Core has failed: %w", err)
		tm.coreLost.Store(true)
	}
	if c.Diagnostic != nil {
		tm.tmEvents = append(tm.tmEvents, TMEvent{Type: TMDiagnostic, TM: tm, Time: c.Time, Next: tm.state, Diagnostic: c.Diagnostic})
	} else if c.Err != nil && !c.Down {
		tm.tmEvents = append(tm.tmEvents, TMEvent{Type: TMError, TM: tm, Time: c.Time, Next: tm.state, Err: c.Err})
	}
	tm.wakeNeeded = true
}

// deferAdd implements BufferEvent.Add: it adds b to its queue and to the batch that submitDeferred submits.
func (tm *TransferMachine) deferAdd(b *Buffer) error {
	now := time.Now()
	tm.mu.Lock()
	if tm.deferred == nil {
		tm.deferred = tm.getBatch()
	}
	err := tm.enqueueWithRoom(tm.deferred, b, now)
	if err == nil {
		b.state.reportRefusal = true
	}
	tm.unlock()
	if err != nil {
		return tm.addError(b, err)
	}
	return nil
}

// submitDeferred submits the buffers that deferAdd has queued, and calls the callbacks of those that the Core
// refuses. It returns the number of callbacks called. mu is held, but released temporarily.
func (tm *TransferMachine) submitDeferred() int {
	events := 0
	if tm.submittingBatch == nil {
		tm.submittingBatch, tm.deferred = tm.deferred, nil
	}
	bt := tm.submittingBatch
	for bt.start < len(bt.ops) {
		tm.unlock()
		n, err := tm.submit(bt, bt.start)
		bt.start += n
		if err == nil {
			break
		}
		b := bt.buffers[bt.start]
		bt.start++
		tm.stats[b.state.queue].Adds++
		events += tm.reportEvent(b, outcome{final: true, err: err, time: time.Now()})
	}
	tm.submittingBatch = nil
	if len(bt.cancels) > 0 {
		tm.unlock()
		tm.cancelAll(bt)
		tm.mu.Lock()
	}
	tm.putBatch(bt)
	return events
}
