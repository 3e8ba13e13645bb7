package protocol

import (
	"errors"
	"syscall"
)

// ErrDisconnected means that the peer or the CM has ended the connection.
var ErrDisconnected = errors.New("disconnected")

// Close ends the connection because of an event of the CM or of a device, an error that LNet has
// found, or a request of the caller, which has health LocalAborted. Messages of which nothing was
// posted are completed at once, so that the caller can send them elsewhere. Arrivals are withdrawn.
// The rest is completed by Flushed. A second call does nothing.
func (c *Conn) Close(f *Failure, b *Batch) {
	if c.state >= Closing {
		return
	}
	c.state, c.failure = Closing, f
	b.Disconnect, b.Failure = true, f
	c.early = nil
	for _, q := range c.waiting() {
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

// Flushed reports that the queue pair is in error or destroyed, and that no more completions will
// be reported for it. So the memory of messages in progress is no longer in use (o2iblnd 12.1).
// Flushed completes everything that is left.
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

// abort completes a message that was not finished when the connection ended (o2iblnd 13.3).
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

// lost returns the failure of a message on a connection that is not established, or no longer so.
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
