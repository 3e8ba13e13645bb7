package clients

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

// errNoRoom is the reason to disconnect a client whose completion ring has no room for a completion. As
// entries are reserved before an operation starts, this is a bug in the Core or in account.
var errNoRoom = fmt.Errorf("lnetd has a completion, but the completion ring has no space for it: %w", syscall.EIO)

// errDown is the reason for which clients are disconnected when the node is closed.
var errDown = errors.New("the node of lnetd is closed")

// Push implements completion.Sink. It writes a completion of an operation to the client's ring.
func (t *tm) Push(c transport.Completion) {
	b := c.Token.(*buffer)
	e := shm.Completion{
		Buffer: b.index, Generation: b.generation, Operation: c.Sequence, Length: uint32(c.Length), Offset: uint32(c.Offset),
		Time: t.client.server.timestamp(c.Time), Final: c.Final,
		Sender: c.Sender.NID, PID: c.Sender.PID, Portal: uint16(c.Sender.Portal), TMID: c.Sender.TMID,
	}
	if c.Err != nil {
		e.Errno = errnoOf(c.Err)
	}
	t.finish(b, &e)
}

// finish writes the completion e of the operation on b to the ring, and wakes the client if it sleeps. If e
// is the final completion, b is free for the next operation.
func (t *tm) finish(b *buffer, e *shm.Completion) {
	t.mu.Lock()
	t.count(b, e)
	reservations := min(1, b.reserved)
	if e.Final {
		reservations = b.reserved
		t.underWay--
		t.depth[b.queue]--
	}
	b.reserved -= reservations
	t.reserved -= reservations
	if e.Final {
		// This precedes the write, because the client may submit the next operation as soon as it has
		// read the completion.
		b.owner.Store(nil)
	}
	wake := false
	err := guardFault(func() error {
		err := t.put(e)
		wake = !t.ringClosed && t.ring.Completions.Claim()
		return err
	})
	if e.Final && t.ending && t.underWay == 0 {
		close(t.idle)
	}
	t.mu.Unlock()
	t.finishWrite(wake, err)
}

// count adds the completion e of the operation on b to the counters. The caller holds mu.
func (t *tm) count(b *buffer, e *shm.Completion) {
	f := &t.figures[b.queue]
	switch {
	case e.Rejected:
		t.rejected++
	case e.Errno != 0:
		f.Failed++
		if e.Errno == syscall.ECANCELED {
			f.Cancelled++
		}
	default:
		f.Completed++
		n := e.Length
		switch b.queue {
		case transport.MsgSend, transport.PassiveBulkSend, transport.ActiveBulkSend:
			n = b.length
		}
		f.Bytes += uint64(n)
		f.MaxBytes = max(f.MaxBytes, uint64(n))
	}
	if e.Final && !e.Rejected && e.Time > b.began {
		f.InQueue += float64(e.Time-b.began) / float64(time.Second)
	}
}

// PushTM implements completion.Sink. It writes an event of the TM to the client's ring. If the node is
// closed, it disconnects the client instead.
func (t *tm) PushTM(c transport.Completion) bool {
	if c.Down {
		t.client.cutOff(fmt.Errorf("%w: %w", errDown, syscall.ESHUTDOWN))
		return true
	}
	t.mu.Lock()
	told, wake := false, false
	err := guardFault(func() (err error) {
		told, err = t.writeTMEvent(&c)
		wake = told && t.ring.Completions.Claim()
		return err
	})
	t.mu.Unlock()
	t.finishWrite(wake, err)
	return told
}

// writeTMEvent writes an event of the TM to the ring. It returns false if the ring has no room for it or is
// closed. The caller holds mu.
func (t *tm) writeTMEvent(c *transport.Completion) (bool, error) {
	if t.ringClosed {
		return false, nil
	}
	if !t.canWriteTMEvent() {
		room, err := t.ring.Completions.Room()
		if err != nil {
			return false, err
		}
		if t.update(room); !t.canWriteTMEvent() {
			return false, nil
		}
	}
	t.addTMEvent()
	return true, t.write(&shm.Completion{TM: true, Errno: errnoOf(c.Err), Time: t.client.server.timestamp(c.Time)})
}

// put writes a completion of an operation to the ring. If the ring is closed, it does nothing. The caller
// holds mu.
func (t *tm) put(e *shm.Completion) error {
	if t.ringClosed {
		return nil
	}
	t.posted++
	return t.write(e)
}

// write writes an entry to the completion ring, so that the client can read it. The caller holds mu and has
// counted the entry.
func (t *tm) write(e *shm.Completion) error {
	if _, err := t.ring.Completions.Room(); err != nil {
		return err
	}
	ok, err := t.ring.Completions.Put(e)
	if err == nil && !ok {
		err = errNoRoom
	}
	t.ring.Completions.Publish()
	return err
}

// finishWrite does what remains to be done after a write to the ring when mu has been unlocked. It
// disconnects the client if the write returned an error err, and wakes it if wake is set.
func (t *tm) finishWrite(wake bool, err error) {
	if err != nil {
		t.client.cutOff(fmt.Errorf("TM at %v: %w", t.address, err))
	}
	if wake {
		t.ring.Completions.Wake()
	}
}
