package transport

import (
	"slices"
	"sync/atomic"
	"time"
)

// Buffer is memory that a TM moves: a list of segments, and what to do with them
// (transport 3.7, 3.8). NewBuffer makes one; or Domain.Buffer, with memory.
//
// The exported fields are the program's, but from TransferMachine.Add until the callback
// of the final event begins: then the buffer, with its memory, is lent to the TM, and
// nobody may change it, or look at memory that is being filled. In that callback it may
// be added again, and after it freed; the TM has forgotten it. All fields stay as they
// are, but Descriptor, which adding to a passive queue sets, and Deadline, which the final
// event sets back.
type Buffer struct {
	// Queue is where Add puts it.
	Queue QueueType
	// Callbacks has the one for Queue, at least.
	Callbacks *Callbacks
	// Length is how many bytes to send, from the beginning: 1 to Size. The queues that
	// receive do not look at it, and do not set it.
	Length int
	// Offset must be 0.
	Offset int
	// EndPoint is, with MsgSend, where the message goes: one of the TM's own, which takes a
	// reference until the callback has returned. It must be nil with MsgRecv, and for
	// Pool.Put; the other queues do not look at it.
	EndPoint *EndPoint
	// Descriptor is, of passive bulk, what Add makes for the peer who will move the data,
	// by whatever message, nil if Add fails: the next Add writes over it. Of active bulk it
	// is what that peer has sent. See Descriptor.
	Descriptor Descriptor
	// Deadline, unless it is zero, is when the operation ends with ETIMEDOUT if it has not
	// ended by then, never before it, and promptly behind it. Add answers ETIME if it has
	// passed.
	Deadline time.Time
	// MinReceiveSize is, with MsgRecv, 1 to Size, the largest message that the buffer
	// takes, and the least free space with which it stays in use: LNet drops a longer
	// message even if there is more room. MaxMessages, 1 to MostMessages, is how many
	// messages it takes at most before its final event; the TM has room for that many events
	// made, and keeps it. Neither has a default: 0 is EINVAL.
	MinReceiveSize int
	MaxMessages    int
	// Data is the program's own.
	Data any

	state bufferState
}

// MostMessages is the highest Buffer.MaxMessages. How many messages fit a buffer does not
// bound it, since those of length 0, which other programs may send, take no room (transport
// 3.11); but the memory for their events does, which is reserved when the buffer is added.
const MostMessages = 1 << 16

// bufferState is what the engine knows of a buffer. Who has claimed it, by use, has all of
// it for himself: whoever registers it, the pool that it is in, or the TM that it was
// added to, whose mu then guards it.
type bufferState struct {
	use atomic.Uint32
	// tm is the one that has it, from when it is queued until the final event.
	tm atomic.Pointer[TransferMachine]

	segments [][]byte
	size     int
	memory   []byte  // what Domain.allocate did, until it is freed
	maker    *Domain // who did; nil if nobody has

	// While it is registered.
	domain *Domain
	core   CoreBuffer
	pool   *Pool // whose it is, nil if no pool's; it does not change
	pooled pooledState

	// While it is queued.
	flags      Flags
	sequence   uint32
	queue      QueueType
	call       func(e *BufferEvent)
	endPoint   *EndPoint // of MsgSend, with a reference
	length     int       // what statistics count for a queue that sends
	credits    int
	added      time.Time
	deadline   time.Time
	heapIndex  int  // in TransferMachine.deadlines, counted from 1; 0: not there
	submitting bool // the Core has not said yet whether it takes the op
	certain    bool // a final event follows though the Core does not take it: BufferEvent.Add
	unwanted   bool // was cancelled meanwhile
	prev, next *Buffer

	messages   atomic.Uint32
	descriptor []byte // what Descriptor of passive bulk lies in
}

// What use is: who has claimed a buffer.
const (
	loose  uint32 = iota // not registered
	moving               // being registered or deregistered
	idle                 // registered, and the program's
	queued               // a TM's
	pooled               // a pool's
)

// NewBuffer makes a buffer of segments of memory, none of them empty; Domain.Register
// has the last word. Messages fill segments in order. The segments stay the program's,
// and must stay where they are while it is registered. Buffers may share memory.
func NewBuffer(segments ...[]byte) *Buffer {
	b := &Buffer{}
	b.state.segments = slices.Clone(segments) // its size is that of these
	for _, s := range segments {
		b.state.size += len(s)
	}
	return b
}

// Size is how many bytes all segments have.
func (b *Buffer) Size() int { return b.state.size }

// Segments are those that the buffer was made of; the caller must not change the slice.
func (b *Buffer) Segments() [][]byte { return b.state.segments }

// Bytes is the memory, if it lies in one piece, as it does with Domain.Buffer: in one
// segment, or in several slices of one array, each of which begins where the last one
// ends. Else it is nil.
func (b *Buffer) Bytes() []byte {
	if b.state.size > 0 && len(b.state.memory) == b.state.size {
		return b.state.memory
	}
	if whole := merged(b.state.segments); len(whole) == 1 {
		return whole[0]
	}
	return nil
}

// merged is segments, with those made one that lie one behind the other in one array, as
// far as their capacities show it.
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

// CopyIn copies p into the memory, off bytes from its beginning, and returns how much of
// it fitted. CopyOut is the other way round.
func (b *Buffer) CopyIn(off int, p []byte) int {
	n := 0
	b.pieces(off, len(p), func(piece []byte) bool {
		n += copy(piece, p[n:])
		return true
	})
	return n
}

// CopyOut copies the memory, from off bytes behind its beginning on, into p, and returns how
// much that was.
func (b *Buffer) CopyOut(off int, p []byte) int {
	n := 0
	b.pieces(off, len(p), func(piece []byte) bool {
		n += copy(p[n:], piece)
		return true
	})
	return n
}

// pieces calls yield, until it returns false, with the parts of segments that n bytes, off
// bytes into the buffer, lie in.
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

// Flags tells what the TM has to do with the buffer. It takes a lock.
func (b *Buffer) Flags() Flags {
	for {
		tm := b.state.tm.Load()
		if tm == nil {
			if use := b.state.use.Load(); use == loose || use == moving {
				return 0
			}
			return FlagRegistered
		}
		tm.mu.Lock()
		has := b.state.tm.Load() == tm // and so mu guards the flags
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

// MessagesReceived is how many messages have come since the buffer was handed to the Core
// last.
func (b *Buffer) MessagesReceived() int { return int(b.state.messages.Load()) }

// Pool is the pool that the buffer belongs to, nil if to none.
func (b *Buffer) Pool() *Pool { return b.state.pool }

// Flags are what is the case with a buffer (transport 3.7).
type Flags uint8

// The flags that there are.
const (
	FlagRegistered Flags = 1 << iota // known to a domain
	FlagQueued                       // lent to a TM
	FlagInUse                        // the Core is moving data, and cannot cancel: those over LNet can
	FlagCancelled                    // Cancel was asked for
	FlagTimedOut                     // the deadline has passed
)
