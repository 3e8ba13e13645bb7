package transport

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Core is a way to access LNet, on which a Domain runs (transport 2). Programs obtain a Core from package
// inproc, remote or mem and pass it to NewDomain. Its methods matter only to implementations and to tests of
// this package.
//
// A Core is gone when it can no longer access LNet: the node was closed, or lnetd has ended. All TMs of its
// domains then fail with EPIPE.
//
// All methods are safe for concurrent use unless their comment states otherwise. No method calls back into
// package transport. Every error matches an errno with errors.Is.
type Core interface {
	// Name returns the name that tools print, such as "lnet" or "mem".
	Name() string
	// Open creates the Core's side of a new Domain. It may block until ctx ends.
	Open(ctx context.Context) (CoreDomain, error)
}

// CoreDomain is a Core's side of a Domain.
type CoreDomain interface {
	// Limits returns the limits of this domain. They are constant, except that DescriptorSize may grow.
	Limits() Limits
	// NIDs returns the NIDs of this host, including loopback (transport 6.1). It may block.
	NIDs(ctx context.Context) ([]lnet.NID, error)

	// Alloc returns n bytes of zeroed, page-aligned memory. Any part of this memory can be given to Register,
	// and is then moved without copies. Free releases the memory; b must be the slice that Alloc returned.
	// Free returns EBUSY while a buffer in this memory is registered. Both methods may block.
	Alloc(ctx context.Context, n int) ([]byte, error)
	Free(b []byte) error

	// Register makes segments a buffer that ops can refer to. The engine has checked the segments against the
	// limits, and does not change or move them until Deregister. All completions of ops on the buffer contain
	// token. Register may block. It returns EFBIG if the buffer has too many pieces for this Core, EINVAL if
	// the Core cannot access the memory, and EDQUOT if a quota is used up.
	Register(ctx context.Context, segments [][]byte, token any) (CoreBuffer, error)

	// StartTM starts a TM at address a, with room for the given number of completions. If a.TMID is Dynamic,
	// the Core chooses a free number. StartTM may block until ctx ends. It returns ENOENT if the NID or PID
	// does not belong to this host, EINVAL if the portal or TMID is invalid (0, for example), and EADDRINUSE
	// or EADDRNOTAVAIL if the requested number, or every number, is in use (transport 3.16).
	StartTM(ctx context.Context, a Address, completions int) (CoreTM, error)

	// Close closes the domain. The engine calls it only after it has stopped all TMs and deregistered all
	// buffers.
	Close() error
}

// CoreBuffer is a buffer that CoreDomain.Register has registered. Each Core has its own implementation.
type CoreBuffer interface {
	// Deregister ends the registration. The engine calls it only while no op on the buffer is in progress. It
	// may block.
	Deregister() error
}

// CoreTM is a Core's side of a started TM.
//
// Each op that Submit accepts produces exactly one completion with Final set, which is its last. An op on
// MsgRecv may produce any number of completions without Final before it. Completions are kept in order until
// Reap returns them.
//
// A Core never has to drop or delay a completion, because the engine reserves room in advance. For each op in
// progress it reserves as many completions as the op can produce: MaxMessages for an op on MsgRecv, and one
// for any other op. The reservation ends when the op's final completion has been reaped. The total never
// exceeds the number given to StartTM, or to Grow later.
type CoreTM interface {
	// Address returns the address of the TM. It contains the assigned number if Dynamic was requested.
	Address() Address
	// MatchBits returns the match bits that precede those of the TM's first passive buffer: RandomMatchBits
	// of the TM number. The first passive buffer gets the next ones (MatchBits.Next).
	MatchBits() MatchBits

	// Submit starts the ops, or cancels ops, in the order of the slice. It does not block, and does not use
	// the slice after it has returned. It returns the number of ops that the Core accepted. If this is less
	// than len(ops), the Core has refused the op that follows, err is the reason, and the Core has not looked
	// at the rest; the caller may submit the rest in another call. A Core that detects a reason for refusal
	// only later reports the error in the op's final completion. Completions of an op may become available
	// before Submit returns. Several goroutines may call Submit at a time.
	Submit(ops []Op) (taken int, err error)

	// Flush waits until peers can reach the buffers of all ops that Submit accepted before the call, except
	// ops that have ended. If until is not zero, Flush returns at this time at the latest. It also returns if
	// the Core is gone. A Core in this process returns immediately. Flush does not depend on completions
	// being reaped. Several goroutines may call it at a time.
	Flush(until time.Time)

	// Grow ensures room for n completions in total, not n more. It returns ENOBUFS if that is impossible.
	Grow(n int) error

	// Reap moves up to len(dst) completions into dst and returns their number, oldest first. It neither
	// blocks nor allocates. Only one goroutine at a time may call it.
	Reap(dst []Completion) int
	// Pending reports whether Reap would return a completion. It costs one atomic load.
	Pending() bool
	// Wait blocks until Pending returns true, until Wake is called, or until the given time, where zero means
	// no time limit. It may return early. Only one goroutine at a time may call Wait. Wake ends the Wait that
	// is in progress. If no Wait is in progress, the next Wait returns immediately.
	Wait(until time.Time)
	Wake()

	// Stop ends the TM and releases its address. It returns EBUSY if an op is still in progress. Completions
	// that were not reaped are discarded. Further calls of Stop have no effect. After Stop, Submit returns
	// ESHUTDOWN.
	Stop() error
}

