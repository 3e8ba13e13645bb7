package o2iblnd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// rx is an arrived message. The connection's lock guards its state.
type rx struct {
	lnd.Rx
	c     *conn
	prx   *protocol.Rx // the state machine's record of the message
	state rxState
	gone  bool // the connection ended during the upcall Arrived
	given bool // the node has given its placement

	placement lnd.Placement
	placed    bool  // the state machine has finished the transfer
	err       error // error of the transfer, of the copy, or of the preparation

	bounce block               // registered memory, if the placement's memory is not registered
	source []protocol.Segment  // the answer to a GET
	sink   protocol.Descriptor // where the peer writes the payload of a PUT
	pieces []memory.Segment    // scratch space
}

type rxState uint8

const (
	rxNew       rxState = iota // in the inbox
	rxReporting                // the upcall Arrived is running
	rxReported                 // the upcall Arrived has returned
	rxGone                     // the upcall Withdrawn is to be made or is running
)

// newRx returns a record for the arrival prx. c.mu is held.
func (c *conn) newRx(prx *protocol.Rx) *rx {
	var r *rx
	if k := len(c.spare) - 1; k >= 0 {
		r, c.spare = c.spare[k], c.spare[:k]
	} else {
		r = &rx{c: c}
		r.Driver = r
	}
	prx.Owner = r
	r.prx = prx
	r.Header, r.RDMA = prx.Header, prx.Type == protocol.GetReq
	r.From = lnet.ProcessID{NID: c.p.ID.NID, PID: lnet.PIDLustre}
	r.state, r.gone, r.given, r.placed, r.err = rxNew, false, false, false, nil
	return r
}

// recycle releases the record of an arrival, for the state machine and for newRx. c.mu is held.
func (c *conn) recycle(r *rx) {
	c.m.Release(r.prx)
	r.prx = nil
	r.placement = lnd.Placement{}
	c.spare = append(c.spare, r)
}

// reportArrivals makes the upcall Arrived for each message in the inbox, in order. If another goroutine is
// doing this, that goroutine also reports messages that are added, and reportArrivals returns immediately.
func (c *conn) reportArrivals() {
	c.mu.Lock()
	if c.reporting {
		c.mu.Unlock()
		return
	}
	c.reporting = true
	c.ref()
	for len(c.inbox) > 0 {
		r := c.inbox[0]
		copy(c.inbox, c.inbox[1:])
		c.inbox[len(c.inbox)-1] = nil
		c.inbox = c.inbox[:len(c.inbox)-1]
		if c.ending { // the node does not know of r, so that no upcall is needed
			c.m.Refuse(time.Now(), r.prx, 0, &c.b)
			c.take(nil)
			continue
		}
		r.state = rxReporting
		c.mu.Unlock()
		err := c.i.Upper.Arrived(&r.Rx)
		c.mu.Lock()
		r.state = rxReported
		switch {
		case err != nil:
			c.refused(r, err)
		case r.placed:
			c.unlock()
			r.complete(r.err)
			c.mu.Lock()
		case r.gone && !r.given:
			r.state = rxGone
			c.emit(peering.Event{Kind: evWithdrawn, Subject: r}, nil)
		}
	}
	c.reporting = false
	c.unlock()
	c.unref()
}

// refused closes all connections of the peer because the message r violates the protocol. c.mu is held; refused
// releases it temporarily.
func (c *conn) refused(r *rx, err error) {
	c.i.Count.ProtocolErrors.Add(1)
	r.state = rxNew // no upcall refers to it any more
	f := &protocol.Failure{Health: protocol.RemoteError, Errno: syscall.EPROTO, Err: err}
	c.m.Close(f, &c.b)
	c.m.Refuse(time.Now(), r.prx, 0, &c.b)
	c.take(nil)
	c.unlock()
	c.p.closeAll(f)
	c.mu.Lock()
}

// withdrawn records that the upcall Withdrawn has returned.
func (r *rx) withdrawn() {
	r.c.mu.Lock()
	if r.state == rxGone {
		r.state = rxReported
	}
	r.c.mu.Unlock()
}

