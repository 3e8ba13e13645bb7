package memory

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawMemory draws scattered memory and the bytes that it represents.
func drawMemory(t *rapid.T) (m Vector, model []byte) {
	sizes := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 8).Draw(t, "segments")
	next := byte(1)
	for _, n := range sizes {
		b := make([]byte, n)
		for k := range b {
			b[k] = next
			next++
		}
		m.Segments = append(m.Segments, Segment{Bytes: b})
		model = append(model, b...)
	}
	m.Offset = rapid.IntRange(0, len(model)).Draw(t, "offset")
	m.Length = rapid.IntRange(0, len(model)-m.Offset).Draw(t, "length")
	return m, slices.Clone(model[m.Offset : m.Offset+m.Length])
}

// A random vector gives the same bytes as a model that is one slice.
func TestVectorEqualsItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, model := drawMemory(t)

		pieces := m.AppendBuffers([][]byte{nil})[1:]
		if got := bytes.Join(pieces, nil); !bytes.Equal(got, model) {
			t.Fatalf("pieces hold % x, want % x", got, model)
		}
		for k, p := range pieces {
			if len(p) == 0 {
				t.Errorf("piece %d is empty", k)
			}
		}

		out := make([]byte, rapid.IntRange(0, 2*len(model)).Draw(t, "room"))
		if n := m.CopyTo(out); n != min(len(out), len(model)) || !bytes.Equal(out[:n], model[:n]) {
			t.Errorf("CopyTo: %d bytes % x, want % x", n, out[:n], model)
		}

		off := rapid.IntRange(0, len(model)).Draw(t, "cut at")
		n := rapid.IntRange(0, len(model)-off).Draw(t, "cut length")
		cut := make([]byte, n)
		if got := m.Slice(off, n).CopyTo(cut); got != n || !bytes.Equal(cut, model[off:off+n]) {
			t.Errorf("Slice(%d, %d): % x, want % x", off, n, cut, model[off:off+n])
		}
	})
}

// CopyFrom and CopyTo do not access bytes of the segments outside of the vector.
func TestCopyStaysWithinVector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, model := drawMemory(t)
		all := Vector{Segments: m.Segments}
		for _, s := range m.Segments {
			all.Length += len(s.Bytes)
		}
		want := make([]byte, all.Length)
		all.CopyTo(want)

		in := bytes.Repeat([]byte{0xff}, rapid.IntRange(0, 2*len(model)).Draw(t, "bytes"))
		n := m.CopyFrom(in)
		if n != min(len(in), len(model)) {
			t.Errorf("CopyFrom took %d bytes of %d into %d", n, len(in), len(model))
		}
		copy(want[m.Offset:m.Offset+m.Length], in)
		got := make([]byte, all.Length)
		all.CopyTo(got)
		if !bytes.Equal(got, want) {
			t.Errorf("the memory holds\n% x, want\n% x", got, want)
		}
	})
}

// Slice panics for a range that exceeds the vector.
func TestVectorSliceOutOfRange(t *testing.T) {
	m := Of(make([]byte, 10)).Slice(2, 6)
	for _, c := range []struct{ off, n int }{{-1, 2}, {0, -1}, {0, 7}, {7, 0}, {6, 1}, {3, int(^uint(0) >> 1)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Slice(%d, %d) of 6 bytes is taken", c.off, c.n)
				}
			}()
			m.Slice(c.off, c.n)
		}()
	}
	if got := m.Slice(6, 0); got.Length != 0 {
		t.Errorf("an empty slice at the end has %d bytes", got.Length)
	}
}

// The zero Vector is empty and can be used.
func TestZeroVector(t *testing.T) {
	var m Vector
	if m.AppendBuffers(nil) != nil || m.CopyFrom([]byte{1}) != 0 || m.CopyTo(make([]byte, 1)) != 0 {
		t.Error("nothing has something")
	}
	if got := Of([]byte{1, 2}); got.Length != 2 || !bytes.Equal(got.Segments[0].Bytes, []byte{1, 2}) {
		t.Errorf("%+v", got)
	}
}

// Slicing and copying vectors allocates nothing.
func TestVectorDoesNotAllocate(t *testing.T) {
	m := Vector{Segments: []Segment{{Bytes: make([]byte, 100)}, {Bytes: make([]byte, 100)}}, Length: 200}
	b, bufs := make([]byte, 50), make([][]byte, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		cut := m.Slice(75, 50)
		bufs = cut.AppendBuffers(bufs[:0])
		cut.CopyFrom(b)
		cut.CopyTo(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
