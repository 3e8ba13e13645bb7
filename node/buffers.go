package node

import (
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Buffers are the sizes of a router's pools (lnet-core 7.5); 0: the default. More
// than BuffersMax count as that.
type Buffers struct {
	// Tiny buffers hold no payload, small ones a page, large ones 1 MiB.
	Tiny, Small, Large int
}

const pageSize = 4096

// BuffersMax is the largest number of buffers in a pool.
const BuffersMax = 1 << 20

// pools of a router, and what is known of each.
const (
	tinyPool = iota
	smallPool
	largePool
	poolKinds
)

var poolSizes = [poolKinds]struct{ pages, buffers, least int }{
	tinyPool:  {0, 2048, 512},
	smallPool: {1, 16384, 4096},
	largePool: {lnet.MTU / pageSize, 1024, 256},
}

// Resolved are the sizes with the defaults in place of 0.
func (b Buffers) Resolved() Buffers {
	sizes := b.numbers()
	return Buffers{Tiny: sizes[tinyPool], Small: sizes[smallPool], Large: sizes[largePool]}
}

// numbers are the sizes by pool, defaults resolved.
func (b Buffers) numbers() [poolKinds]int {
	sizes := [poolKinds]int{b.Tiny, b.Small, b.Large}
	for k := range sizes {
		if sizes[k] = min(sizes[k], BuffersMax); sizes[k] == 0 {
			sizes[k] = poolSizes[k].buffers
		}
	}
	return sizes
}

// buffer is where a message lies that is forwarded.
type buffer struct {
	pool  *pool
	bytes []byte
	next  *buffer
}

// pool is a router's buffers of one size. Memory is taken when it is first
// needed, and kept; a message waits when all buffers are in use.
type pool struct {
	pages     int
	credits   credits
	available atomic.Int64

	mu    sync.Mutex // guards free, made and limit
	free  *buffer
	made  int // buffers that there are, in use or free
	limit int // of them that are kept
}

func (p *pool) init(pages int) {
	p.pages = pages
	p.credits.init(&p.available, 0)
}

// get returns a buffer for a holder of a credit.
func (p *pool) get() *buffer {
	p.mu.Lock()
	b := p.free
	if b != nil {
		p.free, b.next = b.next, nil
		p.mu.Unlock()
		return b
	}
	p.made++
	p.mu.Unlock()
	return &buffer{pool: p, bytes: make([]byte, p.pages*pageSize)}
}

// put takes a buffer back, or drops it if there are too many.
func (p *pool) put(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made > p.limit {
		p.made--
		return
	}
	b.next, p.free = p.free, b
}

// resize sets the number of buffers, and returns the messages that go on.
func (p *pool) resize(limit int) messageQueue {
	p.mu.Lock()
	p.limit = limit
	for p.made > limit && p.free != nil {
		p.free = p.free.next
		p.made--
	}
	p.mu.Unlock()
	return p.credits.resize(limit)
}

// idle says that no buffer is in use.
func (p *pool) idle() bool { return p.available.Load() == p.credits.limit.Load() }
