package transport

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// Provisioning says how a TM fills its receive queue (transport 5).
type Provisioning struct {
	// Callbacks has one for MsgRecv, which returns the buffer to its pool at the final
	// event, whatever Err is.
	Callbacks *Callbacks
	// MinReceiveSize and MaxMessages are those of Buffer.
	MinReceiveSize, MaxMessages int
	// QueueLength is how many buffers are to be on the queue; 0: 2.
	QueueLength int
}

// defaultQueueLength is the length of a receive queue unless another one is set.
const defaultQueueLength = 2

// AttachPool has the TM fill its receive queue from p: when it has started, before the
// callback of each final event there, when the length changes, and when p has buffers
// again. It is for as long as the TM lives. StateInitialized only, once. EINVAL: p is of
// another domain, or closed, or something does not fit.
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
	f := &tm.filler
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
	f.pool, f.how = p, c
	p.attached++
	return nil
}

var errQueueLength = fmt.Errorf("a receive queue has 1 buffer at least: %w", syscall.EINVAL)

// SetQueueLength changes the length of the receive queue, 1 and up; the queue has been
// filled as far as the pool, if the TM has one, has buffers when it returns. A shorter
// queue gives no buffers back, and takes none until it is short enough. EINVAL: there is no
// such length, or the TM is stopping, or over.
func (tm *TransferMachine) SetQueueLength(n int) error {
	if n < 1 {
		return fmt.Errorf("transport: set queue length %d: %w", n, errQueueLength)
	}
	tm.mu.Lock()
	if tm.state < StateInitialized || tm.state > StateStarted {
		defer tm.mu.Unlock()
		return fmt.Errorf("transport: set queue length: the TM is %v: %w", tm.state, syscall.EINVAL)
	}
	tm.filler.length, tm.filler.until = n, time.Time{}
	fill := tm.state == StateStarted && tm.filler.pool != nil
	tm.mu.Unlock()
	if fill {
		tm.filler.pool.call(tm.refill())
		tm.channel.Signal()
	}
	return nil
}

// Deficit is how many buffers the receive queue lacked when it was filled last, since the
// pool had none, or the Core took none. It takes no lock.
func (tm *TransferMachine) Deficit() int { return int(tm.filler.deficit.Load()) }

// filler is what a TM knows of its pool.
type filler struct {
	// pool and how do not change from StateStarting on.
	pool *Pool
	how  Provisioning
	// length is that of the queue to be, 0: defaultQueueLength. TransferMachine.mu guards it.
	length int
	// deficit changes under TransferMachine.mu, and, but that it becomes 0 when the TM is not
	// started any more, under Pool.mu.
	deficit atomic.Int64

	// What the Core refuses late, by final events; TransferMachine.mu guards it.
	late  int           // such events in a row
	pause time.Duration // how long the last wait was
	until time.Time     // the Core is not asked before, unless it is zero

	// Pool.mu guards the rest.
	hungry hungryLinks
	// refused is the round in which the TM could not use a buffer: in that, serve leaves it
	// alone, so that TMs which can use none do not hand them round for ever.
	refused uint64
}

// refill fills the receive queue from the pool: behind the callback of StateStarted, and
// before that of each final event of MsgRecv while the TM is started and has a pool. The
// worker, or who delivers, calls it, with no lock, and Stop waits for it. The caller calls
// the pool's callbacks that are due.
func (tm *TransferMachine) refill() news {
	p := tm.filler.pool
	if p == nil {
		return 0
	}
	news := tm.fill()
	if news&newsRefused != 0 {
		news |= p.serve()
	}
	return news
}

const (
	// patience is how many buffers in a row a Core may refuse by their final events, and be
	// offered others at once.
	patience = 16
	// firstPause is how long it is left alone then, each time twice as long, up to maxPause.
	firstPause, maxPause = time.Millisecond, time.Second
)

