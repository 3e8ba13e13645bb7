package node

import (
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Buffers holds the number of buffers in each pool of a router (lnet-core 7.5). Zero means
// the default of that pool. Numbers above BuffersMax are reduced to it.
type Buffers struct {
	// Tiny buffers hold no payload, Small ones one page, Large ones 1 MiB.
	Tiny, Small, Large int
}

const pageSize = 4096

// BuffersMax is the largest number of buffers in a pool.
const BuffersMax = 1 << 20

// Indexes of a router's pools.
const (
	tinyPool = iota
	smallPool
	largePool
	poolKinds
)

// poolSizes holds the pages of a buffer, the default number of buffers, and the number of
// buffers below which SetBuffers logs a warning, for each pool.
var poolSizes = [poolKinds]struct{ pages, buffers, least int }{
	tinyPool:  {0, 2048, 512},
	smallPool: {1, 16384, 4096},
	largePool: {lnet.MTU / pageSize, 1024, 256},
}

// Resolved returns the numbers that take effect: b with defaults in place of zeros, and no
// number above BuffersMax.
func (b Buffers) Resolved() Buffers {
	sizes := b.numbers()
	return Buffers{Tiny: sizes[tinyPool], Small: sizes[smallPool], Large: sizes[largePool]}
}

// numbers returns the numbers of Resolved, indexed by pool.
func (b Buffers) numbers() [poolKinds]int {
	sizes := [poolKinds]int{b.Tiny, b.Small, b.Large}
	for k := range sizes {
		if sizes[k] = min(sizes[k], BuffersMax); sizes[k] == 0 {
			sizes[k] = poolSizes[k].buffers
		}
	}
	return sizes
}

// buffer holds the payload of a message that is being forwarded.
type buffer struct {
	pool  *pool
	bytes []byte
	next  *buffer
}

// pool holds a router's buffers of one size. Memory is allocated when a buffer is first
// needed, and kept for later messages. A message waits while all buffers are in use.
type pool struct {
	pages     int
	credits   credits
	available atomic.Int64

	mu        sync.Mutex // guards free, allocated and limit
	free      *buffer
	allocated int // number of existing buffers, in use or free
	limit     int // number of buffers to keep
}

func (p *pool) init(pages int) {
	p.pages = pages
	p.credits.init(&p.available, 0)
}

// get returns a buffer for a message that holds a credit of the pool.
func (p *pool) get() *buffer {
	p.mu.Lock()
	b := p.free
	if b != nil {
		p.free, b.next = b.next, nil
		p.mu.Unlock()
		return b
	}
	p.allocated++
	p.mu.Unlock()
	return &buffer{pool: p, bytes: make([]byte, p.pages*pageSize)}
}

// put returns b to the pool. If the pool has more buffers than its limit, put drops b
// instead.
func (p *pool) put(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.allocated > p.limit {
		p.allocated--
		return
	}
	b.next, p.free = p.free, b
}

// resize sets the number of buffers and drops surplus ones that are free. It returns the
// messages that waited for a buffer and now hold a credit for one; the caller must resume
// them.
func (p *pool) resize(limit int) messageQueue {
	p.mu.Lock()
	p.limit = limit
	for p.allocated > limit && p.free != nil {
		p.free = p.free.next
		p.allocated--
	}
	p.mu.Unlock()
	return p.credits.resize(limit)
}

// idle reports whether no buffer of the pool is in use.
func (p *pool) idle() bool { return p.available.Load() == int64(p.credits.limit.Load()) }
