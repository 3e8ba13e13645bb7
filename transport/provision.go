package transport

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// Provisioning describes how a TM fills its receive queue (transport 5).
type Provisioning struct {
	// Callbacks must have a callback for MsgRecv. It must return the buffer to its pool at every final
	// event, even if Err is set.
	Callbacks *Callbacks
	// MinReceiveSize and MaxMessages are set in each Buffer.
	MinReceiveSize, MaxMessages int
	// QueueLength is the desired number of buffers on the queue. 0 means 2.
	QueueLength int
}

// defaultQueueLength is the length of a receive queue unless another one is set.
const defaultQueueLength = 2

// AttachPool makes the TM fill its receive queue from p: after the start, before the callback of each final
// event, when the queue length changes, and when buffers return to p. It may be called once, in
// StateInitialized, and lasts until the TM is closed. It returns EINVAL if p belongs to another domain or
// is closed, or if c is invalid.
func (tm *TransferMachine) AttachPool(p *Pool, c Provisioning) error {
	if err := tm.attach(p, c); err != nil {
		return fmt.Errorf("transport: attach pool: %w", err)
	}
	return nil
}

func (tm *TransferMachine) attach(p *Pool, c Provisioning) error {
	if p == nil || p.domain != tm.domain {
		return fmt.Errorf("the pool is another domain's: %w", syscall.EINVAL)
	}
	switch size := p.config.Segments * p.config.SegmentSize; {
	case c.Callbacks == nil || c.Callbacks[MsgRecv] == nil:
		return fmt.Errorf("no callback for messages: %w", syscall.EINVAL)
	case c.MinReceiveSize < 1 || c.MinReceiveSize > size:
		return fmt.Errorf("minimum receive size %d, not 1 to %d: %w", c.MinReceiveSize, size, syscall.EINVAL)
	case c.MaxMessages < 1 || c.MaxMessages > MostMessages:
		return fmt.Errorf("at most %d messages, not 1 to %d: %w", c.MaxMessages, MostMessages, syscall.EINVAL)
	case c.QueueLength < 0:
		return errQueueLength
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	tm.mu.Lock()
	defer tm.mu.Unlock()
	f := &tm.provisioning
	switch {
	case p.closed:
		return errPoolClosed
	case tm.state != StateInitialized || tm.closing:
		return fmt.Errorf("the TM is %v: %w", tm.state, syscall.EINVAL)
	case f.pool != nil:
		return fmt.Errorf("the TM has one: %w", syscall.EINVAL)
	}
	if c.QueueLength > 0 {
		f.length = c.QueueLength
	}
	f.pool, f.config = p, c
	p.attached++
	return nil
}

var errQueueLength = fmt.Errorf("a receive queue has 1 buffer at least: %w", syscall.EINVAL)

// SetQueueLength changes the desired length of the receive queue, at least 1. If a pool is attached, it
// fills the queue as far as the pool has buffers before it returns. Reducing the length removes no buffers;
// the TM adds no more until the queue is short enough. SetQueueLength returns EINVAL if n is invalid, or if
// the TM is stopping or has ended.
func (tm *TransferMachine) SetQueueLength(n int) error {
	if n < 1 {
		return fmt.Errorf("transport: set queue length %d: %w", n, errQueueLength)
	}
	tm.mu.Lock()
	if tm.state < StateInitialized || tm.state > StateStarted {
		defer tm.mu.Unlock()
		return fmt.Errorf("transport: set queue length: the TM is %v: %w", tm.state, syscall.EINVAL)
	}
	tm.provisioning.length, tm.provisioning.pauseEnd = n, time.Time{}
	fill := tm.state == StateStarted && tm.provisioning.pool != nil
	tm.mu.Unlock()
	if fill {
		tm.provisioning.pool.call(tm.refill())
		tm.channel.Signal()
	}
	return nil
}

// Deficit returns the number of buffers that the receive queue lacked when it was last filled, because the
// pool was empty or the Core refused them. It acquires no lock.
func (tm *TransferMachine) Deficit() int { return int(tm.provisioning.deficit.Load()) }

// provisionState is the state of automatic provisioning in a TM.
type provisionState struct {
	// pool and how do not change once the state is StateStarting.
	pool   *Pool
	config Provisioning
	// length is the desired queue length; 0 means defaultQueueLength. TransferMachine.mu guards it.
	length int
	// deficit changes under TransferMachine.mu and Pool.mu. When the TM leaves StateStarted, it is reset
	// under TransferMachine.mu alone.
	deficit atomic.Int64

	// Refusals that the Core reports by final events. TransferMachine.mu guards these fields.
	lateRefusals int           // consecutive refusals
	pause        time.Duration // length of the last pause
	pauseEnd     time.Time     // end of the current pause, or zero

	// Pool.mu guards the fields below.
	waitLinks waitLinks
	// refusedRound is the round in which the TM could not use a buffer. serveWaiting skips the TM in that round, so
	// that TMs that cannot use buffers do not pass them around endlessly.
	refusedRound uint64
}

// refill fills the receive queue from the pool: after the callback of StateStarted, and before the callback
// of each final event of MsgRecv while the TM is started. The delivering goroutine calls it, without locks.
// Stop waits for it. The caller must call the pool's callbacks that refill returns.
func (tm *TransferMachine) refill() poolCalls {
	p := tm.provisioning.pool
	if p == nil {
		return 0
	}
	news := tm.fill()
	if news&callRefused != 0 {
		news |= p.serveWaiting()
	}
	return news
}

const (
	// maxLateRefusals is the number of consecutive refusals by final events after which the TM pauses.
	maxLateRefusals = 16
	// firstPause is the length of the first pause. Each pause doubles it, up to maxPause.
	firstPause, maxPause = time.Millisecond, time.Second
)

// noteReceive records an event of the receive queue. It limits the rate if the Core accepts every buffer but then
// refuses it by a final event. mu is held.
func (tm *TransferMachine) noteReceive(b *Buffer, o *outcome) {
	f := &tm.provisioning
	switch {
	case f.pool == nil:
	case o.err == nil:
		f.lateRefusals, f.pause = 0, 0
		if !f.pauseEnd.IsZero() { // later events may be far off
			f.pauseEnd = time.Now()
			tm.wakeBy(f.pauseEnd)
		}
	case !o.final, b.state.flags&(FlagCancelled|FlagTimedOut) != 0, errors.Is(o.err, syscall.EPROTO):
		// Such an event does not show whether the Core can use buffers.
	default:
		if f.lateRefusals++; f.lateRefusals > maxLateRefusals && f.pauseEnd.IsZero() {
			f.pause = min(max(2*f.pause, firstPause), maxPause)
			f.pauseEnd = time.Now().Add(f.pause)
			tm.wakeBy(f.pauseEnd)
		}
	}
}

// refillAfterPause fills the receive queue after a pause. Only the worker calls it. mu is held, but released
// temporarily.
func (tm *TransferMachine) refillAfterPause() {
	f := &tm.provisioning
	if f.pauseEnd.IsZero() || f.pauseEnd.After(time.Now()) {
		return
	}
	f.pauseEnd = time.Time{}
	tm.callbacks++
	tm.unlock()
	f.pool.call(tm.refill())
	tm.mu.Lock()
	tm.endCallback()
}

// resetDeficit resets the deficit when the TM leaves StateStarted. mu is held.
func (tm *TransferMachine) resetDeficit() { tm.provisioning.deficit.Store(0) }

// detachPool detaches the pool when the TM is closed. No lock is held.
func (tm *TransferMachine) detachPool() {
	p := tm.provisioning.pool
	if p == nil {
		return
	}
	p.mu.Lock()
	p.attached--
	p.waiting.remove(tm)
	p.mu.Unlock()
}

// fill adds buffers of the pool to the receive queue until it is long enough, the pool is empty, or the
// Core refuses one. The deficit is the number still lacking (transport 5.2). It is raised at once, but
// lowered only after the Core has accepted the buffers. So each missing buffer is counted once, however
// often fill retries. No lock is held, also not while the Core is called. Several goroutines may call it.
func (tm *TransferMachine) fill() poolCalls {
	p := tm.provisioning.pool
	p.mu.Lock()
	tm.mu.Lock()
	bt := tm.getBatch()
	news, more := tm.takeFromPool(bt)
	for more > 0 {
		p.mu.Unlock()
		tm.unlock()
		err := tm.makeRoom(more)
		if one := tm.provisioning.config.MaxMessages; err != nil && more > one {
			err = tm.makeRoom(one) // room for one buffer is better than for none
		}
		p.mu.Lock()
		tm.mu.Lock()
		if err != nil {
			news |= tm.markRefused()
			break
		}
		n, again := tm.takeFromPool(bt)
		news, more = news|n, again
	}
	if len(bt.ops) == 0 {
		tm.setDeficit(tm.missingBuffers())
		p.mu.Unlock()
		tm.finish(bt)
		return news
	}
	tm.setDeficit(max(tm.Deficit(), tm.missingBuffers()))
	p.mu.Unlock()
	tm.unlock()
	return news | tm.submitProvisioned(bt)
}

// submitProvisioned submits a batch that draw has filled, and returns the buffers that the Core refuses to the pool.
// When it returns, peers can reach the accepted ones.
func (tm *TransferMachine) submitProvisioned(bt *batch) (news poolCalls) {
	n, err := tm.submit(bt, 0)
	if until := tm.flushUntil(time.Now()); n > 0 {
		defer tm.inner.Flush(until)
	}
	if err == nil && tm.Deficit() <= tm.missingBuffers() {
		tm.finish(bt)
		return 0
	}
	tm.unlock()
	p := tm.provisioning.pool
	p.mu.Lock()
	tm.mu.Lock()
	if err == nil {
		tm.setDeficit(min(tm.Deficit(), tm.missingBuffers()))
	} else {
		news = tm.markRefused()
		for _, b := range bt.buffers[n:] {
			tm.undoAdd(b)
			news |= p.returnUnused(b)
		}
		tm.setDeficit(tm.missingBuffers())
	}
	p.mu.Unlock()
	tm.finish(bt)
	return news
}

// takeFromPool takes up to as many buffers from the pool as the queue lacks, and adds them to the receive queue and
// the batch. If the Core has to make room for their events first, it returns for how many more. Pool.mu and
// mu are held.
func (tm *TransferMachine) takeFromPool(bt *batch) (news poolCalls, more int) {
	p, how := tm.provisioning.pool, &tm.provisioning.config
	now := time.Now()
	if now.Before(tm.provisioning.pauseEnd) {
		return tm.markRefused(), 0
	}
	for n := tm.missingBuffers(); n > 0 && p.byAge.length > 0; n-- {
		if how.MaxMessages > tm.room-tm.credits {
			return news, min(n, p.byAge.length) * how.MaxMessages
		}
		b, told := p.take(tm.colour)
		news |= told
		b.Queue, b.Callbacks = MsgRecv, how.Callbacks
		b.MinReceiveSize, b.MaxMessages = how.MinReceiveSize, how.MaxMessages
		b.Offset, b.Deadline = 0, time.Time{}
		if err := tm.enqueue(bt, b, now); err != nil {
			return news | p.returnUnused(b) | tm.markRefused(), 0
		}
	}
	return news, 0
}

// missingBuffers returns the number of buffers that the receive queue lacks, or 0 if the TM is not started. mu is
// held.
func (tm *TransferMachine) missingBuffers() int {
	if tm.state != StateStarted || tm.down != nil {
		return 0
	}
	length := tm.provisioning.length
	if length == 0 {
		length = defaultQueueLength
	}
	return max(0, length-tm.queues[MsgRecv].length)
}

// setDeficit sets the deficit. An increase counts as failures of the receive queue (transport 3.12).
// Pool.mu and mu are held.
func (tm *TransferMachine) setDeficit(n int) {
	f := &tm.provisioning
	if more := n - tm.Deficit(); more > 0 {
		tm.stats[MsgRecv].Failures += uint64(more)
	}
	f.deficit.Store(int64(n))
	if n == 0 {
		f.pool.waiting.remove(tm)
	} else {
		f.pool.waiting.add(tm)
	}
}

// markRefused records that the TM cannot use buffers in this round. Pool.mu is held.
func (tm *TransferMachine) markRefused() poolCalls {
	tm.provisioning.refusedRound = tm.provisioning.pool.serveRound
	return callRefused
}

// serveWaiting fills the queues of waiting TMs, the longest waiting first, while the pool has buffers. It skips
// TMs that could not use a buffer in this round. TMs without a deficit cost nothing. No lock is held.
func (p *Pool) serveWaiting() (news poolCalls) {
	for {
		p.mu.Lock()
		tm := p.waiting.first
		for tm != nil && tm.provisioning.refusedRound == p.serveRound {
			tm = tm.provisioning.waitLinks.next
		}
		empty := p.byAge.length == 0
		p.mu.Unlock()
		if tm == nil || empty {
			return news
		}
		news |= tm.fill()
	}
}

// waitList is a list of TMs with a deficit, longest waiting first. Pool.mu guards it.
type waitList struct{ first, last *TransferMachine }

// waitLinks holds the position of a TM in a waitList.
type waitLinks struct {
	queued     bool
	prev, next *TransferMachine
}

// add appends tm unless it is on the list.
func (l *waitList) add(tm *TransferMachine) {
	at := &tm.provisioning.waitLinks
	if at.queued {
		return
	}
	*at = waitLinks{queued: true, prev: l.last}
	if l.last == nil {
		l.first = tm
	} else {
		l.last.provisioning.waitLinks.next = tm
	}
	l.last = tm
}

// remove removes tm if it is on the list.
func (l *waitList) remove(tm *TransferMachine) {
	at := &tm.provisioning.waitLinks
	if !at.queued {
		return
	}
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.provisioning.waitLinks.next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.provisioning.waitLinks.prev = at.prev
	}
	*at = waitLinks{}
}
