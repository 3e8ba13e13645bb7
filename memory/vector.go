package memory

import "fmt"

// Vector is a stretch of scattered memory: Length bytes that begin Offset
// bytes into the concatenation of Segments. Cutting a Vector copies no
// segment list, so that a message can name a part of a memory descriptor
// without allocating. The zero value is empty.
type Vector struct {
	Segments []Segment
	Offset   int
	Length   int
}

// Segment is one contiguous piece of memory. Region.Segment makes one of
// registered memory.
type Segment struct {
	// Bytes is the memory; it may be shortened, but not moved.
	Bytes  []byte
	region *Region
}

// Region is the region that the segment lies in, nil if it is in none.
func (s *Segment) Region() *Region { return s.region }

// Registration returns what an interface has made of the region that the segment
// lies in, or nil: the driver then goes through a pool of its own.
func (s *Segment) Registration(by Registrar) Registration {
	if s.region == nil {
		return nil
	}
	return s.region.Registration(by)
}

// Of returns b as one unregistered segment. It allocates the segment
// list; messages in steady state reuse one.
func Of(b []byte) Vector {
	return Vector{Segments: []Segment{{Bytes: b}}, Length: len(b)}
}

// Slice returns the n bytes that begin off bytes into m. It panics if they do
// not lie within m.
func (m Vector) Slice(off, n int) Vector {
	if off < 0 || n < 0 || off > m.Length-n {
		panic("memory: Vector.Slice out of range")
	}
	return Vector{Segments: m.Segments, Offset: m.Offset + off, Length: n}
}

// Region returns the region of m's first byte. It is nil if m is empty or that byte is in none.
func (m Vector) Region() *Region {
	off := m.Offset
	for i := range m.Segments {
		n := len(m.Segments[i].Bytes)
		if off < n && m.Length > 0 {
			return m.Segments[i].region
		}
		off -= n
	}
	return nil
}

// pieces calls f with each contiguous piece of m, in order and without empty
// ones, until f returns false.
func (m Vector) pieces(f func(s Segment) bool) {
	off, left := m.Offset, m.Length
	for i := range m.Segments {
		if left == 0 {
			return
		}
		s := m.Segments[i]
		if off >= len(s.Bytes) {
			off -= len(s.Bytes)
			continue
		}
		s.Bytes = s.Bytes[off:]
		off = 0
		s.Bytes = s.Bytes[:min(len(s.Bytes), left)]
		left -= len(s.Bytes)
		if !f(s) {
			return
		}
	}
}

// AppendSegments appends m's pieces to list, in order and without empty ones,
// each with its region.
func (m Vector) AppendSegments(list []Segment) []Segment {
	m.pieces(func(s Segment) bool {
		list = append(list, s)
		return true
	})
	return list
}

// Pin keeps the regions that m names from being released until Unpin, which
// needs the same segments. It is for descriptors. The error is ErrReleased: one
// of them has ended, and nothing is pinned.
func (m Vector) Pin() error {
	for i := range m.Segments {
		if r := m.Segments[i].region; r != nil {
			if err := r.pin(); err != nil {
				Vector{Segments: m.Segments[:i]}.Unpin()
				return fmt.Errorf("segment %d: region: %w", i, err)
			}
		}
	}
	return nil
}

// Unpin undoes Pin.
func (m Vector) Unpin() {
	for i := range m.Segments {
		if r := m.Segments[i].region; r != nil {
			r.unpin()
		}
	}
}

// AppendBuffers appends m's pieces to bufs, in order and without empty ones.
// The pieces alias m.
func (m Vector) AppendBuffers(bufs [][]byte) [][]byte {
	m.pieces(func(s Segment) bool {
		bufs = append(bufs, s.Bytes)
		return true
	})
	return bufs
}

// CopyFrom copies b to the beginning of m and returns how much of it fitted.
func (m Vector) CopyFrom(b []byte) int {
	done := 0
	m.pieces(func(s Segment) bool {
		done += copy(s.Bytes, b[done:])
		return done < len(b)
	})
	return done
}

// CopyTo copies m into b and returns how much of it fitted.
func (m Vector) CopyTo(b []byte) int {
	done := 0
	m.pieces(func(s Segment) bool {
		done += copy(b[done:], s.Bytes)
		return done < len(b)
	})
	return done
}

// CopyVector copies src to the beginning of m and returns how much of it
// fitted.
func (m Vector) CopyVector(src Vector) int {
	done := 0
	m.pieces(func(s Segment) bool {
		n := src.Slice(done, src.Length-done).CopyTo(s.Bytes)
		done += n
		return done < src.Length
	})
	return done
}
