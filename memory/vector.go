package memory

// Vector is a stretch of scattered memory: Length bytes that begin Offset
// bytes into the concatenation of Segments. Cutting a Vector copies no
// segment list, so that a message can name a part of a memory descriptor
// without allocating. The zero value is empty.
type Vector struct {
	Segments []Segment
	Offset   int
	Length   int
}

// Segment is one contiguous piece of memory.
type Segment struct {
	Bytes []byte
	// Region is the registration that Bytes lies in, nil if it is not
	// registered; drivers that need one then go through a pool of their own.
	Region *Region
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

// pieces calls f with each contiguous piece of m, in order and without empty
// ones, until f returns false.
func (m Vector) pieces(f func(b []byte) bool) {
	off, left := m.Offset, m.Length
	for i := range m.Segments {
		if left == 0 {
			return
		}
		b := m.Segments[i].Bytes
		if off >= len(b) {
			off -= len(b)
			continue
		}
		b = b[off:]
		off = 0
		b = b[:min(len(b), left)]
		left -= len(b)
		if !f(b) {
			return
		}
	}
}

// AppendBuffers appends m's pieces to bufs, in order and without empty ones.
// The pieces alias m.
func (m Vector) AppendBuffers(bufs [][]byte) [][]byte {
	m.pieces(func(b []byte) bool {
		bufs = append(bufs, b)
		return true
	})
	return bufs
}

// CopyFrom copies b to the beginning of m and returns how much of it fitted.
func (m Vector) CopyFrom(b []byte) int {
	done := 0
	m.pieces(func(piece []byte) bool {
		done += copy(piece, b[done:])
		return done < len(b)
	})
	return done
}

// CopyTo copies m into b and returns how much of it fitted.
func (m Vector) CopyTo(b []byte) int {
	done := 0
	m.pieces(func(piece []byte) bool {
		done += copy(b[done:], piece)
		return done < len(b)
	})
	return done
}

// CopyVector copies src to the beginning of m and returns how much of it
// fitted.
func (m Vector) CopyVector(src Vector) int {
	done := 0
	m.pieces(func(piece []byte) bool {
		n := src.Slice(done, src.Length-done).CopyTo(piece)
		done += n
		return done < src.Length
	})
	return done
}
