package inproc

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/transport"
)

// meaning is what an event of a memory descriptor means for the op.
type meaning uint8

const (
	noCompletion meaning = iota // nothing to report; another event follows
	intermediate                // a message was received, and the buffer can receive more
	final                       // the op has ended
	unlinkNeeded                // the op has failed; the caller must unlink the descriptor
)

// Errors of completions, allocated once because they are frequent.
var (
	errCanceled error = syscall.ECANCELED
	errTimedOut error = syscall.ETIMEDOUT
	errNoSender       = fmt.Errorf("inproc: the sender of the message has no valid address: %w", syscall.EPROTO)
	errGivenUp  error = &Error{syscall.EHOSTUNREACH, errors.New("canceled before it was sent")}
)

// interpret returns the meaning of an event of the op's descriptor. For intermediate and final, it also sets
// the outcome of the message or op (transport 6.9). b.mu is held.
func (b *buffer) interpret(e *portals.Event, o *outcome) meaning {
	switch e.Type {
	case portals.EventUnlink:
		o.err = b.unlinked(e)
		return final
	case portals.EventSend:
		if b.queue == transport.ActiveBulkRecv {
			return b.asked(e, o)
		}
		o.err = b.failure(e.Err)
	case portals.EventReply:
		return b.fetched(e, o)
	case portals.EventPut:
		if o.err = b.failure(e.Err); o.err == nil {
			o.length, o.offset = e.Length, e.Offset
		}
		if b.queue == transport.MsgRecv && !e.Unlinked {
			return intermediate
		}
	case portals.EventGet:
		o.err = b.failure(e.Err)
	default:
		return noCompletion // an ACK, which was not requested
	}
	if !e.Unlinked {
		return noCompletion
	}
	return final
}

// asked implements interpret for the SEND of a GET.
func (b *buffer) asked(e *portals.Event, o *outcome) meaning {
	f := &b.fetch
	switch {
	case !e.Unlinked && e.Err == nil:
		return noCompletion
	case !e.Unlinked:
		f.failed = b.failure(e.Err)
		return unlinkNeeded
	case e.Err != nil:
		o.err = b.failure(e.Err)
	case f.replied:
		*o = f.reply
	default: // the op was cancelled at the same time
		o.err = errCanceled
	}
	return final
}

// fetched implements interpret for a REPLY.
func (b *buffer) fetched(e *portals.Event, o *outcome) meaning {
	f := &b.fetch
	o.err = f.failed
	if o.err == nil {
		o.err = b.failure(e.Err)
	}
	if o.err == nil {
		o.length, o.offset = e.Length, e.Offset
	}
	if !e.Unlinked {
		f.reply, f.replied = *o, true
		return noCompletion
	}
	return final
}

// unlinked returns the error of an op that has ended with an UNLINK event, so without an operation in
// progress. If the op was not cancelled, the node has stopped waiting for a REPLY (lnet-core 6.4).
func (b *buffer) unlinked(e *portals.Event) error {
	switch {
	case b.fetch.failed != nil:
		return b.fetch.failed
	case b.canceled:
		return errCanceled
	case e.Err != nil:
		return b.failure(e.Err)
	}
	return errTimedOut
}

// failure converts the error of an event to the error of the op, which has an errno. If the descriptor of a
// message in progress is unlinked, LNet reports ETIMEDOUT (lnet-core 3.4). failure returns ECANCELED instead
// if the op was cancelled. If it was not, ErrCanceled means that the node has discarded a waiting message:
// the NI of the message was removed (lnet-core 12.5), or its answer is overdue (lnet-core 6.4).
func (b *buffer) failure(err error) error {
	switch {
	case err == nil:
		return nil
	case b.canceled && (errors.Is(err, portals.ErrCanceled) || errors.Is(err, portals.ErrTimedOut)):
		return errCanceled
	case errors.Is(err, portals.ErrCanceled):
		return errGivenUp
	}
	return wrap(err)
}

// sender sets the sender of a received message, from the hdr_data and source NID of its event. The source NID
// is the NID that the TM sends from, and does not change. The initiator in the event is not used, because
// discovery can change it to the node's primary NID, possibly on a net that this node cannot reach. If a
// message has no usable sender, it only uses up space in the buffer (transport 6.5).
func (b *buffer) sender(e *portals.Event, c *transport.Completion) {
	if c.Err != nil {
		return
	}
	var ok bool
	if c.Sender, ok = transport.HdrData(e.HdrData).Sender(e.Source); !ok && c.Final {
		c.Err, c.Length, c.Offset = errNoSender, 0, 0
	}
	if ok && c.Sender.NID.IsLoopback() {
		if t := b.domain.core.directory.find(c.Sender.Portal, c.Sender.TMID); t != nil {
			c.Sender = t.address
		}
	}
}
