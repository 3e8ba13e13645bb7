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
	// Callbacks must contain a callback for MsgRecv. At every final event, even if Err is set, this callback
	// must return the buffer to its pool.
	Callbacks *Callbacks
	// MinReceiveSize and MaxMessages are copied to each Buffer that the TM adds.
	MinReceiveSize, MaxMessages int
	// QueueLength is the desired number of buffers on the receive queue. 0 means 2.
	QueueLength int
}

// defaultQueueLength is the desired length of a receive queue if none was set.
const defaultQueueLength = 2

// AttachPool makes the TM fill its receive queue from p: after the start, before the callback of each final
// event on MsgRecv, when the desired queue length changes, and when buffers are returned to p. It may be
// called once, in StateInitialized, and takes effect until the TM is closed. It returns EINVAL in another
// state or if called again, if p is closed or belongs to another domain, or if c is invalid.
func (tm *TransferMachine) AttachPool(p *Pool, c Provisioning) error {
	if err := tm.attach(p, c); err != nil {
		return fmt.Errorf("transport: attach pool: %w", err)
	}
	return nil
}

func (tm *TransferMachine) attach(p *Pool, c Provisioning) error {
	if p == nil || p.domain != tm.domain {
		return fmt.Errorf("the pool belongs to another domain: %w", syscall.EINVAL)
	}
	switch size := p.config.Segments * p.config.SegmentSize; {
	case c.Callbacks == nil || c.Callbacks[MsgRecv] == nil:
		return fmt.Errorf("there is no callback for messages: %w", syscall.EINVAL)
	case c.MinReceiveSize < 1 || c.MinReceiveSize > size:
		return fmt.Errorf("minimum receive size %d is not within 1 to %d: %w", c.MinReceiveSize, size, syscall.EINVAL)
	case c.MaxMessages < 1 || c.MaxMessages > MostMessages:
		return fmt.Errorf("MaxMessages %d is not within 1 to %d: %w", c.MaxMessages, MostMessages, syscall.EINVAL)
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
		return fmt.Errorf("the TM already has a pool: %w", syscall.EINVAL)
	}
	if c.QueueLength > 0 {
		f.length = c.QueueLength
	}
	f.pool, f.config = p, c
	p.attached++
	return nil
}

var errQueueLength = fmt.Errorf("the length must be at least 1: %w", syscall.EINVAL)

// SetQueueLength changes the desired length of the receive queue, at least 1. If a pool is attached and the
// TM is started, SetQueueLength also fills the queue as far as the pool has buffers. A smaller length removes
// no buffers from the queue; the TM only adds none until the queue is shorter than n. SetQueueLength returns
// EINVAL if n is invalid, or if the TM is stopping or has ended.
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

// Deficit returns the number of buffers that the receive queue still lacked when the TM last filled it,
// because the pool was empty or the Core refused buffers. It acquires no lock.
func (tm *TransferMachine) Deficit() int { return int(tm.provisioning.deficit.Load()) }

// provisionState is the state of automatic provisioning in a TM.
type provisionState struct {
	// pool and config are constant from StateStarting on.
	pool   *Pool
	config Provisioning
	// length is the desired queue length. 0 means defaultQueueLength. TransferMachine.mu guards it.
	length int
	// deficit is the result of Deficit. It is written with TransferMachine.mu and Pool.mu held, except that
	// it is reset with TransferMachine.mu alone when the TM leaves StateStarted.
	deficit atomic.Int64

	// The next fields limit the rate of refilling if the Core refuses buffers by final events.
	// TransferMachine.mu guards them.
	lateRefusals int           // consecutive refusals by final events
	pause        time.Duration // length of the last pause
	pauseEnd     time.Time     // end of the current pause, or zero

	// Pool.mu guards the fields below.
	waitLinks waitLinks
	// refusedRound is the last value of Pool.serveRound in which the TM could not use a buffer. serveWaiting
	// skips the TM in this round. Otherwise TMs that cannot use buffers would pass them around endlessly.
	refusedRound uint64
}

