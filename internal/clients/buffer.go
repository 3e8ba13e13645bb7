package clients

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/transport"
)

// buffer is a registered buffer of a client, and the token of its completions.
type buffer struct {
	index, generation uint32
	core              transport.CoreBuffer
	size              int
	areas             []*area // one as often as it has segments there

	// owner is the TM that an operation on the buffer is under way at, or else nil; or
	// nobody, if the buffer is being deregistered. Who has set it has the rest for himself,
	// until he hands the operation over, and then the one who is told of its end; but who
	// has a cancel looks at operation, which may be another one's by then.
	owner     atomic.Pointer[tm]
	operation atomic.Uint32
	queue     transport.QueueType
	reserved  int    // completions that the operation may have yet
	length    uint32 // that the client gave
	began     uint64 // when the operation did, as completions have it
}

// charge is what the buffer counts for.
func (b *buffer) charge() amounts { return amounts{ofBuffers: 1, ofSegments: int64(len(b.areas))} }

// nobody owns buffers that are being deregistered.
var nobody = new(tm)

// chunkSize is how many buffers a part of the table has.
const chunkSize = 256

// chunk is a part of the table.
type chunk [chunkSize]atomic.Pointer[buffer]

// buffers are those of a client, by index. The goroutine of the connection adds and
// removes; any may look.
type buffers struct {
	chunks []atomic.Pointer[chunk]
	// used is how many indices were ever given.
	used atomic.Uint32
	// generations are those of the buffers that had each index last, free those indices that
	// none has.
	generations []uint32
	free        []uint32
}

// init makes room for so many.
func (s *buffers) init(most int) {
	s.chunks = make([]atomic.Pointer[chunk], (most+chunkSize-1)/chunkSize)
}

// add gives b a name.
func (s *buffers) add(b *buffer) {
	if n := len(s.free); n > 0 {
		b.index = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		b.index = s.used.Load()
		s.generations = append(s.generations, 0)
		if b.index%chunkSize == 0 {
			s.chunks[b.index/chunkSize].Store(new(chunk))
		}
	}
	s.generations[b.index]++
	b.generation = s.generations[b.index]
	s.chunks[b.index/chunkSize].Load()[b.index%chunkSize].Store(b)
	if b.index == s.used.Load() {
		s.used.Store(b.index + 1)
	}
}

// remove takes b's name away.
func (s *buffers) remove(b *buffer) {
	s.chunks[b.index/chunkSize].Load()[b.index%chunkSize].Store(nil)
	s.free = append(s.free, b.index)
}

// find returns the buffer of a name, nil if there is none any more. EBADR: the index never
// was one.
func (s *buffers) find(index, generation uint32) (*buffer, error) {
	if index >= s.used.Load() {
		return nil, fmt.Errorf("no buffer %d: %w", index, syscall.EBADR)
	}
	b := s.chunks[index/chunkSize].Load()[index%chunkSize].Load()
	if b == nil || b.generation != generation {
		return nil, nil
	}
	return b, nil
}

// all calls f for each buffer.
func (s *buffers) all(f func(*buffer)) {
	for i := range s.used.Load() {
		if b := s.chunks[i/chunkSize].Load()[i%chunkSize].Load(); b != nil {
			f(b)
		}
	}
}

// count is how many there are.
func (s *buffers) count() (n int) {
	s.all(func(*buffer) { n++ })
	return n
}
