package coretest

import (
	"bytes"

	"github.com/lnetd/lnetd/transport"
)

// guardSeed is the seed of the guard pattern, which buffers are filled with before they receive data, so that
// a test can find out which bytes were written.
const guardSeed = -1

// pattern returns the first n bytes of the pattern that belongs to a seed.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + i>>16*3 + seed*31 + 5)
	}
	return b
}

// fill writes the first n bytes of the seed's pattern to the beginning of a buffer.
func fill(b *transport.Buffer, seed, n int) { b.CopyIn(0, pattern(seed, n)) }

// guard fills the whole buffer with the guard pattern.
func guard(b *transport.Buffer) { fill(b, guardSeed, b.Size()) }

// check checks that the n bytes at an offset of a buffer are the first n bytes of the seed's pattern.
func (s *stage) check(b *transport.Buffer, off, n, seed int) {
	s.t.Helper()
	got := make([]byte, n)
	if b.CopyOut(off, got) != n {
		s.t.Fatalf("a buffer of %d bytes has no %d at %d", b.Size(), n, off)
	}
	want := pattern(seed, n)
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			s.t.Errorf("byte %d of %d, at %d of pattern %d, is %#x, not %#x", i, n, off, seed, got[i], want[i])
			return
		}
	}
}

// contains reports whether a buffer has the given bytes at an offset.
func contains(b *transport.Buffer, off int, want []byte) bool {
	got := make([]byte, len(want))
	return b.CopyOut(off, got) == len(got) && bytes.Equal(got, want)
}

// untouched checks that a buffer filled by guard is unchanged, except for its first n bytes.
func (s *stage) untouched(b *transport.Buffer, n int) {
	s.t.Helper()
	got := make([]byte, b.Size())
	b.CopyOut(0, got)
	if !bytes.Equal(got[n:], pattern(guardSeed, b.Size())[n:]) {
		s.t.Errorf("something was written behind the first %d bytes", n)
	}
}