// place implements Interface.Receive. If no registered memory is available for the transfer, the arrival waits
// for it.
func (r *rx) place(p lnd.Placement) {
	c := r.c
	c.mu.Lock()
	r.given, r.placement = true, p
	if c.ending || c.m.State() != protocol.Established {
		c.m.Refuse(time.Now(), r.prx, 0, &c.b)
		c.take(nil)
		c.unlock()
		return
	}
	c.ref()
	c.mu.Unlock()
	err := r.ready()
	if errors.Is(err, errNoMemory) {
		c.i.waitForMemory(memoryWaiter{r: r, since: time.Now()})
		return // and keep the reference
	}
	r.answer(err)
}

// ready prepares the memory for the transfer that the placement asks for. If the payload is already in the
// message (IMMEDIATE), ready copies it into the placement's memory. The caller holds a reference to the
// connection.
func (r *rx) ready() (err error) {
	p := &r.placement
	switch {
	case p.Done == nil:
	case r.prx.Type == protocol.Immediate:
		if n := min(p.Memory.Length, len(r.prx.Payload)); n > 0 {
			err = copyIn(p.Memory, r.prx.Payload[:n])
		}
	case r.prx.Type == protocol.PutReq:
		if p.Memory.Length > 0 {
			r.bounce, err = r.c.sinkOf(p.Memory, theirs, &r.sink, &r.pieces)
		}
	default:
		if p.Reply.Length > 0 {
			r.source, r.bounce, err = r.c.sourceOf(p.Reply, theirs, r.source, &r.pieces)
		} else {
			r.source = r.source[:0]
		}
	}
	return err
}

// answer makes the state machine answer the peer, which starts the transfer. If err is not nil, the transfer is
// not possible, and the peer is refused with err. answer releases the reference that place has acquired.
func (r *rx) answer(err error) {
	c, p := r.c, &r.placement
	now := time.Now()
	c.mu.Lock()
	if err != nil {
		r.err = c.p.i.Error("receive", c.p.ID.NID, lnd.StatusLocalError, err)
	}
	switch {
	case r.prx.Type == protocol.Immediate:
		c.m.Consumed(now, r.prx, &c.b)
	case err != nil:
		c.m.Refuse(now, r.prx, errnoOf(err), &c.b)
	case p.Done == nil, r.prx.Type == protocol.PutReq && p.Memory.Length == 0:
		c.m.Refuse(now, r.prx, 0, &c.b)
	case r.prx.Type == protocol.PutReq:
		c.m.Sink(now, r.prx, &r.sink, &c.b)
	default:
		c.m.Reply(now, r.prx, r.source, &c.b)
	}
	c.take(nil)
	c.unlock()
	c.unref()
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.ENOMEM
}

// finish completes an arrival with err for the event evReceived. No lock is held.
func (r *rx) finish(err error) {
	c := r.c
	r.complete(err)
	c.unref() // the event's reference
}

// complete completes an arrival whose transfer has ended, with err. It copies the payload into the placement's
// memory if that is not registered, frees the memory of the transfer, and calls Received.
func (r *rx) complete(err error) {
	c, p := r.c, r.placement
	if r.bounce.ok() {
		if r.prx.Type == protocol.PutReq {
			if err == nil {
				if fault := copyIn(p.Memory, r.bounce.bytes()[:p.Memory.Length]); fault != nil {
					err = c.p.i.Error("receive", c.p.ID.NID, lnd.StatusLocalError, fault)
				}
			}
			c.dev.freeFor(c.p, c.dev.remote, theirs, r.bounce)
		} else {
			c.dev.freeFor(c.p, c.dev.local, theirs, r.bounce)
		}
		r.bounce = block{}
	}
	if err == nil {
		c.i.counters.moved(r.prx.Type, &p)
	}
	if p.Done != nil {
		p.Done.Received(&r.Rx, err)
	}
	c.mu.Lock()
	c.recycle(r)
	c.mu.Unlock()
}

// String returns the two ends of the connection, for log lines.
func (c *conn) String() string { return fmt.Sprintf("%s-%s", c.i.Self, c.p.ID.NID) }
