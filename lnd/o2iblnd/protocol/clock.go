package protocol

import (
	"errors"
	"syscall"
	"time"
)

var (
	errQueued   = errors.New("not sent in time")
	errNotSent  = errors.New("posted, but not completed by the device in time")
	errNoAnswer = errors.New("the peer did not answer in time")
)

// Tick handles timeouts and keepalives. The caller calls it at KeepaliveDue and, while the connection is Busy,
// at least every quarter of the timeout. If a message is overdue, Tick ends the connection (o2iblnd 13.2). If
// nothing was sent for Options.Keepalive, it sends a NOOP.
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

// overdueError returns an error that says what an overdue message was waiting for.
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

// overdue returns a message whose deadline has passed, or nil.
func (c *Conn) overdue(now time.Time) (late *Tx) {
	c.each(func(tx *Tx) bool {
		if !tx.deadline.IsZero() && !now.Before(tx.deadline) {
			late = tx
		}
		return late == nil
	})
	return late
}

// each calls f with every message in progress, until f returns false. It may call f twice with the same
// message.
func (c *Conn) each(f func(*Tx) bool) {
	for tx := c.prompt.head; tx != nil; tx = tx.next {
		if !f(tx) {
			return
		}
	}
	for _, q := range c.waiting() {
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

// Busy reports whether a message is in progress: it is queued, posted, or waits for its answer.
func (c *Conn) Busy() (busy bool) {
	c.each(func(*Tx) bool {
		busy = true
		return false
	})
	return busy
}

// KeepaliveDue returns when an established connection has to send a NOOP if it sends nothing else before. It
// returns the zero time if keepalives are off.
func (c *Conn) KeepaliveDue() time.Time {
	if c.o.Keepalive <= 0 {
		return time.Time{}
	}
	return c.sent.Add(c.o.Keepalive)
}

// SetTimeout changes Options.Timeout for messages that begin from now on.
func (c *Conn) SetTimeout(d time.Duration) {
	if d == 0 {
		d = defaultTimeout
	}
	c.o.Timeout = d
}

// Renew restarts the timeout of all messages in progress, after a link has come back.
func (c *Conn) Renew(now time.Time) {
	c.each(func(tx *Tx) bool { tx.deadline = c.limit(now); return true })
}

// Probe sends a NOOP. If the peer's queue pair exists, the NOOP completes, which updates Alive. Probe sends
// none if enough NOOPs are already in progress. It returns false if the connection is not established.
func (c *Conn) Probe(now time.Time, b *Batch) bool {
	if c.state != Established {
		return false
	}
	if c.room > 0 && c.credits.NoopDue(true) {
		c.noop(now, b)
	}
	return true
}
