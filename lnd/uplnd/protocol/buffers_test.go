package protocol

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// buffersModel is what Buffers should be: the pages of MinBuffer bytes that are allocated.
type buffersModel struct {
	base  uint64
	pages []bool
	all   []allocation
}

// allocation is a buffer for n bytes.
type allocation struct {
	offset uint64
	n      int
}

// pagesFor returns how many pages the buffer for n bytes has.
func pagesFor(n int) int {
	k := 1
	for k*MinBuffer < n {
		k *= 2
	}
	return k
}

// isFree reports whether pages are free.
func (m *buffersModel) isFree(first, n int) bool {
	for _, used := range m.pages[first : first+n] {
		if used {
			return false
		}
	}
	return true
}

// fits reports whether a buffer for n bytes is free.
func (m *buffersModel) fits(n int) bool {
	pages := pagesFor(n)
	for first := 0; first < len(m.pages); first += pages {
		if m.isFree(first, pages) {
			return true
		}
	}
	return false
}

func (m *buffersModel) set(a allocation, used bool) {
	first := int(a.offset-m.base) / MinBuffer
	for k := range pagesFor(a.n) {
		m.pages[first+k] = used
	}
}

// get allocates a buffer for n bytes and checks it: it is in the half, at a multiple of its size, and no byte
// of it belongs to another buffer. Get may fail only if every buffer of this
// size has a page in use.
func (m *buffersModel) get(t *rapid.T, b *Buffers, n int) (ok bool) {
	offset, ok := b.Get(n)
	if ok != m.fits(n) {
		t.Fatalf("buffer of %d bytes: %t, want %t", n, ok, !ok)
	}
	if !ok {
		return false
	}
	size := uint64(pagesFor(n) * MinBuffer)
	switch end := m.base + uint64(len(m.pages)*MinBuffer); {
	case offset%size != 0:
		t.Fatalf("buffer of %d bytes at %#x, not at a multiple of %d", n, offset, size)
	case offset < m.base || offset+size > end || !b.Contains(offset, uint32(size)):
		t.Fatalf("buffer of %d bytes at %#x, not from %#x to %#x", n, offset, m.base, end)
	case !m.isFree(int(offset-m.base)/MinBuffer, int(size)/MinBuffer):
		t.Fatalf("buffer of %d bytes at %#x overlaps another", n, offset)
	}
	a := allocation{offset, n}
	m.set(a, true)
	m.all = append(m.all, a)
	return true
}

// put frees the buffer m.all[k].
func (m *buffersModel) put(b *Buffers, k int) {
	a := m.all[k]
	m.all = append(m.all[:k], m.all[k+1:]...)
	m.set(a, false)
	b.Put(a.offset, a.n)
}

// drawSize draws the size of a payload. Sizes beside those of buffers are more frequent.
func drawSize(t *rapid.T) int {
	near := rapid.Custom(func(t *rapid.T) int {
		n := MinBuffer<<rapid.IntRange(0, orders-1).Draw(t, "order") + rapid.IntRange(-1, 1).Draw(t, "difference")
		return min(n, MaxBuffer)
	})
	return rapid.OneOf(near, rapid.IntRange(1, MaxBuffer)).Draw(t, "size")
}

// The allocator matches a model. Free neighbours have always become one buffer: if all pages of a possible
// buffer are free, it is found.
//
// UP-3
func TestBuffersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 3).Draw(t, "MaxBuffers")
		m := &buffersModel{base: uint64(MaxBuffer * rapid.IntRange(0, 3).Draw(t, "base")), pages: make([]bool, count*MaxBuffer/MinBuffer)}
		b := NewBuffers(m.base, count*MaxBuffer)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) { m.get(t, b, drawSize(t)) },
			"getAll": func(t *rapid.T) {
				n := drawSize(t)
				for ok := true; ok; {
					ok = m.get(t, b, n)
				}
			},
			"put": func(t *rapid.T) {
				if len(m.all) == 0 {
					t.Skip("none")
				}
				m.put(b, rapid.IntRange(0, len(m.all)-1).Draw(t, "buffer"))
			},
			"putAll": func(t *rapid.T) {
				for len(m.all) > 0 {
					m.put(b, rapid.IntRange(0, len(m.all)-1).Draw(t, "buffer"))
				}
				for k := range count {
					if !m.get(t, b, MaxBuffer) {
						t.Fatalf("%d buffers of %d bytes, want %d", k, MaxBuffer, count)
					}
				}
				for range count {
					m.put(b, 0)
				}
			},
		})
	})
}

// All buffers of one size can be used, and then no more.
func TestBuffersOfOneSize(t *testing.T) {
	const size = 2 * MaxBuffer
	for k := range orders {
		b := NewBuffers(0, size)
		n := MinBuffer << k
		seen := map[uint64]bool{}
		for offset, ok := b.Get(n); ok; offset, ok = b.Get(n) {
			seen[offset] = true
		}
		if len(seen) != size/n {
			t.Errorf("%d buffers of %d bytes, want %d", len(seen), n, size/n)
		}
		for offset := range seen {
			if _, ok := b.Get(1); ok {
				t.Errorf("all buffers of %d bytes are used, and there is one more", n)
			}
			b.Put(offset, n)
			if again, ok := b.Get(n); !ok || again != offset {
				t.Errorf("buffer at %#x is free, got %#x, %t", offset, again, ok)
			}
		}
	}
}

// No buffer is larger than MaxBuffer.
func TestBufferTooLarge(t *testing.T) {
	if offset, ok := NewBuffers(0, 2*MaxBuffer).Get(MaxBuffer + 1); ok {
		t.Errorf("buffer of %d bytes at %#x", MaxBuffer+1, offset)
	}
}

// Contains is exact at both ends of the half, for any numbers of another process.
func TestBuffersContain(t *testing.T) {
	const base, size, end = MaxBuffer, 2 * MaxBuffer, 3 * MaxBuffer
	b := NewBuffers(base, size)
	for _, c := range []struct {
		offset uint64
		n      uint32
		want   bool
	}{
		{base, 0, true}, {base, 1, true}, {base, size, true}, {base, size + 1, false}, {base, math.MaxUint32, false},
		{base - 1, 0, false}, {base - 1, 1, false}, {base - 1, 2, false}, {0, 0, false}, {0, base, false}, {0, end, false},
		{base + 1, size - 1, true}, {base + 1, size, false},
		{end - 1, 0, true}, {end - 1, 1, true}, {end - 1, 2, false}, {end - 1, math.MaxUint32, false},
		{end, 0, true}, {end, 1, false}, {end + 1, 0, false}, {end + 1, 1, false},
		{math.MaxUint64, 0, false}, {math.MaxUint64, 1, false}, {math.MaxUint64 - base, base + 2, false},
		{math.MaxUint64, base + 2, false}, {math.MaxUint64 - math.MaxUint32 + 1, math.MaxUint32, false},
		{1 << 63, 0, false}, {1<<63 + base, 1, false}, {1<<32 + base, 1, false},
	} {
		if got := b.Contains(c.offset, c.n); got != c.want {
			t.Errorf("%d bytes at %#x: %t, want %t", c.n, c.offset, got, c.want)
		}
	}
}

// A half has a positive number of the largest buffers.
func TestNewBuffersPanics(t *testing.T) {
	for _, size := range []int{-MaxBuffer, -1, 0, 1, MinBuffer, MaxBuffer - 1, MaxBuffer + MinBuffer} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d bytes accepted", size)
				}
			}()
			NewBuffers(0, size)
		}()
	}
}
