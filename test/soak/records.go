package soak

import (
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// pageSize is the number of sequence numbers in a page. The records of messages are kept in pages. A
// page is removed when all its messages have ended, so that a long run needs no more memory than a short
// one.
const pageSize = 1 << 14

// bitmap has a bit for each sequence number of a page.
type bitmap [pageSize / 64]uint64

func (b *bitmap) has(k uint64) bool { return b[k/64]>>(k%64)&1 != 0 }
func (b *bitmap) set(k uint64)      { b[k/64] |= 1 << (k % 64) }

// sentRecord records which messages the sender has started, how many of them have ended, and which were
// acknowledged. It is safe for concurrent use.
type sentRecord struct {
	mu    sync.Mutex // guards the rest
	next  uint64
	pages map[uint64]*sentPage
}

// sentPage is a page of a sentRecord.
type sentPage struct {
	ended int
	acked bitmap
}

func newSentRecord() *sentRecord { return &sentRecord{pages: make(map[uint64]*sentPage)} }

// begin records the start of a message and returns its sequence number.
func (a *sentRecord) begin() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq := a.next
	a.next++
	if seq%pageSize == 0 {
		a.pages[seq/pageSize] = new(sentPage)
	}
	return seq
}

// end records the end of a message. When all messages of its page have ended, it removes the page and
// returns the acknowledged messages of the page. Otherwise it returns nil.
func (a *sentRecord) end(seq uint64, acked bool) (settled *bitmap) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pages[seq/pageSize]
	p.ended++
	if acked {
		p.acked.set(seq % pageSize)
	}
	if p.ended < pageSize {
		return nil
	}
	delete(a.pages, seq/pageSize)
	return &p.acked
}

// remaining returns the acknowledged messages of the pages that were not removed, by page, and the
// number of messages started so far.
func (a *sentRecord) remaining() (acked map[uint64]*bitmap, begun uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	acked = make(map[uint64]*bitmap)
	for k, p := range a.pages {
		acked[k] = &p.acked
	}
	return acked, a.next
}

// arrivedRecord records which messages have arrived at the receiver. It is safe for concurrent use.
type arrivedRecord struct {
	mu    sync.Mutex // guards the rest
	pages map[uint64]*arrivedPage
	// Pages below low, and the pages in removed, were removed.
	low     uint64
	removed map[uint64]bool
}

// arrivedPage is a page of an arrivedRecord.
type arrivedPage struct {
	seen    bitmap    // messages that had an event
	whole   bitmap    // messages that arrived with their complete payload
	settled time.Time // when all messages of the page had ended at the sender; zero: not yet
}

// pageRetention is how long a page is kept after all its messages have ended at the sender. PUTs without
// ACK may still be in transit then.
const pageRetention = 30 * time.Second

func newArrivedRecord() *arrivedRecord {
	return &arrivedRecord{pages: make(map[uint64]*arrivedPage), removed: make(map[uint64]bool)}
}

// page returns a page, which it creates if necessary. It returns nil if the page was removed. r.mu is
// held.
func (r *arrivedRecord) page(k uint64) *arrivedPage {
	if k < r.low || r.removed[k] {
		return nil
	}
	p := r.pages[k]
	if p == nil {
		p = new(arrivedPage)
		r.pages[k] = p
	}
	return p
}

// arrived records that a message has arrived. whole is set if its payload is complete. It returns an
// error if the message has arrived before.
func (r *arrivedRecord) arrived(seq uint64, whole bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.page(seq / pageSize)
	if p == nil {
		return fmt.Errorf("message %d came more than %v after its neighbours had ended", seq, pageRetention)
	}
	k := seq % pageSize
	if p.seen.has(k) {
		return fmt.Errorf("message %d came twice (whole before: %v, now: %v)", seq, p.whole.has(k), whole)
	}
	p.seen.set(k)
	if whole {
		p.whole.set(k)
	}
	return nil
}

// compare compares page k with the messages that were acknowledged to the sender. It returns the number
// of acknowledged messages, and the sequence numbers of those that have not arrived with their complete
// payload.
func (r *arrivedRecord) compare(k uint64, acked *bitmap, now time.Time) (n int, lost []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.page(k)
	if p == nil || !p.settled.IsZero() {
		return 0, []uint64{k * pageSize} // a page must be compared only once: a bug in this program
	}
	for i, word := range acked {
		n += bits.OnesCount64(word)
		for missing := word &^ p.whole[i]; missing != 0; missing &= missing - 1 {
			lost = append(lost, k*pageSize+uint64(i*64+bits.TrailingZeros64(missing)))
		}
	}
	p.settled = now
	r.removeOld(now)
	return n, lost
}

// removeOld removes the pages that were compared more than pageRetention ago. r.mu is held.
func (r *arrivedRecord) removeOld(now time.Time) {
	for k, p := range r.pages {
		if !p.settled.IsZero() && now.Sub(p.settled) > pageRetention {
			delete(r.pages, k)
			r.removed[k] = true
		}
	}
	for r.removed[r.low] {
		delete(r.removed, r.low)
		r.low++
	}
}
