package transport

import (
	"iter"
	"time"
)

// Callbacks are the functions that a TM calls for the events of a buffer, one for each queue (transport
// 3.10). Only the queues that the buffer is added to need a callback; the others may be nil.
//
// A TM calls one callback at a time: in its worker, or in DeliverAll if delivery is synchronous. It never
// calls a callback from within Add or Cancel, or with a lock held. A callback may add and cancel buffers,
// create and drop end points, use pools, and stop the TM. It must not wait for the TM, because other events
// and deadlines are delayed until it returns. It must not use the event after it has returned.
//
// A callback must return. If it calls runtime.Goexit in the worker, as testing's FailNow does, the worker
// panics. If it panics in the worker, the program ends. In DeliverAll, a Goexit or panic ends the call of
// DeliverAll: the event counts as delivered, and the next DeliverAll continues after it.
type Callbacks [QueueTypes]func(e *BufferEvent)

// BufferEvent reports the outcome of an operation on a buffer. It is valid until the callback returns.
type BufferEvent struct {
	// TM is the TM, Buffer the buffer, and Queue the queue that the buffer was added to.
	TM     *TransferMachine
	Buffer *Buffer
	Queue  QueueType
	// Final means that the program owns the buffer again. Every successful Add is followed by exactly one
	// final event. On MsgRecv, events that are not final may precede it, one for each message; the bytes of
	// such a message do not change while the TM fills the rest of the buffer.
	Final bool
	// Err is nil on success. It may match ECANCELED, ETIMEDOUT, EPROTO, or an error of the network such as
	// EIO or EHOSTUNREACH (transport 3.16). Success of a send means only that the buffer's data have been
	// sent, not that they have arrived.
	Err error
	// Length is the number of bytes received, and Offset is their position in the buffer. The offsets of
	// several messages may be in any order. Both fields are 0 for queues that send.
	Length, Offset int
	// EndPoint is the sender of a message on MsgRecv. The TM drops its reference when the callback returns.
	// To keep the end point longer, call its method Get.
	EndPoint *EndPoint
	// Time is when the event happened, which may be some time before the callback. It has a monotonic clock
	// reading.
	Time time.Time
}

// Data returns the received bytes in place, as a sequence of pieces, one for each segment.
func (e *BufferEvent) Data() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { e.Buffer.pieces(e.Offset, e.Length, yield) }
}

// Bytes returns the received bytes in place if the memory of the buffer is contiguous, as that of
// Domain.Buffer is. Otherwise it returns nil; use Data. The bytes are valid until the buffer is added again
// or freed.
func (e *BufferEvent) Bytes() []byte {
	if b := e.Buffer.Bytes(); b != nil {
		return b[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
	}
	return nil
}

// CopyTo copies the received bytes into p, and returns the number of bytes copied: the smaller of len(p) and
// e.Length.
func (e *BufferEvent) CopyTo(p []byte) int {
	return e.Buffer.CopyOut(e.Offset, p[:min(len(p), e.Length)])
}

// Add adds b to e.TM like TransferMachine.Add, but does not submit b to the Core immediately. The TM submits
// all buffers that callbacks have added with BufferEvent.Add together, in one call of the Core after the
// current round of callbacks. These buffers keep their order, but come after buffers that the same callbacks
// add with TransferMachine.Add. If the Core refuses b, a final event reports the error. Add may be called
// only in a callback.
func (e *BufferEvent) Add(b *Buffer) error {
	if e.TM == nil {
		return errNoCallback
	}
	return e.TM.deferAdd(b)
}

// TMEventType is the type of a TMEvent.
type TMEventType uint8

const (
	// TMStateChange means that the TM has entered the state Next.
	TMStateChange TMEventType = iota + 1
	// TMError reports an error that does not stop the TM. ENOBUFS means that a message was lost because no
	// buffer was free; not every Core can detect this.
	TMError
	// TMDiagnostic means that the Core reports diagnostic data.
	TMDiagnostic
)

// TMEvent reports a change of a TM (transport 3.5). It is valid until the callback returns.
type TMEvent struct {
	Type TMEventType
	TM   *TransferMachine
	Time time.Time
	// Err is the reason why the TM has entered StateFailed, or the error of a TMError.
	Err error
	// Next is the state of the TM; for TMStateChange, the new one.
	Next State
	// EndPoint is the TM's own end point if Next is StateStarted.
	EndPoint *EndPoint
	// Diagnostic is the Core's diagnostic data.
	Diagnostic any
}
