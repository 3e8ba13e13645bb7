package inproc

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/transport"
)

// verdict is what an event means for an op.
type verdict uint8

const (
	nothing      verdict = iota // others will tell
	intermediate                // a message has come, and the buffer waits for more
	final                       // the op is over
	hopeless                    // it will come to nothing: the descriptor is to be unlinked
)

// Errors of completions that come up all the time.
var (
	errCanceled error = syscall.ECANCELED
	errTimedOut error = syscall.ETIMEDOUT
	errNoSender       = fmt.Errorf("inproc: the message has no usable sender: %w", syscall.EPROTO)
	errGivenUp  error = &Error{syscall.EHOSTUNREACH, errors.New("given up before it was sent")}
)

// judge says what an event of the op's descriptor means, and, if something is to be told,
// what the op or the message has come to (transport 6.9). b.mu is held.
func (b *buffer) judge(e *portals.Event, o *outcome) verdict {
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
		return nothing // an ACK, which nobody has asked for
	}
	if !e.Unlinked {
		return nothing
	}
	return final
}

// asked is judge for the SEND of a GET.
func (b *buffer) asked(e *portals.Event, o *outcome) verdict {
	f := &b.fetch
	switch {
	case !e.Unlinked && e.Err == nil:
		return nothing
	case !e.Unlinked:
		f.failed = b.failure(e.Err)
		return hopeless
	case e.Err != nil:
		o.err = b.failure(e.Err)
	case f.replied:
		*o = f.reply
	default: // a cancel rode on it
		o.err = errCanceled
	}
	return final
}

// fetched is judge for a REPLY.
func (b *buffer) fetched(e *portals.Event, o *outcome) verdict {
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
		return nothing
	}
	return final
}

// unlinked is what an op has come to whose descriptor was unlinked while nothing was
// under way. If nobody wanted that it was the node, which has given up waiting for a
// REPLY (lnet-core 6.4).
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

// failure is the error of an event, with its errno. What was under way when its descriptor
// was unlinked timed out, as LNet has it (lnet-core 3.4): who has canceled it knows better.
// Without a cancel the node has given up a message that still waited: its NI was removed
// (lnet-core 12.5), or its answer is overdue (lnet-core 6.4).
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

// sender says who has sent a message, as its hdr_data has it, by the NID that the message
// came from: that is the TM's own, which it sends from, and stays the same whatever is
// found out about its node, while LNet's initiator becomes the node's primary NID when
// that is discovered, which may be on a net that this node is not on. Without a usable
// sender a message has but used up room (transport 6.5).
func (b *buffer) sender(e *portals.Event, c *transport.Completion) {
	if c.Err != nil {
		return
	}
	var ok bool
	if c.Sender, ok = transport.HdrData(e.HdrData).Sender(e.Source); !ok && c.Final {
		c.Err, c.Length, c.Offset = errNoSender, 0, 0
	}
	if ok && c.Sender.NID.IsLoopback() {
		if t := b.domain.core.book.find(c.Sender.Portal, c.Sender.TMID); t != nil {
			c.Sender = t.address
		}
	}
}
