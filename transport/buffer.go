package transport

import (
	"slices"
	"sync/atomic"
	"time"
)

// Buffer is memory that a TM moves: a list of segments and the operation to perform on them (transport 3.7,
// 3.8). NewBuffer creates a buffer from existing memory. Domain.Buffer creates one together with its memory.
//
// The program owns the exported fields and the memory, except from a successful TransferMachine.Add until the
// callback of the final event begins. During that time they are lent to the TM: the program must not change
// them, nor read memory that is being filled. The callback may add the buffer again. After the callback the
// program may free the buffer. The TM changes only two exported fields: Add sets Descriptor for passive
// queues, and the final event sets Deadline to zero.
type Buffer struct {
	// Queue is the queue that TransferMachine.Add adds the buffer to.
	Queue QueueType
	// Callbacks must contain a callback for Queue.
	Callbacks *Callbacks
	// Length is the number of bytes to send, from the beginning of the buffer: 1 to Size. Queues that receive
	// neither use nor set it; see BufferEvent.Length.
	Length int
	// Offset must be 0, because the data always begins at the start of the buffer. Add returns EINVAL otherwise.
	Offset int
	// EndPoint is the destination of a message on MsgSend. It must belong to the TM that the buffer is added
	// to. The TM holds a reference until the callback has returned. EndPoint must be nil for MsgRecv and for
	// Pool.Put. The other queues ignore it.
	EndPoint *EndPoint
	// Descriptor identifies a passive buffer. On a passive queue, Add sets it, or sets it to nil if Add
	// fails; the program then sends it to the peer that is to move the data. The next Add overwrites its
	// bytes. On an active queue, the program sets it to the descriptor that the peer has sent. See type
	// Descriptor.
	Descriptor Descriptor
	// Deadline, if not zero, is the time at which the TM ends the operation with ETIMEDOUT if it is still in
	// progress. The operation does not time out earlier, and ends promptly after the deadline. Add returns
	// ETIME if the deadline has passed.
	Deadline time.Time
	// MinReceiveSize is used by MsgRecv. It is the length of the largest message that the buffer accepts, 1
	// to Size: LNet drops longer messages even if they would fit. The buffer receives messages as long as at
	// least this much space is free. MaxMessages, 1 to MostMessages, is the number of messages after which
	// the buffer is returned; the TM reserves memory for that many events. Neither field has a default: Add
	// returns EINVAL for 0.
	MinReceiveSize int
	MaxMessages    int
	// Data is any value of the program. The TM does not use it.
	Data any

	state bufferState
}

// MostMessages is the largest value of Buffer.MaxMessages. It limits the memory that Add reserves for events.
// The size of the buffer limits nothing, because messages of length 0, which programs other than TMs may
// send, use no space in it (transport 3.11).
const MostMessages = 1 << 16

// bufferState is the engine's state of a buffer. The value of use determines the owner, which alone may
// access the other fields: the goroutine that registers the buffer, the program, the pool, or the TM that the
// buffer is queued on. While the buffer is queued, the TM's mu guards the fields.
type bufferState struct {
	use atomic.Uint32
	// tm is the TM that the buffer is queued on, until the final event.
	tm atomic.Pointer[TransferMachine]

	segments  [][]byte
	size      int
	memory    []byte  // allocated by Domain.allocate; nil when freed
	allocator *Domain // the domain that allocated memory; nil if none did

	// The fields below are valid while the buffer is registered.
	domain *Domain
	core   CoreBuffer
	pool   *Pool // the owning pool, or nil; constant
	pooled pooledState

	// The fields below are valid while the buffer is queued.
	flags           Flags
	sequence        uint32
	queue           QueueType
	call            func(e *BufferEvent)
	endPoint        *EndPoint // destination on MsgSend, with a reference; nil on other queues
	length          int       // number of bytes to send; statistics count it
	credits         int
	added           time.Time
	deadline        time.Time
	heapIndex       int  // index in TransferMachine.deadlines plus 1; 0 if the buffer is not in the heap
	submitting      bool // a goroutine is submitting the op; the Core has not accepted or refused it yet
	reportRefusal   bool // added by BufferEvent.Add: if the Core refuses the op, a final event reports this
	cancelRequested bool // the buffer was cancelled while submitting was set
	prev, next      *Buffer

	messages   atomic.Uint32
	descriptor []byte // memory of Descriptor on a passive queue; each Add overwrites it
}

// Values of bufferState.use. Each names the owner of the buffer.
const (
	unregistered uint32 = iota // not registered; owned by the program
	registering                // being registered, deregistered or freed; owned by the calling goroutine
	idle                       // registered, owned by the program
	queued                     // owned by a TM
	pooled                     // owned by a pool
)

// NewBuffer creates a buffer from segments of memory. It does not check them; Domain.Register returns EINVAL
// if one is empty. Messages fill the segments in order. The program keeps ownership of the memory, and must
// not move or unmap it while the buffer is registered. Several buffers may share memory.
func NewBuffer(segments ...[]byte) *Buffer {
	b := &Buffer{}
	b.state.segments = slices.Clone(segments) // later changes of the caller's slice must not affect size
	for _, s := range segments {
		b.state.size += len(s)
	}
	return b
}

// Size returns the total size of all segments in bytes.
func (b *Buffer) Size() int { return b.state.size }

// Segments returns the segments of the buffer. The caller must not change the slice.
func (b *Buffer) Segments() [][]byte { return b.state.segments }

// Bytes returns the memory of the buffer in place if it is contiguous: one segment, or adjacent slices of one
// array. Memory of Domain.Buffer always is. Otherwise Bytes returns nil.
func (b *Buffer) Bytes() []byte {
	if b.state.size > 0 && len(b.state.memory) == b.state.size {
		return b.state.memory
	}
	if whole := merged(b.state.segments); len(whole) == 1 {
		return whole[0]
	}
	return nil
}

// merged returns the same memory in as few segments as possible: it joins a segment with the next one if both
// are slices of one array and the capacity of the first shows that they are adjacent.
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

// CopyIn copies p into the buffer at offset off, and returns the number of bytes copied. This is less than
// len(p) if the buffer ends before.
func (b *Buffer) CopyIn(off int, p []byte) int {
	n := 0
	b.pieces(off, len(p), func(piece []byte) bool {
		n += copy(piece, p[n:])
		return true
	})
	return n
}

// CopyOut copies the buffer's memory from offset off into p, and returns the number of bytes copied. This is
// less than len(p) if the buffer ends before.
func (b *Buffer) CopyOut(off int, p []byte) int {
	n := 0
	b.pieces(off, len(p), func(piece []byte) bool {
		n += copy(p[n:], piece)
		return true
	})
	return n
}

// pieces calls yield for each segment that overlaps the n bytes at offset off, with the part that overlaps.
// It stops if yield returns false.
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
		has := b.state.tm.Load() == tm // if true, tm.mu guards the flags
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

// MessagesReceived returns the number of messages received since the buffer was last added to a queue.
func (b *Buffer) MessagesReceived() int { return int(b.state.messages.Load()) }

// Pool returns the pool that the buffer belongs to, or nil.
func (b *Buffer) Pool() *Pool { return b.state.pool }

// Flags describe the state of a buffer (transport 3.7).
type Flags uint8

// Bits of Flags.
const (
	FlagRegistered Flags = 1 << iota // registered in a domain
	FlagQueued                       // added to a TM; set until the final event
	FlagInUse                        // the Core is moving data and cannot cancel the operation; never set over LNet
	FlagCancelled                    // Cancel was called
	FlagTimedOut                     // the deadline passed while the buffer was queued
)
