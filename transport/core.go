package transport

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Core is an access to LNet that a Domain runs on (transport 2). Programs obtain one from package inproc or
// mem and pass it to NewDomain. Its methods matter only to implementations and to tests of this package.
//
// All methods are safe for concurrent use unless their comment states otherwise. No method calls back into
// package transport. Errors match an errno with errors.Is.
type Core interface {
	// Name returns the name that tools print, such as "lnet" or "mem".
	Name() string
	// Open creates the Core's side of a domain. It may block until ctx ends.
	Open(ctx context.Context) (CoreDomain, error)
}

// CoreDomain is a Core's side of a Domain.
type CoreDomain interface {
	// Limits returns the limits of this domain. They are constant, except that DescriptorSize may grow.
	Limits() Limits
	// NIDs returns the local NIDs, including loopback (transport 6.1). It may block.
	NIDs(ctx context.Context) ([]lnet.NID, error)

	// Alloc returns n bytes of zeroed, page-aligned memory. Register accepts any part of it and moves its
	// data without copies. Free releases it and must be given the slice that Alloc returned. Free returns
	// EBUSY while a buffer in this memory is registered. Both may block.
	Alloc(ctx context.Context, n int) ([]byte, error)
	Free(b []byte) error

	// Register makes segments a buffer that ops can refer to. The engine has checked them against the
	// limits, and does not change or move them until Deregister. Completions of the buffer carry token.
	// Register may block. It returns EFBIG if the buffer has too many pieces for this Core, EINVAL if the
	// Core cannot access the memory, and EDQUOT if a quota is used up.
	Register(ctx context.Context, segments [][]byte, token any) (CoreBuffer, error)

	// StartTM starts a TM at an address, with room for the given number of completions. If the TMID is
	// Dynamic, it chooses a free one. It may block until ctx ends. It returns ENOENT if the NID or PID does
	// not belong to this host, EINVAL if the portal or TMID is invalid (0, for example), EADDRINUSE or
	// EADDRNOTAVAIL (transport 3.16).
	StartTM(ctx context.Context, a Address, completions int) (CoreTM, error)

	// Close closes the domain. By then the engine has stopped all TMs and deregistered all buffers.
	Close() error
}

// CoreBuffer is a registered buffer. Each Core has its own type.
type CoreBuffer interface {
	// Deregister ends the registration. No op on the buffer is in progress. It may block.
	Deregister() error
}

// CoreTM is a Core's side of a started TM.
//
// Each op that Submit accepts produces exactly one completion with Final set. An op on MsgRecv may produce
// any number of completions without Final before that. Completions are kept in order until Reap returns
// them. The Core has room for as many as StartTM or Grow were given, and the engine never exceeds that:
// until an op's final completion is reaped, it reserves MaxMessages completions for an op on MsgRecv, and
// one for any other. So a Core never has to drop or delay a completion.
type CoreTM interface {
	// Address returns the address of the TM. It contains the assigned number if Dynamic was requested.
	Address() Address
	// MatchBits returns RandomMatchBits of the TM. Its first passive buffer gets the next ones.
	MatchBits() MatchBits

	// Submit hands over ops in order. It does not block, and does not use the slice after it has returned.
	// It returns the number of ops accepted. If that is fewer than all, err is the reason why the next op
	// was refused; the caller may continue after that op. If a Core detects a refusal later, it reports it
	// by a final completion with the error. Completions of an op may become available before Submit
	// returns. Several goroutines may call it.
	Submit(ops []Op) (taken int, err error)

	// Flush waits until peers can reach the buffers of all ops accepted by Submit before the call. It
	// ignores ops that have ended. A Core in this process returns at once. Other Cores also return at the
	// time until, unless it is zero, and when the Core is gone. Flush does not depend on completions being
	// reaped. Several goroutines may call it.
	Flush(until time.Time)

	// Grow ensures room for n completions in total. It returns ENOBUFS if that is impossible.
	Grow(n int) error

	// Reap moves up to len(dst) completions into dst and returns their number. It neither blocks nor
	// allocates. Only one goroutine at a time may call it.
	Reap(dst []Completion) int
	// Pending reports whether Reap would return a completion. It costs one atomic load.
	Pending() bool
	// Wait blocks until Pending returns true, Wake is called, or the time until, unless that is zero. It
	// may return early. Only one goroutine at a time may call it. Wake ends the current Wait; if there is
	// none, the next Wait returns at once.
	Wait(until time.Time)
	Wake()

	// Stop ends the TM and releases its address. It returns EBUSY if an op is still in progress.
	// Completions that were not reaped are discarded. Later calls have no effect; Submit then returns
	// ESHUTDOWN.
	Stop() error
}

