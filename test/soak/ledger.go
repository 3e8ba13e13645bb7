package soak

import (
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// Sequence numbers are kept in pages. A page that is settled on both sides is removed, so that a
// long run needs no more memory than a short one.
const pageSize = 1 << 14

// bitmap has a bit for each sequence number of a page.
type bitmap [pageSize / 64]uint64

func (b *bitmap) has(k uint64) bool { return b[k/64]>>(k%64)&1 != 0 }
func (b *bitmap) set(k uint64)      { b[k/64] |= 1 << (k % 64) }

// account is the sender's record of messages that have begun, have ended, and were acknowledged. It
// is safe for concurrent use.
type account struct {
	mu    sync.Mutex // guards the rest
	next  uint64
	pages map[uint64]*sentPage
}

// sentPage is a page of the account.
type sentPage struct {
	ended int
	acked bitmap
}

func newAccount() *account { return &account{pages: make(map[uint64]*sentPage)} }

// begin returns the next sequence number.
func (a *account) begin() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq := a.next
	a.next++
	if seq%pageSize == 0 {
		a.pages[seq/pageSize] = new(sentPage)
	}
	return seq
}

// end records the end of a message. If it was the last one of its page, end removes the page and
// returns the acknowledged messages in it.
func (a *account) end(seq uint64, acked bool) (settled *bitmap) {
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

// rest returns the acknowledged messages of the remaining pages, and the total number of messages.
func (a *account) rest() (acked map[uint64]*bitmap, begun uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	acked = make(map[uint64]*bitmap)
	for k, p := range a.pages {
		acked[k] = &p.acked
	}
	return acked, a.next
}

// register is the receiver's record of messages that have arrived. It is safe for concurrent use.
type register struct {
	mu    sync.Mutex // guards the rest
	pages map[uint64]*arrivedPage
	// Pages below low, and those in gone, have been removed.
	low  uint64
	gone map[uint64]bool
}

// arrivedPage is a page of the register.
type arrivedPage struct {
	seen    bitmap    // has had an event
	whole   bitmap    // and its complete payload
	settled time.Time // when the sender settled the page; zero: not yet
}

// A settled page stays for some time, for messages without acknowledgement that are still in
// transit.
const pageLinger = 30 * time.Second

func newRegister() *register {
	return &register{pages: make(map[uint64]*arrivedPage), gone: make(map[uint64]bool)}
}

// page returns a page, or nil if it was removed. r.mu is held.
func (r *register) page(k uint64) *arrivedPage {
	if k < r.low || r.gone[k] {
		return nil
	}
	p := r.pages[k]
	if p == nil {
		p = new(arrivedPage)
		r.pages[k] = p
	}
	return p
}

// arrived records the arrival of a message, complete or cut short. It returns an error if the
// message has arrived before.
func (r *register) arrived(seq uint64, whole bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.page(seq / pageSize)
	if p == nil {
		return fmt.Errorf("message %d came more than %v after its neighbours had ended", seq, pageLinger)
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

// settle compares a page with the messages that were acknowledged to the sender. It returns the
// number of acknowledged messages, and those of them that have not arrived completely.
func (r *register) settle(k uint64, acked *bitmap, now time.Time) (n int, lost []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.page(k)
	if p == nil || !p.settled.IsZero() {
		return 0, []uint64{k * pageSize} // settled twice: a bug in this program
	}
	for i, word := range acked {
		n += bits.OnesCount64(word)
		for missing := word &^ p.whole[i]; missing != 0; missing &= missing - 1 {
			lost = append(lost, k*pageSize+uint64(i*64+bits.TrailingZeros64(missing)))
		}
	}
	p.settled = now
	r.forget(now)
	return n, lost
}

// forget removes the pages that were settled long ago. r.mu is held.
func (r *register) forget(now time.Time) {
	for k, p := range r.pages {
		if !p.settled.IsZero() && now.Sub(p.settled) > pageLinger {
			delete(r.pages, k)
			r.gone[k] = true
		}
	}
	for r.gone[r.low] {
		delete(r.gone, r.low)
		r.low++
	}
}