// heed takes in an event of the receive queue: a Core that takes each buffer, and refuses it
// by its final event, would otherwise be offered the same ones for ever, as fast as it can. mu
// is held.
func (tm *TransferMachine) heed(b *Buffer, o *outcome) {
	f := &tm.filler
	switch {
	case f.pool == nil:
	case o.err == nil:
		f.late, f.pause = 0, 0
		if !f.until.IsZero() { // there may be no other occasion soon
			f.until = time.Now()
			tm.rouseBy(f.until)
		}
	case !o.final, b.state.flags&(FlagCancelled|FlagTimedOut) != 0, errors.Is(o.err, syscall.EPROTO):
		// It says nothing of whether the Core can use buffers.
	default:
		if f.late++; f.late > patience && f.until.IsZero() {
			f.pause = min(max(2*f.pause, firstPause), maxPause)
			f.until = time.Now().Add(f.pause)
			tm.rouseBy(f.until)
		}
	}
}

// retry fills the receive queue when a pause is over. The worker calls it; mu is held, but not
// all the time.
func (tm *TransferMachine) retry() {
	f := &tm.filler
	if f.until.IsZero() || f.until.After(time.Now()) {
		return
	}
	f.until = time.Time{}
	tm.callbacks++
	tm.unlock()
	f.pool.call(tm.refill())
	tm.mu.Lock()
	tm.calledBack()
}

// contented forgets the deficit, since the TM is not started any more; mu is held.
func (tm *TransferMachine) contented() { tm.filler.deficit.Store(0) }

// leave ends what AttachPool began, when the TM is closed. No lock is held.
func (tm *TransferMachine) leave() {
	p := tm.filler.pool
	if p == nil {
		return
	}
	p.mu.Lock()
	p.attached--
	p.hungry.remove(tm)
	p.mu.Unlock()
}

// fill adds buffers of the pool to the receive queue, until it is long enough, there are
// none, or the Core refuses one; the deficit is what is lacking then (transport 5.2). It is
// raised at once, but lowered when the Core has taken the buffers, so that one that cannot
// be had is counted once however often it is tried. No lock is held, and none while the
// Core is called. Any number of goroutines may call it.
func (tm *TransferMachine) fill() news {
	p := tm.filler.pool
	p.mu.Lock()
	tm.mu.Lock()
	bt := tm.takeBatch()
	news, more := tm.draw(bt)
	for more > 0 {
		p.mu.Unlock()
		tm.unlock()
		err := tm.makeRoom(more)
		if one := tm.filler.how.MaxMessages; err != nil && more > one {
			err = tm.makeRoom(one) // some are better than none
		}
		p.mu.Lock()
		tm.mu.Lock()
		if err != nil {
			news |= tm.refuse()
			break
		}
		n, again := tm.draw(bt)
		news, more = news|n, again
	}
	if len(bt.ops) == 0 {
		tm.setDeficit(tm.lacking())
		p.mu.Unlock()
		tm.finish(bt)
		return news
	}
	tm.setDeficit(max(tm.Deficit(), tm.lacking()))
	p.mu.Unlock()
	tm.unlock()
	return news | tm.handOver(bt)
}

// handOver hands a batch that draw has filled to the Core, and gives back what that does not
// take. When it returns, peers reach the rest.
func (tm *TransferMachine) handOver(bt *batch) (news news) {
	n, err := tm.submit(bt, 0)
	if until := tm.flushUntil(time.Now()); n > 0 {
		defer tm.inner.Flush(until)
	}
	if err == nil && tm.Deficit() <= tm.lacking() {
		tm.finish(bt)
		return 0
	}
	tm.unlock()
	p := tm.filler.pool
	p.mu.Lock()
	tm.mu.Lock()
	if err == nil {
		tm.setDeficit(min(tm.Deficit(), tm.lacking()))
	} else {
		news = tm.refuse()
		for _, b := range bt.buffers[n:] {
			tm.withdraw(b)
			news |= p.giveBack(b)
		}
		tm.setDeficit(tm.lacking())
	}
	p.mu.Unlock()
	tm.finish(bt)
	return news
}

