package transport

import (
	"slices"
	"sync/atomic"
	"time"
)

// Buffer is memory that a TM moves: a list of segments and the operation to perform on them (transport 3.7,
// 3.8). NewBuffer creates one from existing memory. Domain.Buffer allocates the memory, too.
//
// The program owns the exported fields, except from TransferMachine.Add until the callback of the final
// event begins. During that time the buffer and its memory are lent to the TM: the program must not change
// them, or read memory that is being filled. The callback may add the buffer again. The buffer can be freed
// after the callback. The TM changes no exported field except Descriptor, which Add sets for passive
// queues, and Deadline, which is reset by the final event.
type Buffer struct {
	// Queue selects the queue that Add uses.
	Queue QueueType
	// Callbacks must have at least the callback for Queue.
	Callbacks *Callbacks
	// Length is the number of bytes to send from the beginning of the buffer, 1 to Size. Queues that
	// receive ignore it and do not set it.
	Length int
	// Offset must be 0.
	Offset int
	// EndPoint is the destination of a message on MsgSend. It must belong to the same TM, which holds a
	// reference until the callback has returned. EndPoint must be nil for MsgRecv and for Pool.Put. The
	// other queues ignore it.
	EndPoint *EndPoint
	// Descriptor identifies a passive buffer. For passive bulk, Add sets it, or sets it to nil on an error;
	// the program sends it to the peer that moves the data, and the next Add overwrites it. For active
	// bulk, the program sets it to the descriptor that the peer has sent. See Descriptor.
	Descriptor Descriptor
	// Deadline, if not zero, is the time at which the operation ends with ETIMEDOUT unless it has ended
	// before. The operation never times out early, and ends promptly after the deadline. Add returns ETIME
	// if the deadline has passed.
	Deadline time.Time
	// MinReceiveSize, used by MsgRecv, is the largest message that the buffer accepts, 1 to Size. It is
	// also the minimum free space with which the buffer stays in use: LNet drops longer messages even if
	// they would fit. MaxMessages, 1 to MostMessages, is the number of messages after which the buffer is
	// returned; memory for that many events is reserved. Neither has a default; 0 is EINVAL.
	MinReceiveSize int
	MaxMessages    int
	// Data is for use by the program.
	Data any

	state bufferState
}

// MostMessages is the largest value of Buffer.MaxMessages. The buffer's size is no limit, because messages
// of length 0, which other programs may send, use no space (transport 3.11). The limit bounds the memory
// for events, which is reserved when the buffer is added.
const MostMessages = 1 << 16

// bufferState is the engine's state of a buffer. The field use determines the owner, which has exclusive
// access to the rest: the goroutine that registers it, its pool, or the TM that it was added to. In the
// last case the mu of the TM guards it.
type bufferState struct {
	use atomic.Uint32
	// tm is the TM that the buffer is queued on, until the final event.
	tm atomic.Pointer[TransferMachine]

	segments  [][]byte
	size      int
	memory    []byte  // allocated by Domain.allocate; nil when freed
	allocator *Domain // the domain that allocated memory, or nil

	// Valid while the buffer is registered.
	domain *Domain
	core   CoreBuffer
	pool   *Pool // the owning pool, or nil; constant
	pooled pooledState

	// Valid while the buffer is queued.
	flags           Flags
	sequence        uint32
	queue           QueueType
	call            func(e *BufferEvent)
	endPoint        *EndPoint // for MsgSend, with a reference
	length          int       // counted by statistics for queues that send
	credits         int
	added           time.Time
	deadline        time.Time
	heapIndex       int  // index in TransferMachine.deadlines plus 1; 0 if not in it
	submitting      bool // the Core has not yet accepted or refused the op
	reportRefusal   bool // a refusal is reported by a final event, as for BufferEvent.Add
	cancelRequested bool // cancelled while submitting is set
	prev, next      *Buffer

	messages   atomic.Uint32
	descriptor []byte // storage of the Descriptor of passive bulk
}

// Values of bufferState.use: the owner of a buffer.
const (
	unregistered uint32 = iota // not registered
	registering                // being registered or deregistered
	idle                       // registered, owned by the program
	queued                     // owned by a TM
	pooled                     // owned by a pool
)

