package simulation

import (
	"testing"

	"pgregory.net/rapid"
)

// differs accepts what fill writes, at any offset, and detects a change of any byte.
func TestStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := stream(rapid.Uint64().Draw(t, "stream"))
		off, n := rapid.IntRange(0, 40).Draw(t, "offset"), rapid.IntRange(0, 100).Draw(t, "length")
		b := make([]byte, n)
		s.fill(b, off)
		if k := s.differs(b, off); k >= 0 {
			t.Fatalf("byte %d differs", k)
		}
		whole := make([]byte, off+n)
		s.fill(whole, 0)
		if string(whole[off:]) != string(b) {
			t.Fatalf("% x at %d is not a part of % x", b, off, whole)
		}
		if n > 0 {
			at := rapid.IntRange(0, n-1).Draw(t, "spoilt")
			b[at] ^= 1
			if k := s.differs(b, off); k != at {
				t.Fatalf("byte %d was spoilt, %d is said to differ", at, k)
			}
		}
	})
}

// A region is blank and guarded at first. Every byte that is written later is detected, inside and
// outside.
func TestRegion(t *testing.T) {
	var m Memory
	rapid.Check(t, func(t *rapid.T) {
		n, pieces := rapid.IntRange(0, 300).Draw(t, "length"), rapid.IntRange(1, 6).Draw(t, "pieces")
		r := m.region(n, pieces)
		defer m.release(r)
		total := 0
		for _, p := range r.pieces {
			total += len(p.Bytes)
		}
		if total != n {
			t.Fatalf("%d bytes in %d pieces", total, len(r.pieces))
		}
		if err := r.checkGuards(); err != nil {
			t.Fatal(err)
		}
		if err := r.checkBlank(0, n); err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(r.backing)-1).Draw(t, "spoilt")
		r.backing[at] ^= 0x80
		inside, outside := r.checkBlank(0, n), r.checkGuards()
		if (inside == nil) == (outside == nil) {
			t.Fatalf("byte %d of %d was written to: inside %v, outside %v", at, len(r.backing), inside, outside)
		}
	})
}

func TestRegionHolds(t *testing.T) {
	var m Memory
	r := m.region(100, 3)
	r.fill(7)
	if err := r.checkStream(20, 50, 7, 20); err != nil {
		t.Error(err)
	}
	if r.checkStream(20, 50, 7, 21) == nil || r.checkStream(20, 50, 8, 20) == nil {
		t.Error("another stream, or another part of it, is taken for the same")
	}
}