// draw takes buffers out of the pool, as many as are lacking and there are, and puts them on
// the receive queue and into a batch. If the Core has to make room for their events first, it
// returns for how many more. Pool.mu and mu are held.
func (tm *TransferMachine) draw(bt *batch) (news news, more int) {
	p, how := tm.filler.pool, &tm.filler.how
	now := time.Now()
	if now.Before(tm.filler.until) {
		return tm.refuse(), 0
	}
	for n := tm.lacking(); n > 0 && p.byAge.length > 0; n-- {
		if how.MaxMessages > tm.room-tm.credits {
			return news, min(n, p.byAge.length) * how.MaxMessages
		}
		b, told := p.take(tm.colour)
		news |= told
		b.Queue, b.Callbacks = MsgRecv, how.Callbacks
		b.MinReceiveSize, b.MaxMessages = how.MinReceiveSize, how.MaxMessages
		b.Offset, b.Deadline = 0, time.Time{}
		if err := tm.enqueue(bt, b, now); err != nil {
			return news | p.giveBack(b) | tm.refuse(), 0
		}
	}
	return news, 0
}

// lacking is how many buffers the receive queue is short of: none unless the TM is
// started. mu is held.
func (tm *TransferMachine) lacking() int {
	if tm.state != StateStarted || tm.down != nil {
		return 0
	}
	length := tm.filler.length
	if length == 0 {
		length = defaultQueueLength
	}
	return max(0, length-tm.queues[MsgRecv].length)
}

// setDeficit sets the deficit, and counts what is new of it as failures of the receive
// queue (transport 3.12). Pool.mu and mu are held.
func (tm *TransferMachine) setDeficit(n int) {
	f := &tm.filler
	if more := n - tm.Deficit(); more > 0 {
		tm.stats[MsgRecv].Failures += uint64(more)
	}
	f.deficit.Store(int64(n))
	if n == 0 {
		f.pool.hungry.remove(tm)
	} else {
		f.pool.hungry.add(tm)
	}
}

// refuse notes that the TM cannot use buffers now. Pool.mu is held.
func (tm *TransferMachine) refuse() news {
	tm.filler.refused = tm.filler.pool.round
	return newsRefused
}

// serve fills the queues of the TMs that lack buffers, the one first that has lacked them
// for longest, as far as there are any, and it has not been refused one in this round. TMs
// that lack none cost nothing. No lock is held.
func (p *Pool) serve() (news news) {
	for {
		p.mu.Lock()
		tm := p.hungry.first
		for tm != nil && tm.filler.refused == p.round {
			tm = tm.filler.hungry.next
		}
		empty := p.byAge.length == 0
		p.mu.Unlock()
		if tm == nil || empty {
			return news
		}
		news |= tm.fill()
	}
}

// hungryList is a list of TMs with a deficit, in the order in which they came to it. Pool.mu
// guards it.
type hungryList struct{ first, last *TransferMachine }

// hungryLinks is where a TM is in a hungryList.
type hungryLinks struct {
	in         bool
	prev, next *TransferMachine
}

// add puts tm at the end, unless it is there.
func (l *hungryList) add(tm *TransferMachine) {
	at := &tm.filler.hungry
	if at.in {
		return
	}
	*at = hungryLinks{in: true, prev: l.last}
	if l.last == nil {
		l.first = tm
	} else {
		l.last.filler.hungry.next = tm
	}
	l.last = tm
}

// remove takes tm out, if it is there.
func (l *hungryList) remove(tm *TransferMachine) {
	at := &tm.filler.hungry
	if !at.in {
		return
	}
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.filler.hungry.next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.filler.hungry.prev = at.prev
	}
	*at = hungryLinks{}
}
