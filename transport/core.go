package transport

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Core is a way to LNet that a Domain can stand on (transport 2). Programs take one from
// package inproc or mem and hand it to NewDomain; only those who write another one, or
// test this package, look at its methods.
//
// All of a Core is safe for concurrent use, but for what a method says of itself. No
// method calls back into package transport. Errors have an errno for errors.Is.
type Core interface {
	// Name is what tools call it, "lnet" or "mem" for example.
	Name() string
	// Open makes what a domain stands on. It may block until ctx ends.
	Open(ctx context.Context) (CoreDomain, error)
}

// CoreDomain is a Core's side of a Domain.
type CoreDomain interface {
	// Limits are those of this domain, for as long as it lives, but for DescriptorSize, which
	// may grow.
	Limits() Limits
	// NIDs are the local ones, loopback included (transport 6.1). It may block.
	NIDs(ctx context.Context) ([]lnet.NID, error)

	// Alloc returns n bytes of zeroed memory that begin at a page, of which Register
	// takes any part without copies. It stays until Free, which needs what Alloc gave:
	// EBUSY while a buffer of it is registered. Both may block.
	Alloc(ctx context.Context, n int) ([]byte, error)
	Free(b []byte) error

	// Register makes segments a buffer that ops can name; the engine has checked them
	// against the limits, and neither changes nor moves them until Deregister. Token is
	// what the buffer's completions bear. It may block. EFBIG: too many pieces for this
	// Core; EINVAL: memory that it cannot reach; EDQUOT.
	Register(ctx context.Context, segments [][]byte, token any) (CoreBuffer, error)

	// StartTM starts a TM at an address: TMID Dynamic asks for one that is free.
	// It may block until ctx ends. ENOENT: the NID or the PID is not one of this host;
	// EINVAL: no TM can have that portal, or that number, as 0; EADDRINUSE, EADDRNOTAVAIL
	// (transport 3.16).
	StartTM(ctx context.Context, a Address, completions int) (CoreTM, error)

	// Close ends it; the engine has stopped all TMs, and deregistered all buffers.
	Close() error
}

// CoreBuffer is a registered buffer, of the type that the Core makes.
type CoreBuffer interface {
	// Deregister ends it; no op that names it is under way. It may block.
	Deregister() error
}

// CoreTM is a Core's side of a started TM.
//
// An op that Submit has taken is answered by completions: any number with Final unset, of
// MsgRecv alone, and one with Final set. Completions wait, in the order in which they
// were made, until Reap takes them; there is room for as many as StartTM or Grow was told,
// and the engine never asks for more: it reckons MaxMessages for an op on MsgRecv, one
// for any other, until its final completion was reaped. So a Core neither drops a
// completion nor waits with one.
type CoreTM interface {
	// Address is where the TM is, with its number if that was Dynamic.
	Address() Address
	// MatchBits are the TM's RandomMatchBits: those of its first passive buffer are the next.
	MatchBits() MatchBits

	// Submit hands ops over, in order; the slice is the caller's again when it returns.
	// It does not block. It returns how many it has taken; if that is not all of them,
	// err says why the next one is refused, and the caller may go on behind it. A Core
	// that learns later of a refusal says so by a final completion with the error. The
	// completions of an op may be there before Submit returns. Several may call it.
	Submit(ops []Op) (taken int, err error)

	// Flush returns when peers reach the buffers of all ops that Submit has taken before it was
	// called, unless those have ended. A Core in this process has nothing to wait for. One that
	// waits returns at a time all the same, unless that is zero, and when it is gone. No
	// completion has to be reaped meanwhile. Several goroutines may call it.
	Flush(until time.Time)

	// Grow makes room for n completions in all, if there was less. ENOBUFS: it cannot be.
	Grow(n int) error

	// Reap takes completions out, as many as dst holds and there are, and returns their
	// number. One goroutine at a time calls it. It does not block, or allocate.
	Reap(dst []Completion) int
	// Pending tells, at the cost of an atomic load, whether Reap would find one.
	Pending() bool
	// Wait blocks until Pending, until Wake, or until a time, unless that is zero. It may
	// return early for no reason. One goroutine at a time calls it. Wake has the Wait
	// that is under way return, or else the next.
	Wait(until time.Time)
	Wake()

	// Stop ends the TM and gives its address back. EBUSY: an op is under way yet. What
	// was not reaped is gone. Calls that follow do nothing: Submit returns ESHUTDOWN.
	Stop() error
}

