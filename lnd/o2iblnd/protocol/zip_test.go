package protocol

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However source and sink are divided, the WRITEs transfer the first bytes of the source to the
// beginning of the sink. Each WRITE stays within one fragment and has at most the allowed number of
// pieces, and the number of WRITEs is the smallest possible (o2iblnd 10.4).
//
// o2iblnd 10.4
func TestZip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.Uint32Range(0, 50), 1, 40)
		var source []Segment
		from := make([]byte, 5000)
		fill(from, 3)
		at := 0
		var flat []byte
		for _, n := range lengths.Draw(t, "source") {
			source = append(source, Segment{Addr: uint64(at), Key: 7, Length: n})
			flat = append(flat, from[at:at+int(n)]...)
			at += int(n) + 1
		}
		sink := Descriptor{Key: 9}
		to, want := make([]byte, 5000), make([]byte, 5000)
		at = 0
		for _, n := range lengths.Draw(t, "sink") {
			sink.Fragments = append(sink.Fragments, Fragment{Addr: uint64(at), Length: n})
			at += int(n) + 1
		}
		n := rapid.IntRange(0, min(len(flat), sink.Length())).Draw(t, "bytes")
		rest := flat[:n]
		for _, f := range sink.Fragments {
			rest = rest[copy(want[f.Addr:f.Addr+uint64(f.Length)], rest):]
		}
		gather := rapid.IntRange(1, 5).Draw(t, "gather")
		z := newZipper(source, &sink, n)
		count := z.count(gather)
		var b Batch
		for z.next(&b, gather) {
		}
		if len(b.Writes) != count || z.left != 0 {
			t.Fatalf("%d WRITEs, counted %d; %d bytes left", len(b.Writes), count, z.left)
		}
		for _, w := range b.Writes {
			if w.Pieces < 1 || w.Pieces > gather || w.Key != 9 {
				t.Fatalf("%+v", w)
			}
			place := int(w.Addr)
			for _, s := range b.Pieces[w.First : w.First+w.Pieces] {
				place += copy(to[place:], from[s.Addr:s.Addr+uint64(s.Length)])
			}
			if place != int(w.Addr)+int(w.Length) {
				t.Fatalf("%+v has %d bytes", w, place-int(w.Addr))
			}
			within := false
			for _, f := range sink.Fragments {
				within = within || w.Addr >= f.Addr && uint64(place) <= f.Addr+uint64(f.Length)
			}
			if !within {
				t.Fatalf("%+v is of no one fragment", w)
			}
		}
		if !bytes.Equal(to, want) {
			t.Fatal("other bytes")
		}
	})
}

// A sink of 257 fragments, each of which needs a separate WRITE (o2iblnd 18, row 4; 21).
func TestZipOf257Fragments(t *testing.T) {
	z := newZipper(cut(0, 257, 1), descriptor(0, 257, 257), 257)
	if n := z.count(30); n != 257 {
		t.Errorf("%d WRITEs", n)
	}
}

// A stamp is never 0 and never used twice (o2iblnd 2.2).
//
// o2iblnd 2.2 (4)
func TestNewStamp(t *testing.T) {
	if s := NewStamp(time.UnixMicro(stamp1), 0); s != stamp1 {
		t.Errorf("%d", s)
	}
	for _, wall := range []time.Time{{}, time.Unix(0, 0), time.UnixMicro(stamp1)} {
		if s := NewStamp(wall, stamp1); s != stamp1+1 {
			t.Errorf("%v: %d", wall, s)
		}
		if NewStamp(wall, 0) == 0 {
			t.Errorf("%v: 0", wall)
		}
	}
	s1, s2 := sessions(V2, 8, 256)
	if s1.Same(&s2) || !s1.Same(&s1) {
		t.Error("lives")
	}
}
