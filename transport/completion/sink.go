package completion

import (
	"context"

	"github.com/lnetd/lnetd/transport"
)

// Sink receives the completions of a TM that has no Queue. It can forward them, for example to another
// process, without an additional goroutine.
//
// The Core calls it in the goroutine that creates the completion, possibly with locks held. So both methods
// must not block, except on a short lock, and must not call the Core. Several goroutines may call them
// concurrently, and calls may still be running when TM.Stop returns.
type Sink interface {
	// Push receives a completion of an op. Completions of one op arrive in order. After the final one the
	// buffer can be used by another op.
	Push(c transport.Completion)
	// PushTM receives a completion of the TM, which has no Token. It returns false if it discards the
	// completion.
	PushTM(c transport.Completion) bool
}

// Outlet is the destination of a TM's completions: a Queue or, if that is nil, a Sink. Neither allocates.
type Outlet struct {
	Queue *Queue
	Sink  Sink
}

// Push passes on a copy of c, the completion of an op.
func (o *Outlet) Push(c *transport.Completion) {
	if o.Queue != nil {
		o.Queue.Push(c)
		return
	}
	o.Sink.Push(*c)
}

// PushTM passes on a copy of c, a completion of the TM. It returns false if c was discarded.
func (o *Outlet) PushTM(c *transport.Completion) bool {
	if o.Queue != nil {
		return o.Queue.PushTM(c)
	}
	return o.Sink.PushTM(*c)
}

// Domain is a CoreDomain in this process that supports TMs with a Sink, and buffers in memory mapped by
// other code.
type Domain interface {
	transport.CoreDomain
	// StartTMTo is like StartTM, but the TM's completions go to a sink, which must have room for them.
	StartTMTo(ctx context.Context, a transport.Address, to Sink) (TM, error)
	// Adopt treats b, whole pages owned by the caller, as memory of Alloc, so that buffers in it are
	// registered without blocking. Free(b) ends that, or returns EBUSY while a buffer in it is registered.
	// The caller remains responsible for the mapping.
	Adopt(ctx context.Context, b []byte) error
}

// TM is the part of transport.CoreTM that handles ops.
type TM interface {
	Address() transport.Address
	MatchBits() transport.MatchBits
	Submit(ops []transport.Op) (taken int, err error)
	Stop() error
}
