package remote

import (
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

// Pending implements transport.CoreTM. It costs two atomic loads of private memory, and one of shared memory.
func (t *tm) Pending() bool {
	if t.hasExtra.Load() {
		return true
	}
	if t.drained.Load() || !t.gate.enter() {
		return false
	}
	defer t.gate.leave()
	return t.ring.Completions.Pending()
}

// Reap implements transport.CoreTM. It releases the ring entries of all returned completions to lnetd
// together. Completions about the connection follow those of the ring.
func (t *tm) Reap(dst []transport.Completion) int {
	if !t.Pending() {
		return 0
	}
	t.mu.Lock()
	n, wake, err := t.reap(dst)
	t.mu.Unlock()
	t.ring.Submissions.Wake(wake)
	if err != nil {
		t.domain.connection.fail(fmt.Errorf("%w: %w", err, syscall.EPROTO))
	}
	return n
}

// reap implements Reap. wake is how the caller must wake lnetd if that keeps completions. reap returns an error if
// the ring is invalid. mu is held.
func (t *tm) reap(dst []transport.Completion) (n int, wake shared.Wakeup, err error) {
	if t.drained.Load() {
		return 0, 0, nil
	}
	n, wake, err = t.drain(dst)
	if t.cancels.abandonRest {
		n += t.cancels.finish(dst[n:])
	}
	if n < len(dst) && t.goingDown != nil {
		dst[n] = transport.Completion{Diagnostic: *t.goingDown, Time: time.Now()}
		t.goingDown = nil
		n++
	}
	if n < len(dst) && t.endError != nil {
		// lnetd is gone, and all completions that it has written have been reaped.
		dst[n] = transport.Completion{Err: t.endError, Down: true, Time: time.Now()}
		n++
		t.drained.Store(true)
	}
	if t.goingDown == nil && !t.cancels.abandonRest && (t.endError == nil || t.drained.Load()) {
		t.hasExtra.Store(false)
	}
	return n, wake, err
}

// drain moves completions from the ring to dst; see reap. mu is held.
func (t *tm) drain(dst []transport.Completion) (n int, wake shared.Wakeup, err error) {
	for more := true; more && n < len(dst); {
		if more, err = t.ring.Completions.Next(&t.in); err != nil {
			break
		}
		if more && t.translate(&t.in, &dst[n]) {
			n++
		}
	}
	if t.ring.Completions.ReleaseAndClaim() {
		wake = t.ring.Submissions.ClaimAnyway()
	}
	return n, wake, err
}

// translate converts an entry of the ring to a completion. It returns false if the engine must not see the
// completion, because the entry concerns no op in progress, or an op that has ended for the program. mu is
// held.
func (t *tm) translate(e *shm.Completion, c *transport.Completion) bool {
	*c = transport.Completion{Time: t.domain.clock.Time(int64(e.Time))}
	switch {
	case e.Rejected:
		c.Err = rejectedError(e.Errno)
	case e.Errno != 0:
		c.Err = opError(e.Errno)
	}
	if e.TM {
		return c.Err != nil
	}
	b := t.domain.table.find(e.Buffer)
	if b == nil || b.generation != e.Generation || b.tm.Load() != t || b.operation+b.sequence != e.Operation {
		t.stale.Add(1)
		return false
	}
	c.Token, c.Sequence, c.Final = b.token, b.sequence, e.Final
	c.Length, c.Offset = int(e.Length), int(e.Offset)
	if !e.Sender.IsZero() {
		c.Sender = transport.Address{NID: e.Sender, PID: e.PID, Portal: uint32(e.Portal), TMID: e.TMID}
	}
	known := b.abandoned
	if e.Errno == 0 && !known && b.receives {
		b.foreign.fetch(c.Offset, c.Length)
	}
	if e.Final {
		t.ops--
		t.cancels.remove(b)
		b.tm.Store(nil) // the buffer may be submitted again from now on
	}
	return !known
}
