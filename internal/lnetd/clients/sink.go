package clients

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

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

// finish writes the completion e of the operation on b to the ring, or keeps it until the ring has room. It
// wakes the client if that sleeps, or leaves that to the end of a pass.
func (t *tm) finish(b *buffer, e *shm.Completion) {
	t.mu.Lock()
	t.count(b, e)
	var wake shared.Wakeup
	err := guardFault(func() error {
		err := t.put(e, b)
		if !t.ringClosed && !t.client.server.passes.leave(t) {
			wake = t.ring.Completions.Claim()
		}
		return err
	})
	if err != nil {
		t.discard()
		t.end(e, b)
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
	told, wake := false, shared.Wakeup(0)
	err := guardFault(func() (err error) {
		if told, err = t.writeTMEvent(&c); told {
			wake = t.ring.Completions.Claim()
		}
		return err
	})
	t.mu.Unlock()
	t.finishWrite(wake, err)
	return told
}

// writeTMEvent writes an event of the TM to the ring. It returns false if the ring has no room for it or is
// closed, or if the client uses credits, which do not include such events. The caller holds mu.
func (t *tm) writeTMEvent(c *transport.Completion) (bool, error) {
	if t.discarding || !t.overflows || len(t.kept) > 0 {
		return false, nil
	}
	if room, err := t.ring.Completions.Room(); room == 0 || err != nil {
		return false, err
	}
	ok, err := t.ring.Completions.Put(&shm.Completion{TM: true, Errno: errnoOf(c.Err), Time: t.client.server.timestamp(c.Time)})
	t.ring.Completions.Publish()
	return ok, err
}

// finishWrite does what remains to be done after a write to the ring when mu has been unlocked. It
// disconnects the client if the write returned an error err, and wakes it as wake requires.
func (t *tm) finishWrite(wake shared.Wakeup, err error) {
	if err != nil {
		t.client.cutOff(fmt.Errorf("TM at %v: %w", t.address, err))
	}
	t.ring.Completions.Wake(wake)
}