// Op is a request to a Core: an operation on a buffer, or the cancellation of one (transport 6.7, 9.4).
type Op struct {
	// Queue selects one of the six operations.
	Queue QueueType
	// Cancel requests the end of the op on this buffer with the same Sequence. The final completion of that
	// op reports ECANCELED, or the outcome that preceded the cancellation. The cancellation has no
	// completion itself, and is not refused while the TM exists. It has no effect if the op has ended, even
	// if the buffer was queued again or deregistered. The engine cancels only ops that Submit has accepted,
	// but may cancel one repeatedly.
	Cancel bool
	// Buffer is a buffer that Register returned.
	Buffer CoreBuffer
	// Sequence counts the ops of the buffer. Completions repeat it.
	Sequence uint32

	// Length is the number of bytes to move, from the beginning of the buffer. It is set for the queues
	// that send and for ActiveBulkRecv, where it is the size in the descriptor. The other queues use the
	// whole buffer.
	Length int
	// MinReceiveSize and MaxMessages apply to MsgRecv; see Buffer.
	MinReceiveSize int
	MaxMessages    int
	// MatchBits are those that a passive buffer waits for, or those of the passive buffer that an active
	// operation accesses. Messages do not use them, because the address determines the match bits.
	MatchBits MatchBits
	// Peer is the destination of a message or of an active bulk operation.
	Peer Address
}

// Completion reports the progress of an op (transport 9.4) or, if Token is nil, a change of the TM.
type Completion struct {
	// Token is the token of the buffer, Sequence that of the op.
	Token    any
	Sequence uint32
	// Final is set in the last completion of the op.
	Final bool
	// Err is nil on success. ECANCELED means that the op was cancelled in time. EPROTO, in a final
	// completion, means a message without a usable sender; see transport 6.5 and 6.9. If Token is nil, Err
	// is an error of the TM: ENOBUFS means that a message was lost because no buffer was free.
	Err error
	// Length is the number of bytes moved, Offset their position in the buffer.
	Length, Offset int
	// Sender is the sender of a message. A completion on MsgRecv with nil Err and zero Sender reports a
	// message without a usable sender that has used space in the buffer; the engine counts it as a failure.
	Sender Address
	// Time is when the completion was created.
	Time time.Time

	// Down means that the Core is gone and no other completion will follow. The engine cancels everything
	// that is queued, and the TM fails with Err. Token is nil.
	Down bool
	// Diagnostic, if not nil, is passed to the program in a TM event. Token is nil.
	Diagnostic any
}

// Limits are the limits of the buffers of a domain (transport 3.4).
type Limits struct {
	// BufferSize and SegmentSize are in bytes. Segments is the maximum number of segments.
	BufferSize  int
	SegmentSize int
	Segments    int
	// DescriptorSize is the length of the longest descriptor of a passive buffer, in bytes. It is the
	// package's constant of the same name, or LargeDescriptorSize once a local NID is a large one. TMs at a
	// 4-byte NID always use the shorter form.
	DescriptorSize int
	// Confine and Synchronous report whether the Core supports TransferMachine.Confine and synchronous
	// delivery. In Domain.Limits, Confine also requires support by the operating system. Calls for an
	// unsupported feature return ENOSYS.
	Confine, Synchronous bool
	// PageSize is 0 if the Core moves data from and to any memory without copies. Otherwise it avoids
	// copies for memory of Domain.Buffer, and for a bounded number of other ranges. These must begin and
	// end at multiples of PageSize, be private to the process and not backed by a file, and not overlap.
	// Buffers in other memory are copied through CopyMemory bytes in total; Register returns EDQUOT if they
	// are used up.
	PageSize, CopyMemory int
}
