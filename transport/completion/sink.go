package completion

import (
	"context"

	"github.com/lnetd/lnetd/transport"
)

// Sink is where the completions of a TM go that has no Queue: to somebody who hands them
// on, to another process for example, without a goroutine between.
//
// The Core calls it in whichever goroutine makes a completion, and may hold locks of its
// own: neither method blocks, but on a short lock, or calls the Core. Several goroutines
// may call them at once, and one that has begun may yet be in there when TM.Stop has
// returned.
type Sink interface {
	// Push takes a completion of an op. Those of one op come one behind the other, and
	// when the final one comes, the buffer is free for another op.
	Push(c transport.Completion)
	// Tell takes a completion that tells of the TM, and has no Token. It returns false if
	// it does not.
	Tell(c transport.Completion) bool
}

// Outlet is where a Core puts the completions of a TM: a Queue or, if there is none, a
// Sink. Neither allocates.
type Outlet struct {
	Queue *Queue
	Sink  Sink
}

// Push hands over a copy of c, the completion of an op.
func (o *Outlet) Push(c *transport.Completion) {
	if o.Queue != nil {
		o.Queue.Push(c)
		return
	}
	o.Sink.Push(*c)
}

// Tell hands over a copy of c, which tells of the TM, or returns false.
func (o *Outlet) Tell(c *transport.Completion) bool {
	if o.Queue != nil {
		return o.Queue.Tell(c)
	}
	return o.Sink.Tell(*c)
}

// Domain is a CoreDomain within the process whose TMs may have a Sink, and which takes
// memory that others have mapped.
type Domain interface {
	transport.CoreDomain
	// StartTMTo is StartTM for a TM whose completions go to a sink, which sees to it that
	// there is room for them.
	StartTMTo(ctx context.Context, a transport.Address, to Sink) (TM, error)
	// Adopt has b, whole pages that are the caller's, count as memory of Alloc from then
	// on: buffers of it are registered without blocking. Free(b) ends that: EBUSY while a
	// buffer of it is registered. The mapping is the caller's before, between and after.
	Adopt(ctx context.Context, b []byte) error
}

// TM is the part of a transport.CoreTM that has to do with ops.
type TM interface {
	Address() transport.Address
	MatchBits() transport.MatchBits
	Submit(ops []transport.Op) (taken int, err error)
	Stop() error
}
