package protocol

import (
	"errors"
	"syscall"
)

// ErrDisconnected means that the peer or the CM has ended the connection.
var ErrDisconnected = errors.New("disconnected")

// Close begins the end of the connection because of f. Possible reasons are an event of the CM or of a device,
// a protocol error that LNet has found, and a request of the caller (health LocalAborted). Messages of which
// nothing was posted complete immediately, so that the caller can send them elsewhere. Arrivals that are not
// answered are withdrawn. All other messages complete in Flushed. A second call does nothing.
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

// abortQueue completes all messages of a queue.
func (c *Conn) abortQueue(q *queue, b *Batch) {
	for q.head != nil {
		c.abort(q.pop(), b)
	}
}

// Flushed reports that the queue pair is in error or destroyed, and that no more completions will be reported
// for it. The memory of messages in progress is then no longer in use (o2iblnd 12.1). Flushed completes all
// remaining messages.
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

// abort completes a message that was in progress when the connection ended. The failure depends on how far the
// message had come (o2iblnd 13.3).
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

// lost returns the failure of a message that cannot be sent or answered because the connection is not
// established, or has ended. Its health is h, or LocalAborted if the caller has closed the connection. why is
// the cause if the connection has not failed.
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
