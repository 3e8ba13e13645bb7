package node

import (
	"context"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// PutWait sends b and waits until it is acknowledged, with o.Ack, or has left.
// It returns how much of it the target took, which without an acknowledgement
// nobody can know: then it is len(b). An error is that of the message, ctx's
// if it ends first, ErrTimedOut if no acknowledgement comes within one and a quarter
// transaction timeouts, or ErrClosed. When ctx has ended or the node has closed
// the message may still be under way: b must then stay as it is for good.
// ErrInHandler: a handler has called it.
func (n *Node) PutWait(ctx context.Context, b []byte, to lnet.ProcessID, o PutOptions) (int, error) {
	last := portals.EventSend
	if o.Ack {
		last = portals.EventAck
	}
	return n.wait(ctx, b, last, portals.TrackResponse, func(h lnet.Handle) error { return n.Put(h, to, o) })
}

// GetWait fetches into b and waits for the data. It returns how many bytes
// came; what is longer than b is cut off. Errors are as with PutWait, and when
// ctx has ended or the node has closed b must not be used any more.
func (n *Node) GetWait(ctx context.Context, b []byte, to lnet.ProcessID, o GetOptions) (int, error) {
	return n.wait(ctx, b, portals.EventReply, portals.TrackResponse, func(h lnet.Handle) error { return n.Get(h, to, o) })
}

// wait makes an MD of b, starts a request with it, and waits for the event
// that brings the answer and for the MD's end.
func (n *Node) wait(
	ctx context.Context, b []byte, answer portals.EventType, tracking portals.MDOptions, start func(lnet.Handle) error,
) (int, error) {
	if err := n.mayWait(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(n.ctx, func() { cancel(ErrClosed) })
	defer stop()

	threshold := 2
	if answer == portals.EventSend {
		threshold = 1
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	q := NewEventQueue(EventsOf(answer))
	h, err := n.Bind(portals.MD{
		Bytes: b, Threshold: threshold, Options: portals.Truncate | tracking, Handler: q, Unlink: true,
	})
	if err != nil {
		return 0, err
	}
	if err := start(h); err != nil {
		_ = n.Unlink(h) // not found: it is closed
		return 0, err
	}
	length := -1
	var e portals.Event
	for !e.Unlinked {
		if q.Next(ctx, &e) != nil {
			_ = n.Unlink(h) // not found: the answer came at this moment
			return 0, context.Cause(ctx)
		}
		switch {
		case e.Err != nil:
			err = e.Err
			_ = n.Unlink(h) // not found: it was the last event
		case e.Type == answer:
			length = min(max(e.Length, 0), len(b)) // a peer may say what it likes
		}
	}
	switch {
	case length >= 0: // even if the driver could not tell that it had left
		return length, nil
	case err != nil:
		return 0, err
	}
	return 0, ErrTimedOut
}
