package shm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrRing means that the other side's counters are invalid: it has written more entries than the ring
// holds, or read more than were written. The ring cannot be used any more. The error matches EPROTO.
var ErrRing = fmt.Errorf("shm: the other side's counter is impossible: %w", syscall.EPROTO)

// ErrGone means that the other side has abandoned the ring. The error matches ESHUTDOWN.
var ErrGone = fmt.Errorf("shm: the other side is gone: %w", syscall.ESHUTDOWN)

// ErrShut means that this side has shut its end of the ring.
var ErrShut = errors.New("shm: the ring is shut")

// Producer is the side of a ring that adds entries. One goroutine at a time may call Room, Put and Publish;
// the caller ensures this, usually with the lock of its credits. Claim and Wake are safe for concurrent
// use. They are separate so that Wake, a system call, can be made without that lock:
//
//	lock; Room; Put, ...; Publish; wake := Claim; unlock; if wake { Wake }
//
// Only Wake makes system calls, no method blocks, and only errors are allocated.
type Producer struct {
	entries []byte // of the ring, in shared memory
	size    uint32 // of an entry
	count   uint32 // number of entries, a power of two

	// next counts entries written, published those visible to the other side. Both are private; sharedTail
	// is a copy of published that is never read back.
	next, published uint32
	sharedTail      *atomic.Uint32
	// head is the last value loaded from sharedHead, the other side's counter.
	head       uint32
	sharedHead *atomic.Uint32

	bell waker
	put  counter
}

// init initializes p for an empty ring, beginning at the ring's current counter.
func (p *Producer) init(b []byte, r ring) {
	p.entries, p.size, p.count = b[r.begin:r.end], r.size, r.count
	p.sharedTail, p.sharedHead = word(b, r.tail), word(b, r.head)
	p.next = p.sharedTail.Load()
	p.published, p.head = p.next, p.next
}

// Room returns the number of entries that can be added. It returns ErrRing if the other side's counter is
// invalid.
func (p *Producer) Room() (int, error) {
	// This load precedes the writes that the caller bases on it. The other side has copied the entries
	// before its counter.
	head := p.sharedHead.Load()
	if head-p.head > p.published-p.head {
		return 0, fmt.Errorf("%w: it has taken %d entries of %d", ErrRing, int32(head-p.head), p.published-p.head)
	}
	p.head = head
	return int(p.count - (p.next - head)), nil
}

// slot returns the place of the next entry, or nil if the ring is full. The caller fills it and calls
// filled.
func (p *Producer) slot() ([]byte, error) {
	if p.next-p.head == p.count {
		if room, err := p.Room(); room == 0 {
			return nil, err
		}
	}
	at := uint64(p.next&(p.count-1)) * uint64(p.size)
	return p.entries[at : at+uint64(p.size)], nil
}

func (p *Producer) advance() { p.next++ }

// Publish makes the added entries visible to the other side. It does not wake the other side.
func (p *Producer) Publish() {
	if n := p.next - p.published; n != 0 {
		p.published = p.next
		// The entries are written before the tail, so a side that loads the tail sees them. Claim loads the
		// flag after this store, which therefore is a Swap (see fences).
		p.sharedTail.Swap(p.next)
		p.put.add(uint64(n))
	}
}

// Claim reports whether the caller must call Wake: the other side sleeps or is about to, and no other
// goroutine has claimed it. It costs one load if the other side is awake.
func (p *Producer) Claim() bool { return p.bell.claimSleeper() }

// Wake wakes the other side, after Claim. It has no effect if a client is gone or has too many unread
// tokens.
func (p *Producer) Wake() { p.bell.sendToken() }

// Ring wakes the other side if it sleeps.
func (p *Producer) Ring() {
	if p.Claim() {
		p.Wake()
	}
}

// ProducerStats are the statistics of a producer (transport 9.7).
type ProducerStats struct {
	// Put counts published entries, Wakeups the wake-ups of the other side, each a system call.
	Put, Wakeups uint64
}

// Stats returns the statistics since the ring was created. It is safe for concurrent use.
func (p *Producer) Stats() ProducerStats {
	return ProducerStats{Put: p.put.load(), Wakeups: p.bell.wakeups.load()}
}

// SubmissionProducer is a client's side of the submissions.
type SubmissionProducer struct {
	Producer
	posted posted
}

// Published returns the position after the last published submission. The caller must hold the lock that
// guards Put and Publish.
func (p *SubmissionProducer) Published() uint32 { return p.published }

// Posted reports whether lnetd has carried out all submissions before a position. It is safe for concurrent
// use.
func (p *SubmissionProducer) Posted(position uint32) bool { return p.posted.reached(position) }

// PrepareWait must be called before WaitPosted. Between the two, the caller checks Posted and its other
// conditions. Only one goroutine at a time may call them.
func (p *SubmissionProducer) PrepareWait() { p.posted.prepareSleep() }

// WaitPosted blocks a thread until lnetd has carried out more submissions, WakePosted is called, or d has
// passed. It returns at once if one of these happened after PrepareWait, and may return early.
func (p *SubmissionProducer) WaitPosted(d time.Duration) { p.posted.sleep(d) }

// WakePosted ends a current or prepared WaitPosted. It is safe for concurrent use.
func (p *SubmissionProducer) WakePosted() {
	p.posted.waiting.Store(0)
	p.posted.wake()
}

// Put encodes s into the next free place. Publish makes it visible. Put returns false if the ring is full.
func (p *SubmissionProducer) Put(s *Submission) (bool, error) {
	b, err := p.slot()
	if b == nil {
		return false, err
	}
	s.Put((*[SubmissionSize]byte)(b))
	p.advance()
	return true, nil
}

// CompletionProducer is lnetd's side of the completions.
type CompletionProducer struct{ Producer }

// Put encodes c into the next free place. Publish makes it visible. Put returns false if the ring is full.
func (p *CompletionProducer) Put(c *Completion) (bool, error) {
	b, err := p.slot()
	if b == nil {
		return false, err
	}
	c.Put((*[CompletionSize]byte)(b))
	p.advance()
	return true, nil
}
