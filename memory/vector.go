package memory

import "fmt"

// Vector is a range of scattered memory: Length bytes, beginning at offset Offset of the
// concatenation of Segments. Slicing a Vector does not copy the list of segments, so a
// message can refer to a part of a memory descriptor without an allocation. The zero value
// is empty.
type Vector struct {
	Segments []Segment
	Offset   int
	Length   int
}

// Segment is one contiguous piece of memory. Region.Segment returns a segment of registered
// memory.
type Segment struct {
	// Bytes is the memory. It may be shortened, but must not be replaced by other memory.
	Bytes  []byte
	region *Region
}

// Region returns the region that the segment is a part of. It returns nil if the memory is
// not registered.
func (s *Segment) Region() *Region { return s.region }

// Registration returns the registration of the segment's region with an interface. It
// returns nil if the memory is not registered with this interface, which then uses its
// own buffers.
func (s *Segment) Registration(by Registrar) Registration {
	if s.region == nil {
		return nil
	}
	return s.region.Registration(by)
}

// Of returns b as a vector of one unregistered segment. It allocates the segment list.
func Of(b []byte) Vector {
	return Vector{Segments: []Segment{{Bytes: b}}, Length: len(b)}
}

// Slice returns the n bytes at offset off of m as a Vector. It panics if these bytes are not
// within m.
func (m Vector) Slice(off, n int) Vector {
	if off < 0 || n < 0 || off > m.Length-n {
		panic("memory: Vector.Slice out of range")
	}
	return Vector{Segments: m.Segments, Offset: m.Offset + off, Length: n}
}

// Region returns the region of the first byte of m. It returns nil if m is empty or this byte
// is not in a region.
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

// eachSegment calls f for each nonempty contiguous piece of m, in order, until f returns false.
func (m Vector) eachSegment(f func(s Segment) bool) {
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

// AppendSegments appends the nonempty pieces of m to list, in order, each with its region.
func (m Vector) AppendSegments(list []Segment) []Segment {
	m.eachSegment(func(s Segment) bool {
		list = append(list, s)
		return true
	})
	return list
}

// Pin prevents the regions of m from being released until Unpin is called for the same
// segments. Memory descriptors use it. If a region has ended, Pin returns ErrReleased and
// pins no region.
func (m Vector) Pin() error {
	for i := range m.Segments {
		if r := m.Segments[i].region; r != nil {
			if err := r.pin(); err != nil {
				Vector{Segments: m.Segments[:i]}.Unpin()
				return fmt.Errorf("region of segment %d: %w", i, err)
			}
		}
	}
	return nil
}

// Unpin reverts Pin.
func (m Vector) Unpin() {
	for i := range m.Segments {
		if r := m.Segments[i].region; r != nil {
			r.unpin()
		}
	}
}

// AppendBuffers appends the nonempty pieces of m to bufs, in order. They share the memory
// of m.
func (m Vector) AppendBuffers(bufs [][]byte) [][]byte {
	m.eachSegment(func(s Segment) bool {
		bufs = append(bufs, s.Bytes)
		return true
	})
	return bufs
}

// CopyFrom copies b to the beginning of m and returns the number of bytes copied: the
// smaller of the two lengths.
func (m Vector) CopyFrom(b []byte) int {
	done := 0
	m.eachSegment(func(s Segment) bool {
		done += copy(s.Bytes, b[done:])
		return done < len(b)
	})
	return done
}

// CopyTo copies m to b and returns the number of bytes copied: the smaller of the two
// lengths.
func (m Vector) CopyTo(b []byte) int {
	done := 0
	m.eachSegment(func(s Segment) bool {
		done += copy(b[done:], s.Bytes)
		return done < len(b)
	})
	return done
}

// CopyVector copies src to the beginning of m and returns the number of bytes copied: the
// smaller of the two lengths.
func (m Vector) CopyVector(src Vector) int {
	done := 0
	m.eachSegment(func(s Segment) bool {
		n := src.Slice(done, src.Length-done).CopyTo(s.Bytes)
		done += n
		return done < src.Length
	})
	return done
}
