package inproc

import (
	"errors"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport"
)

// buffer is a CoreBuffer. It contains the state of its op, and handles the events of the op's memory
// descriptor.
type buffer struct {
	domain *domain
	token  any
	// memory is the whole buffer. regions were registered for this buffer alone. areas are those that contain
	// its other segments; buffers in an area share its registration.
	memory  memory.Vector
	regions []*memory.Region
	areas   []*area

	mu           sync.Mutex // guards the fields below
	deregistered bool
	// tm is the TM of the op in progress, or nil. opNumber is incremented for each op, so that a late call
	// for an earlier op can be recognized.
	tm       *tm
	opNumber uint64
	sequence uint32
	queue    transport.QueueType
	// handle is the handle of the op's memory descriptor. It is NoHandle until the node has returned it.
	handle   lnet.Handle
	canceled bool // cancellation was requested
	refused  bool // the op could not begin, and its memory descriptor is being unlinked
	fetch    fetch
}

// fetch is the state of an op on ActiveBulkRecv. Its GET has two events, SEND and REPLY, in either order.
type fetch struct {
	failed  error // error of SEND: the request could not be sent
	replied bool
	reply   outcome
}

// outcome is the result of an op or, on MsgRecv, of one message.
type outcome struct {
	err            error
	length, offset int
}

// submit begins an op of TM t. If it returns an error, no completion follows. more means that the caller will
// submit another op.
func (b *buffer) submit(t *tm, op *transport.Op, more bool) error {
	b.mu.Lock()
	err := t.checkOpen()
	switch {
	case err != nil:
	case b.deregistered:
		err = errForeign
	case b.tm != nil:
		err = errBusy
	}
	if err != nil {
		b.mu.Unlock()
		return err
	}
	b.tm, b.queue, b.sequence = t, op.Queue, op.Sequence
	b.opNumber++
	number := b.opNumber
	b.mu.Unlock()

	h, err := t.start(op, b, more)
	if err != nil {
		b.unlinkFailed(h)
		return wrapRefusal(err)
	}
	b.recordHandle(number, h)
	return nil
}

// wrapRefusal adds an errno to an error without one.
func wrapRefusal(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return err
	}
	return wrap(err)
}

// unlinkFailed cleans up after an op that could not begin. It unlinks the op's memory descriptor, if h is not
// NoHandle. No event of the descriptor has been delivered yet; an UNLINK may be delivered during this call
// and is ignored.
func (b *buffer) unlinkFailed(h lnet.Handle) {
	b.mu.Lock()
	b.refused = true
	b.mu.Unlock()
	b.unlink(h)
	b.mu.Lock()
	b.reset()
	b.mu.Unlock()
}

// recordHandle records the handle of op number n, unless the op has ended already. If the op was cancelled in
// the meantime, it unlinks the descriptor.
func (b *buffer) recordHandle(n uint64, h lnet.Handle) {
	b.mu.Lock()
	late := false
	if b.opNumber == n && b.tm != nil {
		b.handle, late = h, b.canceled
	}
	b.mu.Unlock()
	if late && errors.Is(b.domain.core.node.Unlink(h), portals.ErrClosed) {
		b.endLost(n)
	}
}

// endLost ends op number n, which was to be cancelled, if it is still in progress. The caller has found that
// the node is closed, so the op's descriptor is gone and no event will follow. (If Unlink merely does not
// find the descriptor, an event follows when the driver has released the memory.)
func (b *buffer) endLost(n uint64) {
	b.mu.Lock()
	t := b.tm
	if t == nil || b.opNumber != n {
		b.mu.Unlock()
		return
	}
	c := b.completion(true, &outcome{err: errCanceled})
	b.reset()
	b.mu.Unlock()
	t.push(&c)
}

// cancel cancels the op of t with the given sequence number, if it is still in progress.
func (b *buffer) cancel(t *tm, sequence uint32) {
	b.mu.Lock()
	h := lnet.NoHandle
	if b.tm == t && b.sequence == sequence {
		h = b.markCanceled()
	}
	b.mu.Unlock()
	b.unlink(h)
}

// abort cancels the buffer's op. It does nothing if no op is in progress.
func (b *buffer) abort() {
	b.mu.Lock()
	h := b.markCanceled()
	b.mu.Unlock()
	b.unlink(h)
}

// markCanceled marks the op in progress as cancelled. It returns the handle that the caller must unlink, or
// NoHandle if there is no op or its handle is not known yet. mu is held.
func (b *buffer) markCanceled() lnet.Handle {
	b.canceled = b.tm != nil
	return b.handle
}

func (b *buffer) unlink(h lnet.Handle) {
	if h != lnet.NoHandle {
		_ = b.domain.core.node.Unlink(h) // ErrNotFound means that the last event of h is being delivered
	}
}

// reset clears the state of the op after its end. mu is held.
func (b *buffer) reset() {
	b.tm, b.handle = nil, lnet.NoHandle
	b.canceled, b.refused = false, false
	b.fetch = fetch{}
}

// completion returns a completion of the op in progress. mu is held.
func (b *buffer) completion(final bool, o *outcome) transport.Completion {
	return transport.Completion{
		Token: b.token, Sequence: b.sequence, Final: final, Err: o.err, Length: o.length, Offset: o.offset,
	}
}

// HandleEvent implements portals.Handler.
func (b *buffer) HandleEvent(e *portals.Event) {
	b.mu.Lock()
	t := b.tm
	if t == nil || b.refused {
		b.mu.Unlock()
		return
	}
	var o outcome
	what := b.interpret(e, &o)
	var c transport.Completion
	if what == intermediate || what == final {
		c = b.completion(what == final, &o)
		if b.queue == transport.MsgRecv && e.Type == portals.EventPut {
			b.sender(e, &c)
		}
	}
	if what == final {
		b.reset()
	}
	b.mu.Unlock()
	switch what {
	case intermediate, final:
		t.push(&c)
	case unlinkNeeded:
		b.unlink(e.MD)
	}
}
