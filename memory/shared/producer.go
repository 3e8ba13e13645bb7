package shared

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrRing means that the other side's counter is invalid: it has written more entries than the ring can
// contain, or read more than were written. The ring cannot be used any more. The error matches EPROTO.
var ErrRing = fmt.Errorf("the other side's counter is impossible: %w", syscall.EPROTO)

// ErrGone means that the other side has closed its end of the ring. The error matches ESHUTDOWN.
var ErrGone = fmt.Errorf("the other side is gone: %w", syscall.ESHUTDOWN)

// ErrShut means that this side has shut its own end of the ring.
var ErrShut = errors.New("the ring is shut")

// Producer is the side of a ring that adds entries. Only one goroutine at a time may call Room, Slot, Advance
// and Publish; the caller ensures this, usually with the lock of its credits. Claim and Wake are safe for
// concurrent use. They are separate methods so that the system call in Wake can be made without that lock:
//
//	lock; Room; Slot, Advance, ...; Publish; w := Claim; unlock; Wake(w)
//
// Only Wake makes system calls. No method blocks. The methods allocate nothing but errors.
type Producer struct {
	entries []byte // entries of the ring, in shared memory
	size    uint32 // size of an entry in bytes
	count   uint32 // number of entries, a power of two

	// next is the number of entries written, and published the number of those that are visible to the other
	// side. Both begin at the ring's initial counter and wrap around. They are private; sharedTail is a copy
	// of published that is never read back.
	next, published uint32
	sharedTail      *atomic.Uint32
	// head is the last value loaded from sharedHead, which the other side writes: the number of entries read.
	head       uint32
	sharedHead *atomic.Uint32

	bell waker   // wakes the other side
	put  counter // number of entries published, for statistics
}

// init initializes p for ring r in the mapped file b. The ring is empty and begins at its current counter.
func (p *Producer) init(b []byte, r ring) {
	p.entries, p.size, p.count = b[r.begin:r.end], r.size, r.count
	p.sharedTail, p.sharedHead = word(b, r.tail), word(b, r.head)
	p.next = p.sharedTail.Load()
	p.published, p.head = p.next, p.next
}

// Room returns the number of entries that can be added. It returns ErrRing if the other side's counter is
// invalid.
func (p *Producer) Room() (int, error) {
	// The caller may overwrite the free entries after this load, because the other side copied them before it
	// stored its counter.
	head := p.sharedHead.Load()
	if head-p.head > p.published-p.head {
		return 0, fmt.Errorf("%w: it has taken %d entries of %d", ErrRing, int32(head-p.head), p.published-p.head)
	}
	p.head = head
	return int(p.count - (p.next - head)), nil
}

// HasRoom is Room for a caller that needs one entry only. It does not load the other side's counter, which is often in
// the cache of another processor, while its last value leaves room.
func (p *Producer) HasRoom() (bool, error) {
	if p.next-p.head < p.count {
		return true, nil
	}
	room, err := p.Room()
	return room > 0, err
}

// Slot returns the memory of the next entry, or nil if the ring is full. The caller writes all bytes of the
// entry and then calls Advance. The error is ErrRing.
func (p *Producer) Slot() ([]byte, error) {
	if ok, err := p.HasRoom(); !ok {
		return nil, err
	}
	at := uint64(p.next&(p.count-1)) * uint64(p.size)
	return p.entries[at : at+uint64(p.size)], nil
}

// Advance adds the entry that was written to the Slot. Publish makes it visible.
func (p *Producer) Advance() { p.next++ }

// Publish makes the added entries visible to the other side. It does not wake the other side.
func (p *Producer) Publish() {
	if n := p.next - p.published; n != 0 {
		p.published = p.next
		// The entries are written before the tail, so the other side sees them when it loads the tail. The
		// store is a Swap, because Claim must load the flag after it (see fences).
		p.sharedTail.Swap(p.next)
		p.put.add(uint64(n))
	}
}

// Claim returns what the caller must pass to Wake: nonzero if the other side sleeps or is about to, and no other
// goroutine has claimed it. It costs one load if the other side is awake.
func (p *Producer) Claim() Wakeup { return p.bell.claimSleeper() }

// Wake wakes the other side as Claim has returned; it does nothing if w is 0. It has no effect if the other side
// is gone or has too many unread tokens. It may be called when the memory is no longer mapped.
func (p *Producer) Wake(w Wakeup) { p.bell.wake(w) }

// Ring wakes the other side if it sleeps and no other goroutine wakes it: Claim and Wake in one call.
func (p *Producer) Ring() { p.Wake(p.Claim()) }

// ProducerStats are the statistics of a producer (transport 9.7).
type ProducerStats struct {
	// Put is the number of published entries. Wakeups is how often this side has woken the other side, each
	// time with a system call.
	Put, Wakeups uint64
}

// Stats returns the statistics since the ring was created. It is safe for concurrent use.
func (p *Producer) Stats() ProducerStats {
	return ProducerStats{Put: p.put.load(), Wakeups: p.bell.wakeups.load()}
}

// SubmissionProducer is a client's side of the submission ring.
type SubmissionProducer struct {
	Producer
	posted posted
}

// Published returns the position after the last published submission. The caller must hold the lock that
// guards Slot, Advance and Publish.
func (p *SubmissionProducer) Published() uint32 { return p.published }

// Posted reports whether lnetd has carried out all submissions before position. It is safe for concurrent
// use.
func (p *SubmissionProducer) Posted(position uint32) bool { return p.posted.reached(position) }

// PrepareWait announces that this goroutine is going to call WaitPosted. Between the two calls, the caller
// must check Posted and its other conditions. Only one goroutine at a time may be between the calls or in
// WaitPosted.
func (p *SubmissionProducer) PrepareWait() { p.posted.prepareSleep() }

// WaitPosted blocks a thread until lnetd has carried out more submissions, until WakePosted is called, or
// until d has passed. It returns immediately if one of these happened after PrepareWait. It may return early.
func (p *SubmissionProducer) WaitPosted(d time.Duration) { p.posted.sleep(d) }

// ClaimAnyway is like Claim, but its result also makes an awake lnetd check the client's counters once more.
func (p *SubmissionProducer) ClaimAnyway() Wakeup { return p.bell.claimAnyway() }

// WakePosted ends a WaitPosted that is in progress or that PrepareWait has announced. It is safe for
// concurrent use.
func (p *SubmissionProducer) WakePosted() {
	p.posted.waiting.Store(0)
	p.posted.wake()
}
