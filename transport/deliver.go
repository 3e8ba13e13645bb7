package transport

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Errors of events are allocated once, so that delivering an event allocates nothing.
var (
	errCancelled  = fmt.Errorf("transport: the TM has failed: %w", syscall.ECANCELED)
	errTimedOut   = fmt.Errorf("transport: the deadline has passed: %w", syscall.ETIMEDOUT)
	errSender     = fmt.Errorf("transport: message without a usable sender: %w", syscall.EPROTO)
	errCompletion = fmt.Errorf("transport: completion that makes no sense: %w", syscall.EPROTO)
	errNoCallback = fmt.Errorf("transport: the callback has returned: %w", syscall.EINVAL)
)

const (
	// firstReaped is the initial number of completions reaped in one call. It doubles up to maxReaped while
	// every call fills the slice.
	firstReaped = 8
	maxReaped   = 64
)

// deliver calls the callbacks for a bounded number of pending completions, and submits the buffers that
// they added with BufferEvent.Add. It reports false if nothing was pending. The caller owns tm.delivering.
// If a callback does not return, the next call continues after its event.
func (tm *TransferMachine) deliver() (events int, more bool) {
	if tm.reaped == nil {
		tm.reaped = make([]Completion, firstReaped)
	}
	if tm.next == tm.last {
		tm.next, tm.last = 0, tm.inner.Reap(tm.reaped)
	}
	if tm.last == 0 && !tm.abandoned.Load() && !tm.left.Load() && tm.later == nil {
		return 0, false
	}
	tm.mu.Lock()
	tm.left.Store(false)
	for tm.next < tm.last {
		c := &tm.reaped[tm.next]
		tm.next++
		events += tm.completed(c)
	}
	if tm.abandoned.Load() {
		events += tm.abandon()
	}
	if tm.later != nil || tm.handing != nil {
		events += tm.addNow()
	}
	tm.unlock()
	clear(tm.reaped[:tm.last])
	if n := tm.last; n == len(tm.reaped) && n < maxReaped {
		tm.reaped = make([]Completion, 2*n)
	}
	tm.next, tm.last = 0, 0
	return events, true
}

// completed processes a completion and returns the number of callbacks called. mu is held, but released
// during callbacks.
func (tm *TransferMachine) completed(c *Completion) int {
	b, ok := c.Token.(*Buffer)
	if !ok {
		tm.hear(c)
		return 0
	}
	s := &b.state
	if s.tm.Load() != tm || s.sequence != c.Sequence {
		return 0 // belongs to an op that has ended
	}
	return tm.post(b, outcome{c.Final, tm.verdict(b, c), c.Length, c.Offset, c.Sender, c.Time})
}

// outcome is the result of an op, or of one message of it.
type outcome struct {
	final          bool
	err            error
	length, offset int
	sender         Address
	time           time.Time
}

// verdict returns the error of a completion: its own, or an error for invalid contents (transport 3.10,
// 6.5, 6.9).
func (tm *TransferMachine) verdict(b *Buffer, c *Completion) error {
	s := &b.state
	switch {
	case c.Err != nil:
		// An op cancelled before its deadline may be reported after it. That is no time-out.
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

// post reports an event of a queued buffer to the program, in the order of transport 3.10, and returns 1.
// If the event is only counted, it returns 0. mu is held, but released during the callback.
func (tm *TransferMachine) post(b *Buffer, o outcome) int {
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
		tm.kept = tm.endPoints.hold(tm, o.sender)
		e.EndPoint = tm.kept
	}
	call := s.call
	if q == MsgRecv {
		tm.heed(b, &o)
	}
	if o.final {
		stats.TimeInQueue += max(0, o.time.Sub(s.added))
		if to := tm.unlink(b, time.Time{}); to != nil {
			tm.kept = to
		}
	}
	refill := o.final && q == MsgRecv && tm.state == StateStarted && tm.filler.pool != nil
	tm.callbacks++
	tm.unlock()
	told := news(0)
	if refill {
		told = tm.refill()
	}
	tm.calling = true
	call(e)
	tm.filler.pool.call(told)
	tm.mu.Lock()
	tm.returned()
	return 1
}

// returned cleans up after a callback of a buffer. mu is held.
func (tm *TransferMachine) returned() {
	tm.calling = false
	tm.event = BufferEvent{}
	if tm.kept != nil {
		tm.endPoints.drop(tm.kept)
		tm.kept = nil
	}
	tm.calledBack()
}

// calledBack decrements the number of running callbacks. mu is held.
func (tm *TransferMachine) calledBack() {
	tm.callbacks--
	if tm.callbacks == 0 {
		tm.channel.Signal()
	}
}

// abandon ends the operations that a lost Core has left (transport 3.5), and returns their number. mu is
// held, but released during callbacks.
func (tm *TransferMachine) abandon() int {
	n := 0
	tm.abandoned.Store(false)
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
			n += tm.post(b, outcome{final: true, err: err, time: time.Now()})
			b = tm.queues[q].first
		}
	}
	return n
}

// hear processes a completion about the TM itself. The worker reports it to the program. mu is held.
func (tm *TransferMachine) hear(c *Completion) {
	if c.Down && tm.down == nil {
		err := c.Err
		if err == nil {
			err = syscall.EPIPE
		}
		tm.down = fmt.Errorf("transport: the core is gone: %w", err)
		tm.abandoned.Store(true)
	}
	if c.Diagnostic != nil {
		tm.news = append(tm.news, TMEvent{Type: TMDiagnostic, TM: tm, Time: c.Time, Next: tm.state, Diagnostic: c.Diagnostic})
	} else if c.Err != nil && !c.Down {
		tm.news = append(tm.news, TMEvent{Type: TMError, TM: tm, Time: c.Time, Next: tm.state, Err: c.Err})
	}
	tm.rousing = true
}

// addLater queues a buffer for addNow.
func (tm *TransferMachine) addLater(b *Buffer) error {
	now := time.Now()
	tm.mu.Lock()
	if tm.later == nil {
		tm.later = tm.takeBatch()
	}
	err := tm.enqueueWithRoom(tm.later, b, now)
	if err == nil {
		b.state.certain = true
	}
	tm.unlock()
	if err != nil {
		return tm.notAdded(b, err)
	}
	return nil
}

// addNow submits the buffers that addLater has queued, and calls the callbacks of those that the Core
// refuses. It returns the number of callbacks. mu is held, but released temporarily.
func (tm *TransferMachine) addNow() int {
	events := 0
	if tm.handing == nil {
		tm.handing, tm.later = tm.later, nil
	}
	bt := tm.handing
	for bt.from < len(bt.ops) {
		tm.unlock()
		n, err := tm.submit(bt, bt.from)
		bt.from += n
		if err == nil {
			break
		}
		b := bt.buffers[bt.from]
		bt.from++
		tm.stats[b.state.queue].Adds++
		events += tm.post(b, outcome{final: true, err: err, time: time.Now()})
	}
	tm.handing = nil
	if len(bt.cancels) > 0 {
		tm.unlock()
		tm.cancelAll(bt)
		tm.mu.Lock()
	}
	tm.putBatch(bt)
	return events
}
