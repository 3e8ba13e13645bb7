package o2iblnd

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// An arena is registered memory that is allocated in blocks of 4 KiB to 1 MiB. Each block is contiguous and
// lies in one registration. The arena grows by slabs, which it keeps until it is closed. It is a buddy
// allocator: it splits a block into two halves (buddies), and merges them when both are free, so that small
// blocks do not use up the space for large ones.
const (
	pageSize  = 4096
	orders    = 9 // 4 KiB << 8 = 1 MiB
	slabPages = 4 << (orders - 1)
	none      = -1 // no page
)

type arena struct {
	dev    verbs.Device
	access verbs.Access
	huge   bool

	growing sync.Mutex // acquired before mu

	mu     sync.Mutex // guards the fields below
	slabs  []verbs.Memory
	free   [orders]int32 // first free block of each order, or none; next and prev link the others
	next   []int32       // indexed by page
	prev   []int32
	order  []int8 // indexed by page: the order of the free block that begins there, or none
	used   int    // bytes in allocated blocks
	closed bool
}

// block is an allocated block of an arena. The zero value is not a block (ok returns false).
type block struct {
	mem   verbs.Memory
	page  int32
	order int8
}

func newArena(dev verbs.Device, access verbs.Access, huge bool) *arena {
	a := &arena{dev: dev, access: access, huge: huge}
	for k := range a.free {
		a.free[k] = none
	}
	return a
}

func (b *block) ok() bool { return b.mem != nil }

func (b *block) offset() int { return int(b.page) % slabPages * pageSize }

// bytes returns the memory of the whole block.
func (b *block) bytes() []byte {
	at := b.offset()
	end := at + pageSize<<b.order
	return b.mem.Bytes()[at:end:end]
}

func (b *block) addr() uint64 { return b.mem.Addr() + uint64(b.offset()) }
func (b *block) size() int    { return pageSize << b.order }

func orderOf(n int) int { return bits.Len(uint(max(n-1, 0)) / pageSize) }

// alloc allocates a block of at least n bytes.
func (a *arena) alloc(n int) (block, error) {
	if n > lnet.MTU {
		return block{}, fmt.Errorf("allocate %d bytes: more than the %d bytes of a message", n, lnet.MTU)
	}
	order := orderOf(n)
	for {
		b, slabs, err := a.find(order)
		if b.ok() || err != nil {
			return b, err
		}
		if err := a.grow(slabs); err != nil {
			return block{}, err
		}
	}
}

// find allocates a block of order want from the existing slabs. If they have no room, it returns the zero block
// and the number of slabs, which grow needs.
func (a *arena) find(want int) (b block, slabs int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return block{}, 0, verbs.ErrClosed
	}
	for k := want; k < orders; k++ {
		page := a.free[k]
		if page == none {
			continue
		}
		a.unlink(page)
		for ; k > want; k-- {
			a.link(page+1<<(k-1), k-1)
		}
		a.used += pageSize << want
		return block{mem: a.slabs[page/slabPages], page: page, order: int8(want)}, 0, nil
	}
	return block{}, len(a.slabs), nil
}

// grow adds a slab, unless the arena already has more than the given number of slabs because another goroutine
// has added one. While the device pins the new memory, other goroutines can allocate from the existing slabs.
func (a *arena) grow(slabs int) error {
	a.growing.Lock()
	defer a.growing.Unlock()
	a.mu.Lock()
	more := len(a.slabs) > slabs
	a.mu.Unlock()
	if more {
		return nil
	}
	mem, err := a.dev.Alloc(slabPages*pageSize, a.huge, a.access)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	first := int32(len(a.slabs) * slabPages)
	a.slabs = append(a.slabs, mem)
	for range slabPages {
		a.next, a.prev, a.order = append(a.next, none), append(a.prev, none), append(a.order, none)
	}
	for k := range int32(slabPages >> (orders - 1)) {
		a.link(first+k<<(orders-1), orders-1)
	}
	return nil
}

// release frees a block.
func (a *arena) release(b block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= b.size()
	page, k := b.page, int(b.order)
	for ; k < orders-1; k++ {
		buddy := page ^ 1<<k
		if int(a.order[buddy]) != k {
			break
		}
		a.unlink(buddy)
		page = min(page, buddy)
	}
	a.link(page, k)
}

func (a *arena) link(page int32, k int) {
	head := a.free[k]
	a.next[page], a.prev[page], a.order[page] = head, none, int8(k)
	if head != none {
		a.prev[head] = page
	}
	a.free[k] = page
}

func (a *arena) unlink(page int32) {
	k := a.order[page]
	next, prev := a.next[page], a.prev[page]
	if prev == none {
		a.free[k] = next
	} else {
		a.next[prev] = next
	}
	if next != none {
		a.prev[next] = prev
	}
	a.order[page] = none
}

// close releases all memory. No allocation may be running. It returns an error if a block is still allocated,
// which is a bug in this package.
func (a *arena) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, mem := range a.slabs {
		_ = mem.Close() // fails if the device is gone
	}
	a.slabs = nil
	if a.used > 0 {
		return fmt.Errorf("%d bytes of registered memory were not released", a.used)
	}
	return nil
}

// size returns the number of registered bytes, and the number of bytes in allocated blocks.
func (a *arena) size() (all, used int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.slabs) * slabPages * pageSize, a.used
}
