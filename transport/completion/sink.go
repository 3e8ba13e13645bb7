package completion

import (
	"context"

	"github.com/lnetd/lnetd/transport"
)

// Sink receives the completions of a TM, in place of a Queue. It can forward them, for example to another
// process, without an additional goroutine.
//
// The Core calls the methods in the goroutine that creates the completion, possibly with locks held. So both
// must not block, except on a short lock, and must not call the Core. Several goroutines may call them at a
// time, and calls may still be running when TM.Stop returns.
type Sink interface {
	// Push receives a completion of an op. Completions of one op arrive in order. After the final one,
	// another op may already use the buffer.
	Push(c transport.Completion)
	// PushTM receives a completion of the TM itself, which has no Token. It returns false if it discards the
	// completion.
	PushTM(c transport.Completion) bool
}

// Outlet is the destination of a TM's completions: Queue, or Sink if Queue is nil. Its methods allocate
// nothing.
type Outlet struct {
	Queue *Queue
	Sink  Sink
}

// Push passes a copy of c, the completion of an op, to the destination.
func (o *Outlet) Push(c *transport.Completion) {
	if o.Queue != nil {
		o.Queue.Push(c)
		return
	}
	o.Sink.Push(*c)
}

// PushTM passes a copy of c, a completion of the TM itself, to the destination. It returns false if c was
// discarded.
func (o *Outlet) PushTM(c *transport.Completion) bool {
	if o.Queue != nil {
		return o.Queue.PushTM(c)
	}
	return o.Sink.PushTM(*c)
}

// Domain is a CoreDomain in this process with two additions for lnetd: TMs whose completions go to a Sink,
// and buffers in memory that the caller has mapped.
type Domain interface {
	transport.CoreDomain
	// StartTMTo is like StartTM, but the TM's completions go to a Sink, which must have room for them.
	StartTMTo(ctx context.Context, a transport.Address, to Sink) (TM, error)
	// Adopt makes the domain treat b like memory of Alloc, so that buffers in it can be registered without
	// blocking. b must consist of whole pages and belongs to the caller. Free(b) ends this, without unmapping
	// b; it returns EBUSY while a buffer in b is registered.
	Adopt(ctx context.Context, b []byte) error
}

// TM is the part of transport.CoreTM that handles ops, but not completions.
type TM interface {
	Address() transport.Address
	MatchBits() transport.MatchBits
	Submit(ops []transport.Op) (taken int, err error)
	Stop() error
}
