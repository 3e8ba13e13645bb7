package shm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrRing says that the other side's counters cannot be: it puts in more than the ring
// holds, or takes out more than was put there. The ring is of no use any more. It is
// EPROTO.
var ErrRing = fmt.Errorf("shm: the other side's counter is impossible: %w", syscall.EPROTO)

// ErrGone says that the other side has given the ring up. It is ESHUTDOWN.
var ErrGone = fmt.Errorf("shm: the other side is gone: %w", syscall.ESHUTDOWN)

// ErrShut says that this side has shut its end of the ring.
var ErrShut = errors.New("shm: the ring is shut")

// Producer is the half that puts entries into a ring. One goroutine at a time calls Room,
// Put and Publish, which is for the caller to see to: he has a lock for his credits
// anyway. Claim and Wake, which any goroutine may call, are apart from them so that Wake,
// a system call, can be made without that lock:
//
//	lock; Room; Put, ...; Publish; wake := Claim; unlock; if wake { Wake }
//
// Nothing but Wake makes system calls, nothing blocks, and nothing allocates but errors.
type Producer struct {
	entries []byte // of the ring, in shared memory
	size    uint32 // of an entry
	count   uint32 // of entries, a power of two

	// next counts what was put there, published what the other side knows of. They are
	// private: sharedTail is a copy of published that is never read back.
	next, published uint32
	sharedTail      *atomic.Uint32
	// head is sharedHead, the other side's, as it was when last looked at.
	head       uint32
	sharedHead *atomic.Uint32

	bell ringer
	put  counter
}

// lay makes the producer of an empty ring, which goes on where its counter stands.
func (p *Producer) lay(b []byte, r ring) {
	p.entries, p.size, p.count = b[r.begin:r.end], r.size, r.count
	p.sharedTail, p.sharedHead = word(b, r.tail), word(b, r.head)
	p.next = p.sharedTail.Load()
	p.published, p.head = p.next, p.next
}

// Room is how many entries can be put there: as the other side says, which is ErrRing if
// it cannot be.
func (p *Producer) Room() (int, error) {
	// This load is before what the caller learned by it: the other side has copied the
	// entries that its counter leaves behind.
	head := p.sharedHead.Load()
	if head-p.head > p.published-p.head {
		return 0, fmt.Errorf("%w: it has taken %d entries of %d", ErrRing, int32(head-p.head), p.published-p.head)
	}
	p.head = head
	return int(p.count - (p.next - head)), nil
}

// slot is the place of the next entry, or nil if there is no room. The caller fills it
// and calls filled.
func (p *Producer) slot() ([]byte, error) {
	if p.next-p.head == p.count {
		if room, err := p.Room(); room == 0 {
			return nil, err
		}
	}
	at := uint64(p.next&(p.count-1)) * uint64(p.size)
	return p.entries[at : at+uint64(p.size)], nil
}

func (p *Producer) filled() { p.next++ }

// Publish lets the other side see what was put there, and does not wake it.
func (p *Producer) Publish() {
	if n := p.next - p.published; n != 0 {
		p.published = p.next
		// The entries are written before the tail, and the side that loads the tail sees
		// them. Claim loads the flag behind it, so this is a Swap (see fences).
		p.sharedTail.Swap(p.next)
		p.put.add(uint64(n))
	}
}

// Claim tells whether the caller has to call Wake: the other side sleeps, or is about to,
// and nobody else has claimed it. If it is up it costs a load.
func (p *Producer) Claim() bool { return p.bell.claim() }

// Wake wakes the other side, after Claim. A client that is not there, or lets tokens pile
// up, is not told.
func (p *Producer) Wake() { p.bell.wake() }

// Ring wakes the other side if it sleeps.
func (p *Producer) Ring() {
	if p.Claim() {
		p.Wake()
	}
}

// ProducerStats are the figures of transport 9.7 of a producer.
type ProducerStats struct {
	// Put counts published entries, Rung how often the other side had to be woken, by a
	// system call each.
	Put, Rung uint64
}

// Stats are the figures since the ring was made. Any goroutine may call it.
func (p *Producer) Stats() ProducerStats {
	return ProducerStats{Put: p.put.load(), Rung: p.bell.rung.load()}
}

// SubmissionProducer is a client's half of the submissions.
type SubmissionProducer struct {
	Producer
	posted posted
}

// Published returns the position behind the last submission that was published. The caller
// must hold what guards Put and Publish.
func (p *SubmissionProducer) Published() uint32 { return p.published }

// Posted reports whether lnetd has carried out all submissions in front of a position. Any
// goroutine may call it.
func (p *SubmissionProducer) Posted(position uint32) bool { return p.posted.reached(position) }

// PrepareWait announces WaitPosted: the caller checks Posted, and whatever else ends its wait,
// between the two. One goroutine at a time calls them.
func (p *SubmissionProducer) PrepareWait() { p.posted.prepare() }

// WaitPosted blocks a thread until lnetd has carried out more submissions, until WakePosted, or
// for d at most. It returns at once if either came after PrepareWait, and may return early for
// no reason.
func (p *SubmissionProducer) WaitPosted(d time.Duration) { p.posted.sleep(d) }

// WakePosted ends the WaitPosted that is under way, or prepared. Any goroutine may call it.
func (p *SubmissionProducer) WakePosted() {
	p.posted.waiting.Store(0)
	p.posted.wake()
}

// Put writes s to the next free place, for Publish to hand over. It reports false if there
// is none.
func (p *SubmissionProducer) Put(s *Submission) (bool, error) {
	b, err := p.slot()
	if b == nil {
		return false, err
	}
	s.Put((*[SubmissionSize]byte)(b))
	p.filled()
	return true, nil
}

// CompletionProducer is lnetd's half of the completions.
type CompletionProducer struct{ Producer }

// Put writes c to the next free place, for Publish to hand over. It reports false if there
// is none.
func (p *CompletionProducer) Put(c *Completion) (bool, error) {
	b, err := p.slot()
	if b == nil {
		return false, err
	}
	c.Put((*[CompletionSize]byte)(b))
	p.filled()
	return true, nil
}
