package shm

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Consumer is the half that takes entries out of a ring. One goroutine at a time calls
// Next and Release, one at a time Wait; any may call the others. Nothing but Wait blocks
// or makes system calls, and nothing allocates but errors.
type Consumer struct {
	entries []byte // of the ring, in shared memory
	size    uint32 // of an entry
	count   uint32 // of entries, a power of two

	// next counts what was taken out, and released what the other side may write over.
	// They are private: sharedHead is a copy of released that is never read back.
	next       uint32
	released   atomic.Uint32
	sharedHead *atomic.Uint32
	// tail is sharedTail, the other side's, as it was when last looked at.
	tail       uint32
	sharedTail *atomic.Uint32

	bell  sleeper
	taken counter
}

// lay makes the consumer of a ring, which goes on where its counter stands.
func (c *Consumer) lay(b []byte, r ring) {
	c.entries, c.size, c.count = b[r.begin:r.end], r.size, r.count
	c.sharedTail, c.sharedHead = word(b, r.tail), word(b, r.head)
	c.next = c.sharedHead.Load()
	c.released.Store(c.next)
	c.tail = c.next
}

// take copies the next entry to dst, of its size. It reports false if there is none.
func (c *Consumer) take(dst []byte) (bool, error) {
	if c.next == c.tail {
		// What was put there before the other side stored this counter is seen by now.
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

// Release lets the other side write over all that was taken out. Who has a whole batch
// taken out calls it once, and before it tells the other side of room by other ways.
func (c *Consumer) Release() {
	if n := c.next - c.released.Load(); n != 0 {
		c.released.Store(c.next)
		// What was copied was copied before this store.
		c.sharedHead.Store(c.next)
		c.taken.add(uint64(n))
	}
}

// Pending tells whether there is something beyond what was released. It is two atomic
// loads, and believes the other side, whose counter the next call of Next checks.
func (c *Consumer) Pending() bool { return c.sharedTail.Load() != c.released.Load() }

// Wait blocks until Pending or Wake, or until a time, unless that is zero. Release comes
// first: else it does not block. While it blocks, no thread does. ErrShut: this side has
// been shut; ErrGone: lnetd is gone, which a client is told of.
func (c *Consumer) Wait(until time.Time) error { return c.wait(until, false) }

// wait is Wait. With bell it also returns for a token that announces nothing.
func (c *Consumer) wait(until time.Time, bell bool) error {
	if c.Pending() {
		c.bell.woken.Store(false)
		return nil
	}
	for {
		c.bell.setAlarm(until)
		c.bell.lieDown()
		if c.Pending() || c.bell.woken.Load() {
			break
		}
		over, err := c.bell.sleep(until)
		if err != nil {
			c.bell.getUp()
			return err
		}
		if over || bell {
			break
		}
	}
	c.bell.getUp()
	return nil
}

// Wake has the Wait that is under way return, or else the next.
func (c *Consumer) Wake() { c.bell.shout() }

// ConsumerStats are the figures of transport 9.7 of a consumer.
type ConsumerStats struct {
	// Taken counts released entries, Sleeps how often the consumer lay down, and Reads how
	// often it found a token, by a system call. The other side's Rung is never above Sleeps.
	Taken, Sleeps, Reads uint64
}

// Stats are the figures since the ring was made. Any goroutine may call it.
func (c *Consumer) Stats() ConsumerStats {
	return ConsumerStats{Taken: c.taken.load(), Sleeps: c.bell.sleeps.load(), Reads: c.bell.reads.load()}
}

// SubmissionConsumer is lnetd's half of the submissions.
type SubmissionConsumer struct {
	Consumer
	entry  [SubmissionSize]byte
	posted posted
}

// WaitBell is Wait that also returns when the client rings with nothing submitted, so that its
// counters are checked.
func (c *SubmissionConsumer) WaitBell() error { return c.wait(time.Time{}, true) }

// MarkPosted tells the client that all submissions that were taken out have been carried out.
// It reports whether the client waits for that, so that the caller must call WakePosted.
func (c *SubmissionConsumer) MarkPosted() (wake bool) { return c.posted.mark(c.next) }

// WakePosted wakes the client's WaitPosted, after MarkPosted. It does not block. If the memory
// is gone, it does nothing.
func (c *SubmissionConsumer) WakePosted() { c.posted.wake() }

// Next takes the next submission out. It reports false if there is none. An error is
// ErrRing, or a *lnet.FieldError of an entry that was taken out.
func (c *SubmissionConsumer) Next(s *Submission) (bool, error) {
	ok, err := c.take(c.entry[:])
	if !ok {
		return false, err
	}
	return true, s.Decode(&c.entry)
}

// CompletionConsumer is a client's half of the completions.
type CompletionConsumer struct {
	Consumer
	entry [CompletionSize]byte
}

// Next takes the next completion out. It reports false if there is none. An error is
// ErrRing, or a *lnet.FieldError of an entry that was taken out.
func (c *CompletionConsumer) Next(d *Completion) (bool, error) {
	ok, err := c.take(c.entry[:])
	if !ok {
		return false, err
	}
	return true, d.Decode(&c.entry)
}
