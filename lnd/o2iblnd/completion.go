package o2iblnd

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/peering"
)

// completion processes a completion of one of the connection's work requests. The worker of the completion
// queue calls it. b is the harvest.
func (c *conn) completion(now time.Time, wc *verbs.Completion, b *batch) {
	c.mu.Lock()
	if c.m == nil || c.refs == 0 {
		c.mu.Unlock()
		return
	}
	if !c.changed {
		c.changed = true
		c.corks++
		c.refs++
		b.touched = append(b.touched, c)
	}
	number := int(wc.WRID & fieldMask)
	kind := wc.WRID >> (3 * fieldBits)
	early := false
	if kind == wrSend {
		c.completed(number)
	}
	switch {
	case c.ending:
	case wc.Status != verbs.Success:
		if kind != wrSend {
			number = -1
		}
		c.m.Failed(number, completionError(wc), &c.b)
	case kind == wrRecv:
		c.completions++
		data := c.recvs[number].bytes()[:wc.Bytes]
		c.i.counters.received(data)
		early = c.m.State() == protocol.PassiveWait
		c.m.Received(now, number, data, &c.b)
	case kind == wrSend:
		c.completions++
		c.moved = now
		c.m.Completed(now, number, &c.b)
	}
	c.take(&b.events)
	arrived := len(c.inbox) > 0
	c.unlock()
	if early {
		_ = c.id.Established() // fails only if the connection is already established or has ended
	}
	for k := range b.events {
		c.i.make(&b.events[k])
		b.events[k] = peering.Event{}
	}
	b.events = b.events[:0]
	if arrived {
		c.reportArrivals()
	}
}

func completionError(wc *verbs.Completion) error {
	if wc.Vendor != 0 {
		return fmt.Errorf("%w (vendor error %#x)", statusError(wc.Status), wc.Vendor)
	}
	return statusError(wc.Status)
}

type statusError verbs.Status

func (s statusError) Error() string { return verbs.Status(s).String() }

// uncork posts the SENDs that were collected while the worker processed its harvest.
func (c *conn) uncork() {
	c.mu.Lock()
	c.changed = false
	c.corks--
	c.unlock()
	c.unref()
}

// take removes from the batch what concerns the node: the request to disconnect, arrivals, withdrawals and
// completions. Completions go to dst or, if dst is nil, to the outbox. If the keeper is resting, take wakes it.
// c.mu is held.
func (c *conn) take(dst *events) {
	c.i.keeper.wakeResting()
	b := &c.b
	if b.Disconnect {
		b.Disconnect = false
		c.end(b.Failure)
	}
	for k := range b.Arrivals {
		c.inbox = append(c.inbox, c.newRx(b.Arrivals[k]))
		b.Arrivals[k] = nil
	}
	b.Arrivals = b.Arrivals[:0]
	for k, prx := range b.Withdrawn {
		r := prx.Owner.(*rx)
		switch {
		case r.state == rxReporting:
			r.gone = true
		case r.state == rxReported && !r.given:
			r.state = rxGone
			c.emit(peering.Event{Kind: evWithdrawn, Subject: r}, nil)
		}
		b.Withdrawn[k] = nil
	}
	b.Withdrawn = b.Withdrawn[:0]
	for k := range b.Done {
		d := &b.Done[k]
		t := d.Tx.Owner.(*tx)
		c.emit(peering.Event{Kind: evSent, Subject: t, Err: t.done(d)}, dst)
		*d = protocol.Done{}
	}
	b.Done = b.Done[:0]
	for k := range b.Placed {
		p := &b.Placed[k]
		r := p.Rx.Owner.(*rx)
		r.placed = true
		if p.Failure != nil && r.err == nil {
			r.err = c.p.i.failed("receive", c.p.ID.NID, p.Failure)
		}
		switch {
		case r.state == rxReporting: // reportArrivals checks placed afterwards
		case !r.given:
			c.recycle(r)
		default:
			c.emit(peering.Event{Kind: evReceived, Subject: r, Err: r.err}, dst)
		}
		*p = protocol.Placed{}
	}
	b.Placed = b.Placed[:0]
}

// emit adds an event to dst, or to the outbox if dst is nil. If the connection is ending, the event waits until
// the upcalls that report the end have been queued. c.mu is held.
func (c *conn) emit(e peering.Event, dst *events) {
	if e.Kind != evWithdrawn {
		c.ref()
	}
	switch {
	case c.ending && !c.lossReported:
		c.last = append(c.last, e)
	case dst != nil && !c.ending:
		*dst = append(*dst, e)
	default:
		c.i.Out.Put(e)
		c.outboxPending = true
	}
}