// refill fills the receive queue from the pool, if one is attached. It is called after the callback of
// StateStarted, before the callback of each final event on MsgRecv while the TM is started, after a pause,
// and by SetQueueLength. No lock is held. The caller must pass the result to Pool.call.
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
	// maxLateRefusals is the number of consecutive refusals by final events that a TM accepts before it
	// pauses.
	maxLateRefusals = 16
	// firstPause is the length of the first pause. Each further pause is twice as long, up to maxPause.
	firstPause, maxPause = time.Millisecond, time.Second
)

// noteReceive updates the limit on refilling after an event on the receive queue. A Core may accept every
// buffer and then refuse it by a final event. After too many such refusals, the TM stops filling the queue
// for a while; after a success it fills the queue again. mu is held.
func (tm *TransferMachine) noteReceive(b *Buffer, o *outcome) {
	f := &tm.provisioning
	switch {
	case f.pool == nil:
	case o.err == nil:
		f.lateRefusals, f.pause = 0, 0
		if !f.pauseEnd.IsZero() { // refill now, because the next event on the queue may come much later
			f.pauseEnd = time.Now()
			tm.wakeBy(f.pauseEnd)
		}
	case !o.final, b.state.flags&(FlagCancelled|FlagTimedOut) != 0, errors.Is(o.err, syscall.EPROTO):
		// This event does not show whether the Core can use buffers.
	default:
		if f.lateRefusals++; f.lateRefusals > maxLateRefusals && f.pauseEnd.IsZero() {
			f.pause = min(max(2*f.pause, firstPause), maxPause)
			f.pauseEnd = time.Now().Add(f.pause)
			tm.wakeBy(f.pauseEnd)
		}
	}
}

// refillAfterPause fills the receive queue if a pause has ended. Only the worker calls it. mu is held, but
// released temporarily.
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

// resetDeficit sets the deficit to 0, because the TM leaves StateStarted. mu is held.
func (tm *TransferMachine) resetDeficit() { tm.provisioning.deficit.Store(0) }

// detachPool detaches the TM from its pool, if it has one, because the TM is being closed. No lock is held.
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

// fill adds buffers of the pool to the receive queue until the queue is long enough, the pool is empty, or
// the Core refuses a buffer. The deficit is the number of buffers still missing (transport 5.2). fill raises
// the deficit before it submits the buffers, and lowers it only after the Core has accepted them. So a
// missing buffer is counted once, however often fill retries. No lock is held on entry or during calls of the
// Core. Several goroutines may call fill at a time. The caller must pass the result to Pool.call.
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
			err = tm.makeRoom(one) // room for one buffer is better than no room
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

// submitProvisioned submits the batch that fill has prepared. It returns to the pool the buffers that the
// Core refuses. When it returns, peers can reach the accepted buffers. mu is not held.
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

// takeFromPool moves buffers from the pool to the receive queue and the batch, until the queue is long enough
// or the pool is empty. If the Core first needs room for more completions, more is their number: the caller
// must call makeRoom(more) and then call takeFromPool again. Pool.mu and mu are held.
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

// missingBuffers returns the number of buffers that the receive queue lacks, or 0 if the TM is not started or
// the Core is gone. mu is held.
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

// setDeficit sets the deficit to n, and adds the TM to the pool's list of waiting TMs or, if n is 0, removes
// it. An increase counts as failures of the receive queue (transport 3.12). Pool.mu and mu are held.
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

// markRefused records that the TM cannot use buffers in this round, so that serveWaiting skips it. It returns
// callRefused. Pool.mu is held.
func (tm *TransferMachine) markRefused() poolCalls {
	tm.provisioning.refusedRound = tm.provisioning.pool.serveRound
	return callRefused
}

// serveWaiting fills the queues of the TMs with a deficit, the longest waiting first, while the pool has
// buffers. It skips TMs that could not use a buffer in this round. No lock is held. The caller must pass the
// result to call.
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

// waitList is a list of the TMs with a deficit, the longest waiting first. Pool.mu guards it.
type waitList struct{ first, last *TransferMachine }

// waitLinks holds the neighbours of a TM in a waitList.
type waitLinks struct {
	queued     bool
	prev, next *TransferMachine
}

// add appends tm to the list unless it is already on it.
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

// remove removes tm from the list if it is on it.
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
