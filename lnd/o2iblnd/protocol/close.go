package protocol

import (
	"errors"
	"syscall"
	"time"
)

// ErrDisconnected is that the peer, or the CM, has ended the connection.
var ErrDisconnected = errors.New("disconnected")

// Close ends the connection for a reason: an event of the CM, of a device, an error
// that LNet has found, or somebody's wish, which has health LocalAborted. What was
// never posted is completed at once, so that it can go elsewhere; arrivals are
// withdrawn. The rest ends with Flushed. A second call does nothing.
func (c *Conn) Close(f *Failure, b *Batch) {
	if c.state >= Closing {
		return
	}
	c.state, c.failure = Closing, f
	b.Disconnect, b.Failure = true, f
	c.early = nil
	for _, q := range [...]*queue{&c.reserved, &c.normal} {
		c.abortQueue(q, b)
	}
	for _, rx := range c.rxs {
		if rx.state == rxArrived {
			b.Withdrawn = append(b.Withdrawn, rx)
		}
	}
}

func (c *Conn) abortQueue(q *queue, b *Batch) {
	for q.head != nil {
		c.abort(q.pop(), b)
	}
}

// Flushed tells that the queue pair is in error, or gone, and that no completion
// of it will be told any more: the memory of what was under way is free
// (o2iblnd 12.1). All that is left is completed.
func (c *Conn) Flushed(b *Batch) {
	if c.state == Disconnected {
		return
	}
	c.Close(&Failure{Health: LocalError, Errno: syscall.ECONNABORTED, Err: ErrDisconnected}, b)
	c.state = Disconnected
	for i := range c.slots {
		if tx := c.slots[i].tx; tx != nil {
			c.abort(tx, b)
		}
		c.slots[i] = slot{}
	}
	c.abortQueue(&c.prompt, b)
	for _, tx := range c.requests.places {
		if tx != nil {
			c.abort(tx, b)
		}
	}
	c.requests.places, c.requests.free = nil, nil
}

// abort completes a message that the end of the connection has overtaken
// (o2iblnd 13.3).
func (c *Conn) abort(tx *Tx, b *Batch) {
	if !tx.active {
		return
	}
	if tx.failure != nil {
		c.end(tx, tx.failure, b)
		return
	}
	health, errno := LocalError, syscall.ECONNABORTED
	timeout := c.failure.Errno == syscall.ETIMEDOUT
	switch {
	case tx.posted > 0 && timeout:
		health = NetworkTimeout
	case tx.posted > 0:
		health, errno = RemoteDropped, syscall.EIO
	case tx.waiting && timeout:
		health = RemoteTimeout
	case tx.waiting:
		health = OK
	case timeout:
		health = LocalTimeout
	}
	f := c.lost(health, c.failure)
	if c.failure.Health != LocalAborted {
		f.Errno = errno
	}
	c.end(tx, f, b)
}

// lost is the failure of what a connection that is not, or no more, established
// would have to do with.
func (c *Conn) lost(h Health, why error) *Failure {
	f := &Failure{Health: h, Errno: syscall.ECONNABORTED, Err: why}
	if c.failure != nil {
		f.Err = c.failure
		if c.failure.Health == LocalAborted {
			f.Health = LocalAborted
		}
	}
	return f
}

var (
	errQueued   = errors.New("queued for too long")
	errNotSent  = errors.New("posted, and not completed")
	errNoAnswer = errors.New("no answer")
)

// Tick tells of the time: at Wake, or every quarter of the timeout. A message that is
// overdue costs the connection (o2iblnd 13.2), and one on which nothing was sent for
// long gets a NOOP.
func (c *Conn) Tick(now time.Time, b *Batch) {
	switch c.state {
	case ActiveConnect:
		if !now.Before(c.deadline) {
			c.Close(CMTimeout.Failure(), b)
		}
	case Established:
		if tx := c.overdue(now); tx != nil {
			c.Close(&Failure{Health: NetworkTimeout, Errno: syscall.ETIMEDOUT, Err: overdueError(tx)}, b)
			return
		}
		c.pump(now, b)
	case Init, PassiveWait, Closing, Disconnected:
	}
}

func overdueError(tx *Tx) error {
	why := errQueued
	switch {
	case tx.posted > 0:
		why = errNotSent
	case tx.waiting:
		why = errNoAnswer
	}
	return tx.form.wrap(why)
}

// overdue is a message whose time is over; nil: there is none.
func (c *Conn) overdue(now time.Time) (late *Tx) {
	c.each(func(tx *Tx) bool {
		if !tx.deadline.IsZero() && !now.Before(tx.deadline) {
			late = tx
		}
		return late == nil
	})
	return late
}

// each calls f with every message that has a deadline, some twice, until it is false.
func (c *Conn) each(f func(*Tx) bool) {
	for _, q := range [...]*queue{&c.prompt, &c.normal, &c.reserved} {
		for tx := q.head; tx != nil; tx = tx.next {
			if !f(tx) {
				return
			}
		}
	}
	for _, tx := range c.requests.places {
		if tx != nil && !f(tx) {
			return
		}
	}
	for i := range c.slots {
		if tx := c.slots[i].tx; tx != nil && !f(tx) {
			return
		}
	}
}

// Wake is when Tick is due; zero: not before something else happens.
func (c *Conn) Wake() (at time.Time) {
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	switch c.state {
	case ActiveConnect:
		earlier(c.deadline)
	case Established:
		if c.o.Keepalive > 0 && c.room > 0 && c.credits.NoopDue(true) {
			earlier(c.sent.Add(c.o.Keepalive))
		}
		c.each(func(tx *Tx) bool { earlier(tx.deadline); return true })
	case Init, PassiveWait, Closing, Disconnected:
	}
	return at
}
