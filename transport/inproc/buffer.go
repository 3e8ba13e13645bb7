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

// buffer is a CoreBuffer, the state of the op on it, and the handler of its descriptor.
type buffer struct {
	domain *domain
	token  any
	// memory is all of it; regions are those made for it, areas those that it uses.
	memory  memory.Vector
	regions []*memory.Region
	areas   []*area

	mu    sync.Mutex // guards the rest
	ended bool       // deregistered
	// tm is the one of the op under way, nil if there is none. turn grows with each op.
	tm       *tm
	turn     uint64
	sequence uint32
	queue    transport.QueueType
	// handle is the op's descriptor as soon as it is known, else NoHandle.
	handle   lnet.Handle
	canceled bool // somebody wants it to end
	refused  bool // it could not begin, and its descriptor is being taken back
	fetch    fetch
}

// fetch is what is known so far of an op on ActiveBulkRecv, which has two events, in
// either order.
type fetch struct {
	failed  error // the request could not leave
	replied bool
	reply   outcome
}

// outcome is what an op, or a message, has come to.
type outcome struct {
	err            error
	length, offset int
}

// submit begins an op. An error means that there will be no completion.
func (b *buffer) submit(t *tm, op *transport.Op, more bool) error {
	b.mu.Lock()
	err := t.accepts()
	switch {
	case err != nil:
	case b.ended:
		err = errForeign
	case b.tm != nil:
		err = errUnderWay
	}
	if err != nil {
		b.mu.Unlock()
		return err
	}
	b.tm, b.queue, b.sequence = t, op.Queue, op.Sequence
	b.turn++
	turn := b.turn
	b.mu.Unlock()

	h, err := t.start(op, b, more)
	if err != nil {
		b.refuse(h)
		return wrapRefusal(err)
	}
	b.began(turn, h)
	return nil
}

// wrapRefusal gives an error its errno, if it has none yet.
func wrapRefusal(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return err
	}
	return wrap(err)
}

// refuse takes back the descriptor of an op that could not begin, if there is one. It has
// had no event, and none but UNLINK may follow, in here.
func (b *buffer) refuse(h lnet.Handle) {
	b.mu.Lock()
	b.refused = true
	b.mu.Unlock()
	b.unlink(h)
	b.mu.Lock()
	b.idle()
	b.mu.Unlock()
}

// began notes the descriptor of the op of a turn, unless that has ended already.
func (b *buffer) began(turn uint64, h lnet.Handle) {
	b.mu.Lock()
	late := false
	if b.turn == turn && b.tm != nil {
		b.handle, late = h, b.canceled
	}
	b.mu.Unlock()
	if late && errors.Is(b.domain.core.node.Unlink(h), portals.ErrClosed) {
		b.lose(turn)
	}
}

// lose ends the op of a turn that was to be canceled, but whose descriptor has gone with the
// node, so that nobody will hear of it. One that is just not found has an event yet, when
// the driver is through with the memory.
func (b *buffer) lose(turn uint64) {
	b.mu.Lock()
	t := b.tm
	if t == nil || b.turn != turn {
		b.mu.Unlock()
		return
	}
	c := b.completion(true, &outcome{err: errCanceled})
	b.idle()
	b.mu.Unlock()
	t.push(&c)
}

// cancel ends the op of t with a sequence number, if it is still under way.
func (b *buffer) cancel(t *tm, sequence uint32) {
	b.mu.Lock()
	h := lnet.NoHandle
	if b.tm == t && b.sequence == sequence {
		h = b.giveUp()
	}
	b.mu.Unlock()
	b.unlink(h)
}

// abort ends the op that is under way, if there is one.
func (b *buffer) abort() {
	b.mu.Lock()
	h := b.giveUp()
	b.mu.Unlock()
	b.unlink(h)
}

// giveUp notes that the op under way, if there is one, is to end, and returns what to
// unlink for that, or NoHandle if that is not known yet. mu is held.
func (b *buffer) giveUp() lnet.Handle {
	b.canceled = b.tm != nil
	return b.handle
}

func (b *buffer) unlink(h lnet.Handle) {
	if h != lnet.NoHandle {
		_ = b.domain.core.node.Unlink(h) // not found: its last event is on its way
	}
}

// idle says that no op is under way. mu is held.
func (b *buffer) idle() {
	b.tm, b.handle = nil, lnet.NoHandle
	b.canceled, b.refused = false, false
	b.fetch = fetch{}
}

// completion tells of the op. mu is held.
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
	what := b.judge(e, &o)
	var c transport.Completion
	if what == intermediate || what == final {
		c = b.completion(what == final, &o)
		if b.queue == transport.MsgRecv && e.Type == portals.EventPut {
			b.sender(e, &c)
		}
	}
	if what == final {
		b.idle()
	}
	b.mu.Unlock()
	switch what {
	case intermediate, final:
		t.push(&c)
	case hopeless:
		b.unlink(e.MD)
	}
}