// Op is what a Core is asked for: an operation on a buffer, or the wish that one be ended
// (transport 6.7, 9.4).
type Op struct {
	// Queue is which of the six operations it is.
	Queue QueueType
	// Cancel asks that the op of this buffer with the same Sequence be ended, which its
	// final completion tells: ECANCELED, or what it came to before. A cancel has no
	// completion of its own, and is not refused while the TM is there. One of what is over
	// does nothing, though the buffer be queued again, or deregistered. The engine cancels
	// only what Submit has taken, and that once or more.
	Cancel bool
	// Buffer is what Register gave.
	Buffer CoreBuffer
	// Sequence counts the ops of the buffer, and comes back in completions.
	Sequence uint32

	// Length is how many bytes to move, from the beginning of the buffer: of the queues
	// that send, and of ActiveBulkRecv, where it is what the descriptor says. The others
	// take as much as the buffer holds.
	Length int
	// MinReceiveSize and MaxMessages are those of MsgRecv; see Buffer.
	MinReceiveSize int
	MaxMessages    int
	// MatchBits are, of passive bulk, those to wait for, and of active bulk those of the
	// passive buffer. Messages have none: the address says them.
	MatchBits MatchBits
	// Peer is where a message or active bulk goes.
	Peer Address
}

// Completion is what a Core tells of an op (transport 9.4), or, if Token is nil, of the TM.
type Completion struct {
	// Token is the buffer's, Sequence the op's.
	Token    any
	Sequence uint32
	// Final says that it is the op's last.
	Final bool
	// Err is nil if all went well. ECANCELED: it was cancelled in time; EPROTO: a message
	// without a usable sender, in a completion that is final; see transport 6.5 and 6.9.
	// If Token is nil, it is what befell the TM: ENOBUFS says that a message was lost
	// since there was no buffer for it.
	Err error
	// Length bytes have come, or gone, Offset bytes into the buffer.
	Length, Offset int
	// Sender is where a message came from. With MsgRecv, nil Err and a zero Sender, a
	// message without a usable sender has used up room, and is to be counted.
	Sender Address
	// When it was made.
	Time time.Time

	// Down says that the Core is gone and nothing will complete any more: whatever is
	// queued is cancelled, and the TM has failed with Err. Token is nil.
	Down bool
	// Diagnostic is handed to the program, as a TM event, if it is not nil. Token is nil.
	Diagnostic any
}

// Limits bound the buffers of a domain (transport 3.4).
type Limits struct {
	// BufferSize and SegmentSize are in bytes, Segments is a number.
	BufferSize  int
	SegmentSize int
	Segments    int
	// DescriptorSize is the longest descriptor of a passive buffer, in bytes: that of the
	// package, or, once a local NID is a large one, LargeDescriptorSize. Those of a TM at
	// a NID of 4 bytes have the former all the same.
	DescriptorSize int
	// Confine says that the Core takes part in Confine, and, of Domain.Limits, that the
	// system can; Synchronous that it supports synchronous delivery. ENOSYS answers to who
	// asks for what there is not.
	Confine, Synchronous bool
	// PageSize is 0 if the Core moves any memory of the program where it is. Otherwise it moves
	// memory of Domain.Buffer so, and some of the memory that begins and ends at multiples of
	// PageSize and is private to the process, not of a file: a bounded number of different ranges,
	// of which none overlaps another. It copies buffers in other memory, for which it has
	// CopyMemory bytes in all; Register returns EDQUOT if they are used up.
	PageSize, CopyMemory int
}
