package shm

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Consumer is the side of a ring that removes entries. One goroutine at a time may call Next and Release,
// and one at a time Wait. The other methods are safe for concurrent use. Only Wait blocks or makes system
// calls. Only errors are allocated.
type Consumer struct {
	entries []byte // of the ring, in shared memory
	size    uint32 // of an entry
	count   uint32 // number of entries, a power of two

	// next counts entries removed, released counts those that the other side may overwrite. Both are
	// private; sharedHead is a copy of released that is never read back.
	next       uint32
	released   atomic.Uint32
	sharedHead *atomic.Uint32
	// tail is the last value loaded from sharedTail, the other side's counter.
	tail       uint32
	sharedTail *atomic.Uint32

	bell    sleeper
	readNow counter
}

// init initializes c for a ring, beginning at the ring's current counter.
func (c *Consumer) init(b []byte, r ring) {
	c.entries, c.size, c.count = b[r.begin:r.end], r.size, r.count
	c.sharedTail, c.sharedHead = word(b, r.tail), word(b, r.head)
	c.next = c.sharedHead.Load()
	c.released.Store(c.next)
	c.tail = c.next
}

// read copies the next entry to dst, which has the size of an entry. It returns false if the ring is empty.
func (c *Consumer) read(dst []byte) (bool, error) {
	if c.next == c.tail {
		// Entries written before the other side stored this counter are visible now.
		tail := c.sharedTail.Load()
		if fill := tail - c.released.Load(); fill > c.count || tail-c.next > c.count {
			return false, fmt.Errorf("%w: it has put %d entries where there is room for %d", ErrRing, int32(tail-c.next), c.count)
		}
		if c.tail = tail; tail == c.next {
			return false, nil
		}
	}
	at := uint64(c.next&(c.count-1)) * uint64(c.size)
	copy(dst, c.entries[at:at+uint64(c.size)])
	c.next++
	return true, nil
}

// Release allows the other side to overwrite all removed entries. Call it once per batch, and before the
// other side learns by other means that there is room.
func (c *Consumer) Release() {
	if n := c.next - c.released.Load(); n != 0 {
		c.released.Store(c.next)
		// The entries were copied before this store.
		c.sharedHead.Store(c.next)
		c.readNow.add(uint64(n))
	}
}

// Pending reports whether there are entries that were not released. It costs two atomic loads. It does not
// validate the other side's counter; Next does.
func (c *Consumer) Pending() bool { return c.sharedTail.Load() != c.released.Load() }

// Wait blocks until Pending returns true, Wake is called, or the time until, unless that is zero. It
// returns at once if entries were removed but not released. It does not block a thread. It returns ErrShut
// if this side is shut, and ErrGone, in a client, if lnetd is gone.
func (c *Consumer) Wait(until time.Time) error { return c.wait(until, false) }

// wait implements Wait. If bell is set, it also returns after a token without an entry.
func (c *Consumer) wait(until time.Time, bell bool) error {
	if c.Pending() {
		c.bell.woken.Store(false)
		return nil
	}
	for {
		c.bell.setDeadline(until)
		c.bell.prepareSleep()
		if c.Pending() || c.bell.woken.Load() {
			break
		}
		over, err := c.bell.sleep(until)
		if err != nil {
			c.bell.finishSleep()
			return err
		}
		if over || bell {
			break
		}
	}
	c.bell.finishSleep()
	return nil
}

// Wake ends the current Wait. If no Wait is running, the next one returns at once.
func (c *Consumer) Wake() { c.bell.forceWake() }

// ConsumerStats are the statistics of a consumer (transport 9.7).
type ConsumerStats struct {
	// Released counts released entries, Sleeps announced sleeps, and Reads system calls that found a token.
	// The other side's Wakeups never exceeds Sleeps.
	Released, Sleeps, Reads uint64
}

// Stats returns the statistics since the ring was created. It is safe for concurrent use.
func (c *Consumer) Stats() ConsumerStats {
	return ConsumerStats{Released: c.readNow.load(), Sleeps: c.bell.sleeps.load(), Reads: c.bell.reads.load()}
}

// SubmissionConsumer is lnetd's side of the submissions.
type SubmissionConsumer struct {
	Consumer
	entry  [SubmissionSize]byte
	posted posted
}

// WaitWakeup is like Wait, but also returns when the client rings without a new submission, so that the
// client's counters are checked.
func (c *SubmissionConsumer) WaitWakeup() error { return c.wait(time.Time{}, true) }

// MarkPosted reports to the client that all removed submissions have been carried out. It returns true if
// the client waits for that. Then the caller must call WakePosted.
func (c *SubmissionConsumer) MarkPosted() (wake bool) { return c.posted.store(c.next) }

// WakePosted wakes the client's WaitPosted, after MarkPosted. It does not block. If the memory is gone, it
// has no effect.
func (c *SubmissionConsumer) WakePosted() { c.posted.wake() }

// Next removes and decodes the next submission. It returns false if the ring is empty. The error is
// ErrRing, or the *lnet.FieldError of an invalid entry, which has been removed.
func (c *SubmissionConsumer) Next(s *Submission) (bool, error) {
	ok, err := c.read(c.entry[:])
	if !ok {
		return false, err
	}
	return true, s.Decode(&c.entry)
}

// CompletionConsumer is a client's side of the completions.
type CompletionConsumer struct {
	Consumer
	entry [CompletionSize]byte
}

// Next removes and decodes the next completion. It returns false if the ring is empty. The error is
// ErrRing, or the *lnet.FieldError of an invalid entry, which has been removed.
func (c *CompletionConsumer) Next(d *Completion) (bool, error) {
	ok, err := c.read(c.entry[:])
	if !ok {
		return false, err
	}
	return true, d.Decode(&c.entry)
}
