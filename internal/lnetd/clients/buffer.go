package clients

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/transport"
)

// buffer is a buffer that a client has registered. It is also the token with which the Core reports
// completions of operations on it.
type buffer struct {
	index, generation uint32
	core              transport.CoreBuffer
	size              int
	areas             []*area // the area of each segment

	// owner is the TM on which an operation on the buffer is under way. It is nil if the buffer is idle,
	// and deregisteringTM if the buffer is being deregistered. The goroutine that sets owner may use the
	// fields below until it submits the operation. From then on only the goroutine that writes the
	// operation's completions may use them. One exception is operation, which a request to cancel reads;
	// it may already be the number of the next operation.
	owner     atomic.Pointer[tm]
	operation atomic.Uint32
	queue     transport.QueueType
	length    uint32 // the length of the data, as the client has set it
	began     uint64 // when the operation began, as a completion timestamp
}

// charge returns the resources for which the buffer counts towards the client's quotas.
func (b *buffer) charge() amounts { return amounts{ofBuffers: 1, ofSegments: int64(len(b.areas))} }

// deregisteringTM is the owner of buffers that are being deregistered.
var deregisteringTM = new(tm)

// chunkSize is the number of buffers in a chunk of the table.
const chunkSize = 256

// chunk is a part of the buffer table that is allocated when its first index is assigned.
type chunk [chunkSize]atomic.Pointer[buffer]

// buffers holds a client's buffers by index. Only the connection's goroutine adds and removes buffers.
// Any goroutine may look them up.
type buffers struct {
	chunks []atomic.Pointer[chunk]
	// used is the number of indices assigned so far.
	used atomic.Uint32
	// generations holds the generation of the latest buffer with each index. free lists the assigned
	// indices that have no buffer now.
	generations []uint32
	free        []uint32
}

// init prepares the table for at most most buffers.
func (s *buffers) init(most int) {
	s.chunks = make([]atomic.Pointer[chunk], (most+chunkSize-1)/chunkSize)
}

// add stores b in the table and assigns an index and a generation to it.
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

// remove removes b from the table, so that its index can be assigned again.
func (s *buffers) remove(b *buffer) {
	s.chunks[b.index/chunkSize].Load()[b.index%chunkSize].Store(nil)
	s.free = append(s.free, b.index)
}

// find returns the buffer with an index and a generation. If the buffer no longer exists, it returns nil
// without an error. It returns EBADR if the index was never assigned.
func (s *buffers) find(index, generation uint32) (*buffer, error) {
	if index >= s.used.Load() {
		return nil, fmt.Errorf("buffer %d does not exist: %w", index, syscall.EBADR)
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

// count returns the number of buffers.
func (s *buffers) count() (n int) {
	s.all(func(*buffer) { n++ })
	return n
}
