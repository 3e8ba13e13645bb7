package clients

import (
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/shm"
)

// kept is a completion that lnetd keeps, because the client's ring has no room for it (transport 9.5).
type kept struct {
	entry  shm.Completion
	buffer *buffer
}

// errRingFull is the reason to disconnect a client without protocol.FeatOverflow whose completion ring is full.
var errRingFull = fmt.Errorf("the completion ring is full: the client uses more than its credits: %w", syscall.ENOSPC)

// put writes the completion e of the operation on b to the ring. If the ring has no room, lnetd keeps the
// completion until it has. If e is final, the operation ends when e is in the ring. put returns an error if
// the client must be disconnected. The caller holds mu.
func (t *tm) put(e *shm.Completion, b *buffer) error {
	if t.discarding {
		t.end(e, b)
		return nil
	}
	if len(t.kept) == 0 {
		ok, err := t.write(e, b)
		if t.ring.Completions.Publish(); ok || err != nil {
			return err
		}
	}
	return t.keep(e, b)
}

// write adds the completion e of the operation on b to the ring, and ends the operation if e is final. It
// returns false if the ring has no room. The caller holds mu, and publishes the entry.
func (t *tm) write(e *shm.Completion, b *buffer) (bool, error) {
	if ok, err := t.ring.Completions.HasRoom(); !ok || err != nil {
		return false, err
	}
	// This precedes the write, because the client may submit the next operation as soon as it has read the
	// completion.
	t.end(e, b)
	return t.ring.Completions.Put(e)
}

// end ends the operation on b if e is final, so that the buffer is free for the next operation. It has no
// effect if the operation has ended. The caller holds mu.
func (t *tm) end(e *shm.Completion, b *buffer) {
	if !e.Final {
		return
	}
	if queue := b.queue; b.owner.CompareAndSwap(t, nil) {
		t.underWay--
		t.depth[queue]--
		if t.ending && t.underWay == 0 {
			close(t.idle)
		}
	}
}

// keep keeps a completion for which the ring has no room. It counts towards the client's quota of ring
// entries. When no more operations may start, keep discards the completion and all later ones, so that the
// ring has no gap. The caller holds mu.
func (t *tm) keep(e *shm.Completion, b *buffer) error {
	switch {
	case t.ending:
		t.discard()
		t.end(e, b)
		return nil
	case !t.overflows:
		return errRingFull
	}
	if err := t.client.charge(amounts{ofEntries: 1}); err != nil {
		return fmt.Errorf("the client does not read completions, and lnetd keeps no more of them: %s: %w", err.Error(), syscall.ENOSPC)
	}
	t.kept = append(t.kept, kept{*e, b})
	t.overflowed++
	t.keeping.Store(true)
	if len(t.kept) > 1 {
		return nil // the client has been asked to wake lnetd when there is room
	}
	return t.moveKept()
}

// moveKept moves kept completions to the ring, as far as it has room. If some are left, it asks the client to
// wake lnetd when there is room. The caller holds mu.
func (t *tm) moveKept() error {
	for len(t.kept) > 0 {
		n, err := t.moveFitting()
		if n == len(t.kept) {
			t.kept = nil
			t.keeping.Store(false)
		} else {
			t.kept = t.kept[n:]
		}
		if n > 0 {
			t.client.uncharge(amounts{ofEntries: int64(n)})
		}
		if err != nil || len(t.kept) == 0 {
			return err
		}
		t.ring.Completions.MarkOverflow()
		if room, err := t.ring.Completions.Room(); room == 0 || err != nil {
			return err
		}
	}
	return nil
}

// moveFitting writes the first kept completions to the ring, as far as it has room, and returns their number.
// It leaves them in t.kept. The caller holds mu.
func (t *tm) moveFitting() (n int, err error) {
	for ; n < len(t.kept); n++ {
		var ok bool
		if ok, err = t.write(&t.kept[n].entry, t.kept[n].buffer); !ok || err != nil {
			break
		}
	}
	t.ring.Completions.Publish()
	return n, err
}

// discard ends the operations whose final completion is kept, and discards all kept and all later
// completions. The caller holds mu.
func (t *tm) discard() {
	t.discarding = true
	for i := range t.kept {
		t.end(&t.kept[i].entry, t.kept[i].buffer)
	}
	if n := len(t.kept); n > 0 {
		t.client.uncharge(amounts{ofEntries: int64(n)})
	}
	t.kept = nil
	t.keeping.Store(false)
}

// flushKept moves kept completions to the ring, as far as it has room, and wakes the client if it sleeps. If
// it returns an error, the client has been disconnected.
func (t *tm) flushKept() error {
	if !t.keeping.Load() {
		return nil
	}
	t.mu.Lock()
	var wake shared.Wakeup
	err := guardFault(func() error {
		err := t.moveKept()
		wake = t.ring.Completions.Claim()
		return err
	})
	if err != nil {
		t.discard() // the client must not read a completion, submit again, and see the new operation end with the old one
	}
	t.mu.Unlock()
	t.finishWrite(wake, err)
	return err
}
