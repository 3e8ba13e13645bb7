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

// buffer is a CoreBuffer. It holds the state of its op, and handles the events of the op's memory
// descriptor.
type buffer struct {
	domain *domain
	token  any
	// memory is the whole buffer. regions are registered for this buffer, areas are shared.
	memory  memory.Vector
	regions []*memory.Region
	areas   []*area

	mu           sync.Mutex // guards the fields below
	deregistered bool
	// tm is the TM of the current op, or nil. opNumber is incremented for each op.
	tm       *tm
	opNumber uint64
	sequence uint32
	queue    transport.QueueType
	// handle is the op's descriptor once it is known, otherwise NoHandle.
	handle   lnet.Handle
	canceled bool // cancellation was requested
	refused  bool // the op could not begin, and its descriptor is being unlinked
	fetch    fetch
}

// fetch is the state of an op on ActiveBulkRecv. It has two events, SEND and REPLY, in either order.
type fetch struct {
	failed  error // the request could not be sent
	replied bool
	reply   outcome
}

// outcome is the result of an op or of a message.
type outcome struct {
	err            error
	length, offset int
}

// submit begins an op. After an error there is no completion.
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
	turn := b.opNumber
	b.mu.Unlock()

	h, err := t.start(op, b, more)
	if err != nil {
		b.unlinkFailed(h)
		return wrapRefusal(err)
	}
	b.recordHandle(turn, h)
	return nil
}

// wrapRefusal adds an errno to an error without one.
func wrapRefusal(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return err
	}
	return wrap(err)
}

// unlinkFailed unlinks the descriptor of an op that could not begin, if it has one. The descriptor has had no
// event. Only UNLINK may follow, within this call.
func (b *buffer) unlinkFailed(h lnet.Handle) {
	b.mu.Lock()
	b.refused = true
	b.mu.Unlock()
	b.unlink(h)
	b.mu.Lock()
	b.reset()
	b.mu.Unlock()
}

// recordHandle records the descriptor of op number n, unless the op has ended already.
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

// endLost ends op number n that was to be canceled, if its descriptor disappeared with the node so that
// no event will follow. If the descriptor is merely not found, an event follows when the driver has
// released the memory.
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

// cancel ends the op of t with a sequence number, if it is still in progress.
func (b *buffer) cancel(t *tm, sequence uint32) {
	b.mu.Lock()
	h := lnet.NoHandle
	if b.tm == t && b.sequence == sequence {
		h = b.markCanceled()
	}
	b.mu.Unlock()
	b.unlink(h)
}

// abort ends the op in progress. Without one it has no effect.
func (b *buffer) abort() {
	b.mu.Lock()
	h := b.markCanceled()
	b.mu.Unlock()
	b.unlink(h)
}

// markCanceled marks the current op as canceled. It returns the handle to unlink, or NoHandle if that is not
// known yet. mu is held.
func (b *buffer) markCanceled() lnet.Handle {
	b.canceled = b.tm != nil
	return b.handle
}

func (b *buffer) unlink(h lnet.Handle) {
	if h != lnet.NoHandle {
		_ = b.domain.core.node.Unlink(h) // not found means that its last event is on its way
	}
}

// reset resets the state after an op. mu is held.
func (b *buffer) reset() {
	b.tm, b.handle = nil, lnet.NoHandle
	b.canceled, b.refused = false, false
	b.fetch = fetch{}
}

// completion returns a completion of the current op. mu is held.
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
