package shared

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/memory/polling"
)

// Consumer is the side of a ring that removes entries. Only one goroutine at a time may call Read and
// Release, and only one Wait. The other methods are safe for concurrent use. Only Wait blocks or makes system
// calls. The methods allocate nothing but errors.
type Consumer struct {
	entries []byte // entries of the ring, in shared memory
	size    uint32 // size of an entry in bytes
	count   uint32 // number of entries, a power of two

	// next is the number of entries removed, and released the number of those that the other side may
	// overwrite. Both begin at the ring's initial counter and wrap around. They are private; sharedHead is a
	// copy of released that is never read back.
	next       uint32
	released   atomic.Uint32
	sharedHead *atomic.Uint32
	// tail is the last value loaded from sharedTail, which the other side writes: the number of entries
	// written.
	tail       uint32
	sharedTail *atomic.Uint32

	bell    sleeper // wakes Wait
	readNow counter // number of entries released, for statistics

	// poller polls in Wait, by calling ready, which is nil if Wait sleeps at once. onFlag means that Wait may sleep on
	// the bell's flag. Only Wait uses these fields.
	poller                   polling.Poller
	ready                    func() bool
	onFlag                   bool
	timeout                  unix.Timespec // argument of the system call in sleepOnFlag
	polls, found, wordSleeps counter
}

// init initializes c for ring r in the mapped file b. It begins at the ring's current counter.
func (c *Consumer) init(b []byte, r ring) {
	c.entries, c.size, c.count = b[r.begin:r.end], r.size, r.count
	c.sharedTail, c.sharedHead = word(b, r.tail), word(b, r.head)
	c.next = c.sharedHead.Load()
	c.released.Store(c.next)
	c.tail = c.next
}

// Read removes the next entry and copies it to dst, whose length is the size of an entry. It returns false if
// the ring is empty, and ErrRing if the other side's counter is invalid.
func (c *Consumer) Read(dst []byte) (bool, error) {
	if c.next == c.tail {
		// After this load, all entries that the other side wrote before it stored the counter are visible.
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

// Release allows the other side to overwrite all removed entries. Call it once per batch. A caller that tells
// the other side in another way that entries were removed must call Release first, so that the other side
// finds room.
func (c *Consumer) Release() {
	if n := c.next - c.released.Load(); n != 0 {
		c.released.Store(c.next)
		// The entries were copied before this store, so the other side may overwrite them. The store is a
		// Swap, because ReleaseAndClaim must load its flag after it (see fences).
		c.sharedHead.Swap(c.next)
		c.readNow.add(uint64(n))
	}
}

// Pending reports whether there are entries that were not released: new entries, or removed ones. It costs
// two atomic loads. It does not validate the other side's counter; Read does.
func (c *Consumer) Pending() bool { return c.sharedTail.Load() != c.released.Load() }

// SetWaiting sets how Wait waits before it sleeps at the descriptor: it polls for up to the given time, if that is
// not 0, and it sleeps on the flag for a while if onFlag is set, which the other side must support. It must not be
// called during Wait.
func (c *Consumer) SetWaiting(poll time.Duration, onFlag bool) {
	c.poller.SetTime(poll)
	c.ready = func() bool { return c.Pending() || c.bell.interrupted() }
	c.onFlag = onFlag
}

// Wait blocks until Pending returns true, until Wake is called, or until the given time, where zero means no
// time limit. It returns immediately if entries were removed but not released. It returns ErrShut if this side is
// shut, and in a client ErrGone if lnetd is gone. It blocks only the goroutine, not its thread, except for a while
// after the last entry if SetWaiting has been called.
func (c *Consumer) Wait(until time.Time) error { return c.wait(until, false) }

// wait implements Wait. If bell is set, wait also returns when a token arrives although the ring is empty.
func (c *Consumer) wait(until time.Time, bell bool) error {
	if c.Pending() || c.ready != nil && polling.Acquire() && c.waitAwake(until) {
		c.bell.woken.Store(false)
		return nil
	}
	return c.sleepAtDescriptor(until, bell)
}

// waitAwake polls, then sleeps on the flag for a while, and reports whether wait can return. The caller has acquired a
// place (polling.Acquire), which waitAwake releases.
func (c *Consumer) waitAwake(until time.Time) bool {
	defer polling.Release()
	return c.poll(until) || c.onFlag && c.sleepOnFlag(until)
}

// poll polls before a sleep, and reports whether wait can return.
func (c *Consumer) poll(until time.Time) bool {
	polled, ok := c.poller.Poll(until, c.ready)
	if polled {
		c.CountPoll(ok)
	}
	return ok && !c.bell.shut.Load()
}

// sleepOnFlag sleeps on the flag for a while, and reports whether wait can return. It does not notice the end of the
// other side, so it sleeps for a limited time.
func (c *Consumer) sleepOnFlag(until time.Time) (ok bool) {
	end := time.Now().Add(wordSleepTime)
	if !until.IsZero() && until.Before(end) {
		end = until
	}
	for !c.ready() {
		d := time.Until(end)
		if d <= 0 {
			return false
		}
		c.wordSleeps.add(1)
		c.bell.prepareSleepOnFlag()
		if !c.ready() {
			c.timeout = unix.NsecToTimespec(int64(d))
			waitFutex(c.bell.flag, uint32(onWord), &c.timeout)
			if c.bell.flag.Load() != uint32(onWord) && !c.bell.interrupted() {
				c.bell.reads.add(1)
			}
		}
		c.bell.finishSleepOnFlag()
	}
	return !c.bell.shut.Load()
}

// sleepAtDescriptor sleeps until wait can return.
func (c *Consumer) sleepAtDescriptor(until time.Time, bell bool) error {
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

// Wake ends the Wait that is in progress. If no Wait is in progress, the next Wait returns immediately.
func (c *Consumer) Wake() { c.bell.forceWake() }

// ConsumerStats are the statistics of a consumer (transport 9.7).
type ConsumerStats struct {
	// Released is the number of released entries. Sleeps is how often the consumer announced that it would
	// sleep, and Reads how often the other side woke it. ProducerStats.Wakeups of the other side never exceeds
	// Sleeps.
	Released, Sleeps, Reads uint64
}

// Stats returns the statistics since the ring was created. It is safe for concurrent use.
func (c *Consumer) Stats() ConsumerStats {
	return ConsumerStats{Released: c.readNow.load(), Sleeps: c.bell.sleeps.load(), Reads: c.bell.reads.load()}
}

// SubmissionConsumer is lnetd's side of the submission ring.
type SubmissionConsumer struct {
	Consumer
	posted posted
}

// WaitWakeup is like Wait, but also returns when the client has woken lnetd without a new submission. The
// caller then checks the client's counters.
func (c *SubmissionConsumer) WaitWakeup() error { return c.wait(time.Time{}, true) }

// MarkPosted reports to the client that lnetd has carried out all submissions removed so far. It returns true
// if the client waits for that; the caller must then call WakePosted.
func (c *SubmissionConsumer) MarkPosted() (wake bool) { return c.posted.store(c.next) }

// WakePosted wakes the client that waits in WaitPosted. The caller calls it after MarkPosted has returned
// true. It does not block. It has no effect if the memory is no longer mapped.
func (c *SubmissionConsumer) WakePosted() { c.posted.wake() }
