package transport

import (
	"iter"
	"time"
)

// Callbacks are called for the events of a buffer, by the queue that it is on (transport
// 3.10). One that the buffer is not added to may be nil.
//
// A TM calls one callback at a time, in its worker, or in DeliverAll with synchronous
// delivery; never on the stack of Add or Cancel, and under no lock. It may add and cancel
// buffers, make and drop end points, use pools, and stop the TM; it must not wait for the
// TM, whose other events and time-outs wait for it. What it does with the event must be
// done when it returns; and it must return. In the worker runtime.Goexit, and so testing's
// FailNow, is a panic, and a panic ends the program. In DeliverAll either ends the call: the
// event counts as delivered, and the next DeliverAll goes on behind it.
type Callbacks [QueueTypes]func(e *BufferEvent)

// BufferEvent tells what has become of a buffer. It is valid until the callback returns.
type BufferEvent struct {
	// TM is the one that the buffer was added to.
	TM     *TransferMachine
	Buffer *Buffer
	Queue  QueueType
	// Final says that the buffer is the program's again. Every Add that has returned nil is
	// followed by one such event; before it may come any number that are not final, with
	// MsgRecv alone, one for each message: the memory behind it stays as it is, the rest
	// is being filled.
	Final bool
	// Err is nil if all went well. errors.Is tells ECANCELED, ETIMEDOUT, EPROTO, and what
	// the network says: EIO, EHOSTUNREACH, and so on (transport 3.16). That a message or
	// bulk was sent means that it has left the buffer, no more.
	Err error
	// Length bytes have come, Offset bytes into the buffer: events of several messages
	// need not come in the order of their offsets. Of queues that send, both are 0.
	Length, Offset int
	// EndPoint is the sender of a message. It is dropped when the callback returns: who
	// keeps it calls its Get.
	EndPoint *EndPoint
	// Time is when it happened, which may be a while ago; Time.Sub of what time.Now says
	// is by the monotonic clock.
	Time time.Time
}

// Data is the bytes that have come, in place and in pieces that follow one another.
func (e *BufferEvent) Data() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { e.Buffer.pieces(e.Offset, e.Length, yield) }
}

// Bytes is the bytes that have come, in place, if they lie in one piece, as they do with
// Domain.Buffer; else nil, and Data has them. They are valid as long as the buffer is the
// program's, and of an event that is not final until the buffer is added again.
func (e *BufferEvent) Bytes() []byte {
	if b := e.Buffer.Bytes(); b != nil {
		return b[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
	}
	return nil
}

// CopyTo copies the bytes that have come into p, and returns how much of them fitted.
func (e *BufferEvent) CopyTo(p []byte) int {
	return e.Buffer.CopyOut(e.Offset, p[:min(len(p), e.Length)])
}

// Add is TransferMachine.Add of b to TM, but b goes to the Core at the end of this round of
// callbacks, together with what other callbacks of the round add so, at the cost of one
// call of the Core; of those, in their order, and behind what callbacks add by
// TransferMachine.Add. What the Core refuses then, ends with a final event, whose Err says
// why. It is for callbacks alone.
func (e *BufferEvent) Add(b *Buffer) error {
	if e.TM == nil {
		return errNoCallback
	}
	return e.TM.addLater(b)
}

// TMEventType says what a TMEvent is.
type TMEventType uint8

const (
	// TMStateChange: the TM has the state Next now.
	TMStateChange TMEventType = iota + 1
	// TMError: something is wrong, and the TM goes on. ENOBUFS: a message was lost since
	// there was no buffer for it, which not every Core can tell.
	TMError
	// TMDiagnostic: the Core has something to say.
	TMDiagnostic
)

// TMEvent tells what has become of a TM (transport 3.5). It is valid until the callback
// returns.
type TMEvent struct {
	Type TMEventType
	TM   *TransferMachine
	Time time.Time
	// Err is why the state is StateFailed, or what is wrong.
	Err error
	// Next is the state that it has now.
	Next State
	// EndPoint is its own, if Next is StateStarted.
	EndPoint *EndPoint
	// Diagnostic is what the Core says.
	Diagnostic any
}