// NewBuffer creates a buffer from segments of memory, none of which may be empty; Domain.Register checks
// this. Messages fill the segments in order. The program keeps ownership of the memory, and must not move
// or unmap it while the buffer is registered. Buffers may share memory.
func NewBuffer(segments ...[]byte) *Buffer {
	b := &Buffer{}
	b.state.segments = slices.Clone(segments) // b.state.size must match these segments
	for _, s := range segments {
		b.state.size += len(s)
	}
	return b
}

// Size returns the total size of all segments in bytes.
func (b *Buffer) Size() int { return b.state.size }

// Segments returns the segments of the buffer. The caller must not change the slice.
func (b *Buffer) Segments() [][]byte { return b.state.segments }

// Bytes returns the memory of the buffer if it is contiguous, as with Domain.Buffer: one segment, or
// adjacent slices of one array. Otherwise it returns nil.
func (b *Buffer) Bytes() []byte {
	if b.state.size > 0 && len(b.state.memory) == b.state.size {
		return b.state.memory
	}
	if whole := merged(b.state.segments); len(whole) == 1 {
		return whole[0]
	}
	return nil
}

// merged returns segments with adjacent slices of one array joined, as far as their capacities show that
// they are adjacent.
func merged(segments [][]byte) [][]byte {
	var whole [][]byte
	for i, s := range segments {
		if i == 0 {
			whole = append(make([][]byte, 0, len(segments)), s)
			continue
		}
		last := &whole[len(whole)-1]
		if n := len(*last); len(s) > 0 && cap(*last) >= n+len(s) && &(*last)[:n+1][n] == &s[0] {
			*last = (*last)[:n+len(s)]
		} else {
			whole = append(whole, s)
		}
	}
	return whole
}

// CopyIn copies p into the buffer at offset off, and returns the number of bytes that fitted.
func (b *Buffer) CopyIn(off int, p []byte) int {
	n := 0
	b.pieces(off, len(p), func(piece []byte) bool {
		n += copy(piece, p[n:])
		return true
	})
	return n
}

// CopyOut copies the buffer's memory from offset off into p, and returns the number of bytes copied.
func (b *Buffer) CopyOut(off int, p []byte) int {
	n := 0
	b.pieces(off, len(p), func(piece []byte) bool {
		n += copy(p[n:], piece)
		return true
	})
	return n
}

// pieces calls yield with each part of a segment that overlaps the n bytes at offset off, until yield
// returns false.
func (b *Buffer) pieces(off, n int, yield func(piece []byte) bool) {
	if off < 0 {
		return
	}
	for _, s := range b.state.segments {
		if n <= 0 {
			return
		}
		if off >= len(s) {
			off -= len(s)
			continue
		}
		piece := s[off:min(len(s), off+n)]
		off = 0
		n -= len(piece)
		if !yield(piece) {
			return
		}
	}
}

// Flags returns the state of the buffer. It acquires a lock.
func (b *Buffer) Flags() Flags {
	for {
		tm := b.state.tm.Load()
		if tm == nil {
			if use := b.state.use.Load(); use == unregistered || use == registering {
				return 0
			}
			return FlagRegistered
		}
		tm.mu.Lock()
		has := b.state.tm.Load() == tm // if so, mu guards the flags
		var flags Flags
		if has {
			flags = b.state.flags
		}
		tm.mu.Unlock()
		if has {
			return flags
		}
	}
}

// MessagesReceived returns the number of messages received since the buffer was last submitted to the Core.
func (b *Buffer) MessagesReceived() int { return int(b.state.messages.Load()) }

// Pool returns the pool that the buffer belongs to, or nil.
func (b *Buffer) Pool() *Pool { return b.state.pool }

// Flags describe the state of a buffer (transport 3.7).
type Flags uint8

// Flag bits.
const (
	FlagRegistered Flags = 1 << iota // registered in a domain
	FlagQueued                       // lent to a TM
	FlagInUse                        // the Core is moving data and cannot cancel it; never set over LNet
	FlagCancelled                    // Cancel was called
	FlagTimedOut                     // the deadline has passed
)
