package selftest

import (
	"maps"
	"math/bits"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/ring"
)

// memory is the bulk buffers of all units, or of all test services: no more
// than a limit, kept for the next user. Whoever finds none waits in a queue,
// not in a goroutine.
//
// In fair memory a peer that has some gets more only up to what was free for all
// others, and those that wait take turns, so that one that takes all it can get and
// gives nothing back, as one that has died, does not stop the rest. Otherwise all
// that wait are in one queue, whomever it is for.
type memory struct {
	limit int
	fair  bool
	spawn func(func())

	mu      sync.Mutex // guards the rest, and what is in it
	used    int        // bytes handed out
	kept    int        // bytes in free
	free    [classes][][]byte
	claims  map[lnet.NID]*claim
	waiting ring.Ring[claim] // those that want; it is the first one's turn
	blocked bool             // there is not enough for that
}

// claim is what a peer has and wants; memory.mu guards it.
type claim struct {
	held  int // bytes
	wants ring.Ring[memoryWaiter]
	links ring.Links[claim] // in memory.waiting
}

// maxClaims is how many peers may be known before those that have and want
// nothing are forgotten.
const maxClaims = 1024

// Buffers are of 4096 bytes times a power of two, up to 1 MiB.
const (
	classBits = 12
	classes   = 9 // the last is 1 MiB
)

// memoryWaiter is a place in the queue; it belongs to one user.
type memoryWaiter struct {
	links  ring.Links[memoryWaiter] // in claim.wants
	claim  *claim                   // since take
	length int
	// granted is given the buffer, in a goroutine of its own.
	granted func(b []byte)
}

func newMemory(limit int, spawn func(func())) *memory {
	return &memory{limit: limit, spawn: spawn, claims: map[lnet.NID]*claim{}}
}

// class is that of a buffer for n bytes, 1 to 1 MiB.
func class(n int) int { return max(bits.Len(uint(n-1))-classBits, 0) }

// size is what a buffer for n bytes takes.
func size(n int) int { return 1 << (classBits + class(n)) }

// take returns a buffer of n bytes with anything in it, for a peer. If there is
// none it returns nil, and w.granted will be called, unless w is forgotten
// before.
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

// claimOf is the claim of a peer. m.mu is held.
func (m *memory) claimOf(peer lnet.NID) *claim {
	if !m.fair {
		peer = lnet.NID{} // all are one
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

// forgetPeers gives up claims of which nothing is left. m.mu is held.
func (m *memory) forgetPeers() {
	maps.DeleteFunc(m.claims, func(_ lnet.NID, c *claim) bool { return c.held == 0 && c.wants.Len() == 0 })
}

// allows tells whether a claim may grow by a buffer for n bytes, if there is one.
// Whoever has nothing always may: the least limit is one buffer.
func (m *memory) allows(c *claim, n int) bool {
	return !m.fair || c.held == 0 || c.held+size(n) <= m.limit-m.used
}

// forget takes w out of the queue; false if it is not there, or not any more.
func (m *memory) forget(w *memoryWaiter) bool {
	m.mu.Lock()
	if !w.links.In() {
		m.mu.Unlock()
		return false
	}
	m.remove(w)
	m.serve() // a smaller one may have waited behind it; unlocks
	return true
}

// remove takes w out of its claim, and that out of those that wait if it wants
// nothing more.
func (m *memory) remove(w *memoryWaiter) {
	c := w.claim
	c.wants.Remove(&w.links)
	if c.wants.Len() == 0 {
		m.waiting.Remove(&c.links)
	}
}

// put takes back the buffer that w was given.
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

// lose says that w's buffer will not come back: the node may still write to it.
func (m *memory) lose(w *memoryWaiter, b []byte) {
	m.mu.Lock()
	m.used -= cap(b)
	w.claim.held -= cap(b)
	m.serve()
}

// serve grants what can be granted, one peer after the other. It is called with
// m.mu held, and returns without it.
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

// find returns a buffer if the limit allows. m.mu is held.
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

// trim gives up all kept buffers. m.mu is held.
func (m *memory) trim() {
	m.free = [classes][][]byte{}
	m.kept = 0
}

// rest gives kept buffers back to the system, if none is in use.
func (m *memory) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used == 0 {
		m.trim()
		m.forgetPeers()
	}
}

// The largest bulk has the last class.
var _ = [1]struct{}{}[message.MaxBulk>>(classBits+classes-1)-1]
