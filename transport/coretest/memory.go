package coretest

import "github.com/lnetd/lnetd/transport"

// arena is memory of Domain.Buffer from which buffers of a test case are allocated. It is used if the Core
// would copy data of other memory.
type arena struct {
	domain *transport.Domain
	whole  *transport.Buffer
	free   []byte
}

// memory returns n bytes of memory for buffers of domain d. The memory is valid until the test case ends.
func (s *stage) memory(d *transport.Domain, n int) []byte {
	s.t.Helper()
	if s.h.Own || d.Limits().PageSize == 0 {
		return make([]byte, n)
	}
	for _, a := range s.arenas {
		if a.domain == d && len(a.free) >= n {
			b := a.free[:n:n]
			a.free = a.free[n:]
			return b
		}
	}
	ctx, cancel := s.context()
	defer cancel()
	whole, err := d.Buffer(ctx, d.Limits().BufferSize)
	s.must(err)
	s.arenas = append(s.arenas, &arena{d, whole, whole.Bytes()})
	return s.memory(d, n)
}

// segments returns memory for a buffer of domain d, with segments of the given sizes.
func (s *stage) segments(d *transport.Domain, sizes ...int) [][]byte {
	s.t.Helper()
	var list [][]byte
	for _, n := range sizes {
		list = append(list, s.memory(d, n))
	}
	return list
}

// freeMemory frees the memory that the method memory has allocated.
func (s *stage) freeMemory() {
	for _, a := range s.arenas {
		if err := a.domain.Free(a.whole); err != nil {
			s.t.Errorf("free memory: %v", err)
		}
	}
}
