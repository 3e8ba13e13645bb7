package protocol

import (
	"fmt"
	"math/bits"

	"github.com/lnetd/lnetd/lnet"
)

const (
	// MinBuffer is the size of the smallest buffer in bytes.
	MinBuffer = 4 << 10
	// MaxBuffer is the size of the largest buffer in bytes. It holds the largest payload.
	MaxBuffer = lnet.MTU
	// MaxArea is the size of the largest area, in bytes.
	MaxArea = 1 << 30

	orders = 9 // of buffers: MinBuffer << order
)

// Buffers allocates the memory of one half of an area. A buffer has a size of MinBuffer, twice as much, and so
// on up to MaxBuffer, and begins at a multiple of its size. If two neighbours of the same size are free and
// begin at a multiple of twice their size, they become one buffer of that size.
type Buffers struct {
	base uint64 // offset of the half in the area
	size int
	sum  int // bytes of the buffers that are free
	// free[k] has a bit for each possible buffer of MinBuffer << k: whether it is free as a whole.
	free [orders]bitmap
}

// halves reports whether an area can have n bytes.
func halves(n uint64) bool { return n >= 2*MaxBuffer && n%(2*MaxBuffer) == 0 && n <= MaxArea }

// NewBuffers returns an allocator of size bytes that begin at the offset base of the area. It panics unless
// size is a positive multiple of MaxBuffer.
func NewBuffers(base uint64, size int) *Buffers {
	if size <= 0 || size%MaxBuffer != 0 {
		panic(fmt.Sprintf("%d bytes are not a positive multiple of %d", size, MaxBuffer))
	}
	b := &Buffers{base: base, size: size, sum: size}
	for k := range b.free {
		b.free[k] = newBitmap(size / (MinBuffer << k))
	}
	for i := range size / MaxBuffer {
		b.free[orders-1].set(i)
	}
	return b
}

// order returns the order of the smallest buffers for n bytes, 1 to MaxBuffer.
func order(n int) int { return bits.Len(uint((n - 1) / MinBuffer)) }

// BufferSize returns the size of the buffers for n bytes, 1 to MaxBuffer.
func BufferSize(n int) int { return MinBuffer << order(n) }

// Free returns how many bytes are free, perhaps in pieces.
func (b *Buffers) Free() int { return b.sum }

// Get allocates a buffer for n bytes, 1 to MaxBuffer, and returns its offset in the area. It returns false if
// no memory is free.
func (b *Buffers) Get(n int) (offset uint64, ok bool) {
	want := order(n)
	for k := want; k < orders; k++ {
		i := b.free[k].first()
		if i < 0 {
			continue
		}
		b.free[k].clear(i)
		for ; k > want; k-- { // keep the first half
			i *= 2
			b.free[k-1].set(i + 1)
		}
		b.sum -= MinBuffer << want
		return b.base + uint64(i*(MinBuffer<<want)), true
	}
	return 0, false
}

// Put frees a buffer for n bytes that Get has returned.
func (b *Buffers) Put(offset uint64, n int) {
	k := order(n)
	i := int(offset-b.base) / (MinBuffer << k)
	b.sum += MinBuffer << k
	for ; k < orders-1 && b.free[k].has(i^1); k++ {
		b.free[k].clear(i ^ 1)
		i /= 2
	}
	b.free[k].set(i)
}

// Contains reports whether n bytes at an offset of the area are in this half.
func (b *Buffers) Contains(offset uint64, n uint32) bool {
	return offset >= b.base && offset <= b.base+uint64(b.size) && uint64(n) <= b.base+uint64(b.size)-offset
}

// bitmap is a set of small numbers.
type bitmap struct {
	words []uint64
	n     int // how many are in the set
}

func newBitmap(size int) bitmap { return bitmap{words: make([]uint64, (size+63)/64)} }

func (m *bitmap) has(i int) bool { return m.words[i/64]&(1<<(i%64)) != 0 }
func (m *bitmap) set(i int)      { m.words[i/64] |= 1 << (i % 64); m.n++ }
func (m *bitmap) clear(i int)    { m.words[i/64] &^= 1 << (i % 64); m.n-- }

// first returns the smallest number in the set, or -1.
func (m *bitmap) first() int {
	if m.n == 0 {
		return -1
	}
	for k, w := range m.words {
		if w != 0 {
			return 64*k + bits.TrailingZeros64(w)
		}
	}
	return -1
}
