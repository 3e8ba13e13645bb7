package selftest

import (
	"maps"
	"math/bits"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/ring"
)

// memory manages the memory for the bulk data of all units, or of all requests being served. The total size
// is limited, and free buffers are kept for reuse. If no buffer is available, the user of memory is queued
// and called back later; no goroutine waits.
//
// If fair is set, waiting peers take turns. A peer that already holds memory gets more only if its total
// would not exceed the memory that is free. So a peer that takes all it can get and releases nothing, for
// example because it has died, does not block the others. If fair is not set, all waiters are in one queue.
type memory struct {
	limit int
	fair  bool
	spawn func(func())

	mu      sync.Mutex // guards the fields below and what they contain
	used    int        // bytes in use by peers
	kept    int        // bytes of the buffers in free
	free    [classes][][]byte
	claims  map[lnet.NID]*claim
	waiting ring.Ring[claim] // claims with waiters; the first one is served next
	blocked bool             // there is too little memory for the next waiter
}

// claim records how much memory a peer holds, and its waiters. memory.mu guards it.
type claim struct {
	held  int                     // bytes in use by the peer
	wants ring.Ring[memoryWaiter] // waiters of the peer, in the order of their requests
	links ring.Links[claim]       // links in memory.waiting
}

// maxClaims is the number of claims from which on claims without memory and waiters are deleted.
const maxClaims = 1024

// Buffer sizes are 4096 bytes times a power of two, up to 1 MiB.
const (
	classBits = 12
	classes   = 9 // the last is 1 MiB
)

// memoryWaiter is an entry in a claim's queue of waiters. It belongs to one user of memory.
type memoryWaiter struct {
	links  ring.Links[memoryWaiter] // links in claim.wants
	claim  *claim                   // set by take
	length int
	// granted is called with the buffer, in a new goroutine, if take has returned nil.
	granted func(b []byte)
}

func newMemory(limit int, spawn func(func())) *memory {
	return &memory{limit: limit, spawn: spawn, claims: map[lnet.NID]*claim{}}
}

// class returns the size class of a buffer for n bytes, 1 to 1 MiB. It is the index into memory.free.
func class(n int) int { return max(bits.Len(uint(n-1))-classBits, 0) }

// size returns the allocated size of a buffer for n bytes.
func size(n int) int { return 1 << (classBits + class(n)) }

// take returns a buffer of n bytes for a peer. Its content is undefined. If no memory is available, take
// returns nil, and w.granted is called later, unless forget(w) is called first.
func (m *memory) take(w *memoryWaiter, peer lnet.NID, n int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.claimOf(peer)
	w.claim = c
	if c.wants.Len() == 0 && !m.blocked && m.allows(c, n) {
		if b := m.find(n); b != nil {
			c.held += cap(b)
			return b
		}
		m.blocked = true
	}
	w.length = n
	if c.wants.Len() == 0 {
		m.waiting.Add(c, &c.links)
	}
	c.wants.Add(w, &w.links)
	return nil
}

// claimOf returns the claim of a peer, which it creates if needed. The caller holds m.mu.
func (m *memory) claimOf(peer lnet.NID) *claim {
	if !m.fair {
		peer = lnet.NID{} // all peers share one claim
	}
	c := m.claims[peer]
	if c == nil {
		if len(m.claims) >= maxClaims {
			m.forgetPeers()
		}
		c = new(claim)
		m.claims[peer] = c
	}
	return c
}

// forgetPeers deletes the claims without memory and without waiters. The caller holds m.mu.
func (m *memory) forgetPeers() {
	maps.DeleteFunc(m.claims, func(_ lnet.NID, c *claim) bool { return c.held == 0 && c.wants.Len() == 0 })
}

// allows reports whether fairness permits that a claim grows by a buffer for n bytes. If the peer holds
// nothing, it always does, because the limit has room for at least one buffer.
func (m *memory) allows(c *claim, n int) bool {
	return !m.fair || c.held == 0 || c.held+size(n) <= m.limit-m.used
}

// dequeue removes w from the queue, so that granted is not called. It returns false if w is not queued.
func (m *memory) dequeue(w *memoryWaiter) bool {
	m.mu.Lock()
	if !w.links.In() {
		m.mu.Unlock()
		return false
	}
	m.remove(w)
	m.serve() // unlocks m.mu; another waiter may need less memory than w
	return true
}

// remove removes w from its claim. If w was the last waiter, it also removes the claim from the waiting
// claims. The caller holds m.mu.
func (m *memory) remove(w *memoryWaiter) {
	c := w.claim
	c.wants.Remove(&w.links)
	if c.wants.Len() == 0 {
		m.waiting.Remove(&c.links)
	}
}

// put releases buffer b, which w was granted, for reuse.
func (m *memory) put(w *memoryWaiter, b []byte) {
	m.mu.Lock()
	b = b[:cap(b)]
	m.used -= len(b)
	m.kept += len(b)
	w.claim.held -= len(b)
	k := class(len(b))
	m.free[k] = append(m.free[k], b)
	m.serve()
}

// markLost records that buffer b, which w was granted, will never be released, because the node may still write
// to it.
func (m *memory) markLost(w *memoryWaiter, b []byte) {
	m.mu.Lock()
	m.used -= cap(b)
	w.claim.held -= cap(b)
	m.serve()
}

// serve grants memory to waiters, one for each peer in turn. The caller holds m.mu, and serve unlocks it.
func (m *memory) serve() {
	m.blocked = false
	for passed := 0; passed < m.waiting.Len(); {
		c := m.waiting.First()
		w := c.wants.First()
		if !m.allows(c, w.length) {
			m.waiting.Turn()
			passed++
			continue
		}
		b := m.find(w.length)
		if b == nil {
			m.blocked = true
			break
		}
		m.waiting.Turn()
		m.remove(w)
		c.held += cap(b)
		passed = 0
		m.spawn(func() { w.granted(b) })
	}
	m.mu.Unlock()
}

// find returns a free buffer for n bytes, or a new one if the limit permits, or nil. The caller holds m.mu.
func (m *memory) find(n int) []byte {
	c, size := class(n), size(n)
	if last := len(m.free[c]) - 1; last >= 0 {
		b := m.free[c][last]
		m.free[c][last] = nil
		m.free[c] = m.free[c][:last]
		m.used += size
		m.kept -= size
		return b[:n]
	}
	if m.used+size > m.limit {
		return nil
	}
	if m.used+m.kept+size > m.limit {
		m.trim()
	}
	m.used += size
	return make([]byte, n, size)
}

// trim discards all free buffers. The caller holds m.mu.
func (m *memory) trim() {
	m.free = [classes][][]byte{}
	m.kept = 0
}

// trimIdle discards all free buffers and unneeded claims if no buffer is in use, because the session has ended.
func (m *memory) trimIdle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used == 0 {
		m.trim()
		m.forgetPeers()
	}
}

// The compiler checks here that the largest bulk belongs to the last class.
var _ = [1]struct{}{}[message.MaxBulk>>(classBits+classes-1)-1]
