package clients

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

// errNoRoom indicates a bug in the Core or in account.
var errNoRoom = fmt.Errorf("lnetd has a completion, but the completion ring has no space for it: %w", syscall.EIO)

// errDown is the reason for disconnects when the node is closed.
var errDown = errors.New("the node of lnetd is closed")

// Push implements completion.Sink. It writes to the client's ring.
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

// finish writes a completion of the operation on b.
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
		// The client may submit the next operation as soon as it reads this.
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

// count updates the counters with a completion of b. The caller holds mu.
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

// PushTM implements completion.Sink.
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

// writeTMEvent writes an event of the TM if there is an entry for it, and reports whether it did. The
// caller holds mu.
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

// put writes a completion of an operation, unless the ring is closed. The caller holds mu.
func (t *tm) put(e *shm.Completion) error {
	if t.ringClosed {
		return nil
	}
	t.posted++
	return t.write(e)
}

// write writes an entry and publishes it to the client. The caller holds mu.
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

// finishWrite finishes a write to the ring after mu was unlocked: it wakes the client, or disconnects it on an
// error.
func (t *tm) finishWrite(wake bool, err error) {
	if err != nil {
		t.client.cutOff(fmt.Errorf("TM at %v: %w", t.address, err))
	}
	if wake {
		t.ring.Completions.Wake()
	}
}