// Op is a request to a Core: an operation on a buffer, or the cancellation of one (transport 6.7, 9.4).
type Op struct {
	// Queue is the queue of the buffer, and so determines the operation.
	Queue QueueType
	// Cancel means that this Op cancels another one: the op on the same Buffer with the same Sequence. The
	// final completion of that op then reports ECANCELED, or its outcome if it ended before the cancellation
	// took effect. The cancellation itself has no completion, and the Core accepts it as long as the TM
	// exists. It has no effect if the op has ended, even if the buffer was queued again or deregistered
	// since. The engine cancels only ops that Submit has accepted, but may cancel an op repeatedly.
	Cancel bool
	// Buffer is a buffer that Register returned.
	Buffer CoreBuffer
	// Sequence is the number of the op among all ops on the buffer. The op's completions contain it, so that
	// the engine can ignore a completion of an earlier op.
	Sequence uint32

	// Length is the number of bytes to move, from the beginning of the buffer. It is set for the queues that
	// send, and for ActiveBulkRecv, where it is the size in the peer's descriptor. The other queues use the
	// whole buffer.
	Length int
	// MinReceiveSize and MaxMessages are set for MsgRecv only; see the fields of Buffer.
	MinReceiveSize int
	MaxMessages    int
	// MatchBits are the match bits of the passive buffer: of this one on a passive queue, and of the peer's
	// on an active queue. Messages do not use them, because the address determines the match bits.
	MatchBits MatchBits
	// Peer is the destination of a message or of an active bulk operation.
	Peer Address
}

// Completion reports the progress of an op (transport 9.4). If Token is nil, it reports a change of the TM.
type Completion struct {
	// Token is the token that CoreDomain.Register was given for the buffer. Sequence is Op.Sequence.
	Token    any
	Sequence uint32
	// Final is set in the last completion of an op.
	Final bool
	// Err is nil on success. ECANCELED means that the op was cancelled before it was complete. EPROTO, in a
	// final completion, means that a message without a usable sender arrived; see transport 6.5 and 6.9. If
	// Token is nil, Err is an error of the TM: ENOBUFS means that a message was lost because no buffer was
	// free.
	Err error
	// Length is the number of bytes moved, and Offset is their position in the buffer.
	Length, Offset int
	// Sender is the sender of a message. If a completion on MsgRecv has nil Err and zero Sender, a message
	// without a usable sender has used space in the buffer; the engine counts this as a failure.
	Sender Address
	// Time is when the completion was created.
	Time time.Time

	// Down means that the Core is gone and that this is the last completion of the TM. The engine then ends
	// all queued operations with ECANCELED, and the TM fails with Err. Token is nil.
	Down bool
	// Diagnostic, if not nil, is passed to the program in a TM event. Token is nil.
	Diagnostic any
}

// Limits are the limits of the buffers of a domain (transport 3.4).
type Limits struct {
	// BufferSize and SegmentSize are the maximum sizes of a buffer and of a segment, in bytes. Segments is
	// the maximum number of segments of a buffer.
	BufferSize  int
	SegmentSize int
	Segments    int
	// DescriptorSize is the maximum length of a descriptor of a passive buffer, in bytes: the constant
	// DescriptorSize, or LargeDescriptorSize once this host has a large NID. TMs at a 4-byte NID always use
	// the shorter form.
	DescriptorSize int
	// Confine and Synchronous report whether the Core supports TransferMachine.Confine and synchronous
	// delivery. In the result of Domain.Limits, Confine also requires support by the operating system. A call
	// for an unsupported feature returns ENOSYS.
	Confine, Synchronous bool
	// PageSize is 0 if the Core moves data from and to any memory without copies. Otherwise the Core avoids
	// copies only for memory of Domain.Buffer, and for a limited number of other memory ranges. Such a range
	// must begin and end at a multiple of PageSize, be private to the process, not be backed by a file, and
	// not overlap another one. Data of buffers in any other memory are copied through shared memory,
	// CopyMemory bytes in total; Register returns EDQUOT if these are used up.
	PageSize, CopyMemory int
}
