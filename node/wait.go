package node

import (
	"context"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// PutWait sends b and waits until it is acknowledged, with o.Ack, or has left.
// It returns how much of it the target took, which without an acknowledgement
// nobody can know: then it is len(b). An error is that of the message, ctx's
// if it ends first, ErrTimedOut if no acknowledgement comes within the
// transaction timeout, or ErrClosed. When ctx has ended or the node has closed
// the message may still be under way: b must then stay as it is for good.
func (n *Node) PutWait(ctx context.Context, b []byte, to lnet.ProcessID, o PutOptions) (int, error) {
	last := portals.EventSend
	if o.Ack {
		last = portals.EventAck
	}
	length, err := n.wait(ctx, b, last, func(h lnet.Handle) error { return n.Put(h, to, o) })
	if err != nil {
		return 0, fmt.Errorf("put to %s: %w", to, err)
	}
	return length, nil
}

// GetWait fetches into b and waits for the data. It returns how many bytes
// came; what is longer than b is cut off. Errors are as with PutWait, and when
// ctx has ended or the node has closed b must not be used any more.
func (n *Node) GetWait(ctx context.Context, b []byte, to lnet.ProcessID, o GetOptions) (int, error) {
	length, err := n.wait(ctx, b, portals.EventReply, func(h lnet.Handle) error { return n.Get(h, to, o) })
	if err != nil {
		return 0, fmt.Errorf("get from %s: %w", to, err)
	}
	return length, nil
}

// wait makes an MD of b, starts a request with it, and waits for the event
// that brings the answer and for the MD's end.
func (n *Node) wait(ctx context.Context, b []byte, answer portals.EventType, start func(lnet.Handle) error) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(n.ctx, func() { cancel(ErrClosed) })
	defer stop()

	threshold := 2
	if answer == portals.EventSend {
		threshold = 1
	}
	q := NewEventQueue(EventsOf(answer))
	h, err := n.Bind(portals.MD{
		Bytes: b, Threshold: threshold, Options: portals.Truncate, Handler: q, Unlink: true,
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
			length = e.Length
		}
	}
	switch {
	case err != nil:
		return 0, err
	case length < 0:
		return 0, ErrTimedOut
	}
	return length, nil
}
