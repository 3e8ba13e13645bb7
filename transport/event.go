package transport

import (
	"iter"
	"time"
)

// Callbacks are the functions called for the events of a buffer, one for each queue (transport 3.10). Those
// for queues that the buffer is not added to may be nil.
//
// A TM calls one callback at a time, in its worker, or in DeliverAll if delivery is synchronous. It never
// calls one from within Add or Cancel, or with a lock held. A callback may add and cancel buffers, create
// and drop end points, use pools, and stop the TM. It must not wait for the TM, because other events and
// deadlines are delayed until it returns. It must not use the event after it has returned.
//
// A callback must return. If it calls runtime.Goexit in the worker, as testing's FailNow does, the worker
// panics; a panic ends the program. In DeliverAll, either one ends the call: the event counts as delivered,
// and the next DeliverAll continues after it.
type Callbacks [QueueTypes]func(e *BufferEvent)

// BufferEvent reports the outcome of an operation on a buffer. It is valid until the callback returns.
type BufferEvent struct {
	// TM is the TM that the buffer was added to.
	TM     *TransferMachine
	Buffer *Buffer
	Queue  QueueType
	// Final means that the program owns the buffer again. Every successful Add is followed by exactly one
	// final event. On MsgRecv, one event that is not final may precede it for each message; then the
	// received bytes stay as they are while the rest of the buffer is being filled.
	Final bool
	// Err is nil on success. It may match ECANCELED, ETIMEDOUT, EPROTO, or an error of the network such as
	// EIO or EHOSTUNREACH (transport 3.16). Success of a send means only that the data has left the buffer.
	Err error
	// Length is the number of bytes received, Offset their position in the buffer. Events of several
	// messages may arrive in any order of offsets. Both are 0 for queues that send.
	Length, Offset int
	// EndPoint is the sender of a message. The reference is dropped when the callback returns; call Get to
	// keep it.
	EndPoint *EndPoint
	// Time is when the event happened, which may be earlier than its delivery. It has a monotonic clock
	// reading.
	Time time.Time
}

// Data returns the received bytes in place, as consecutive pieces.
func (e *BufferEvent) Data() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { e.Buffer.pieces(e.Offset, e.Length, yield) }
}

// Bytes returns the received bytes in place if they are contiguous, as with Domain.Buffer. Otherwise it
// returns nil; use Data. The bytes are valid until the buffer is added again or freed.
func (e *BufferEvent) Bytes() []byte {
	if b := e.Buffer.Bytes(); b != nil {
		return b[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
	}
	return nil
}

// CopyTo copies the received bytes into p, and returns the number of bytes that fitted.
func (e *BufferEvent) CopyTo(p []byte) int {
	return e.Buffer.CopyOut(e.Offset, p[:min(len(p), e.Length)])
}

// Add is like TransferMachine.Add of b to e.TM, but submits b to the Core at the end of this round of
// callbacks, in one call with all other buffers added in this way. They keep their order, and follow
// buffers that callbacks add by TransferMachine.Add. If the Core refuses b, a final event reports the
// error. Add may be called only in a callback.
func (e *BufferEvent) Add(b *Buffer) error {
	if e.TM == nil {
		return errNoCallback
	}
	return e.TM.deferAdd(b)
}

// TMEventType is the type of a TMEvent.
type TMEventType uint8

const (
	// TMStateChange: the TM has entered the state Next.
	TMStateChange TMEventType = iota + 1
	// TMError: an error that does not stop the TM. ENOBUFS means that a message was lost because no buffer
	// was free; not every Core can detect this.
	TMError
	// TMDiagnostic: the Core reports diagnostic data.
	TMDiagnostic
)

// TMEvent reports a change of a TM (transport 3.5). It is valid until the callback returns.
type TMEvent struct {
	Type TMEventType
	TM   *TransferMachine
	Time time.Time
	// Err is the cause of StateFailed, or the error of a TMError.
	Err error
	// Next is the state of the TM.
	Next State
	// EndPoint is the TM's own end point if Next is StateStarted.
	EndPoint *EndPoint
	// Diagnostic is the Core's diagnostic data.
	Diagnostic any
}
