package node

import (
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// The states of a message, and the ways in which it ends. On the left are messages that
// leave the node, on the right those that arrive. The driver owns a message while it is
// sent or placed. A queue owns it while it is parked, waits, or is to be resent. Otherwise
// the goroutine that carries out the step owns it; if that goroutine must not run
// handlers, the step is scheduled on the runQueue. A message for which no path is found,
// or whose deadline has passed, goes to endSend directly from its current state.
//
//	Put, Get                                           Arrived --> ni.drop
//	    |                                                 |
//	    |         ACK, REPLY, forwarded                   v
//	    |   +--------------------------------------+   arrived <--> waits: lazy portal,
//	    v   v                                      |    |   |       router, delay rule
//	 planned <------------- resend ---+            |    |   |              |
//	    |   |                         |            |    |   +---- drop ----+
//	    |   +--> parked --------> resends          |    |           |
//	    |                         |     ^          |    |           |
//	    | execute      endSend <-+     |          |    |           |
//	    v                               |          |    | Receive   |
//	 leaving <--> waits: credits,       |          |    v           |
//	    |   |     delay rule            |          +- placed        |
//	    |   |                           |     Received  |           |
//	    |   +-- unsent --+              |               | Received  |
//	    | Send           v              |               v           |
//	    +-- sent --> attempted ---------+           responded       |
//	            Sent     |   another attempt            |           |
//	                     v                              v           v
//	                 endSend --------------------> end (event) --> free

// Sent implements lnd.Sender. The driver calls it when an attempt to send m has ended,
// with err if it failed.
func (m *message) Sent(_ *lnd.Tx, err error) {
	var ready messageQueue
	m.releaseCredits(&ready)
	m.node.transmitAll(&ready)
	m.endAttempt(err)
}

// endAttempt ends an attempt to send m, which has failed if err is not nil. It updates the
// health of the NIs involved. After a failure it may queue m for another attempt;
// otherwise it ends the sending of m.
func (m *message) endAttempt(err error) {
	switch {
	case err == nil:
		if m.passage.forward {
			m.node.stats.routed.add(m.tx.Payload.Length) // first: see Counters
		}
		m.countSent(m.tx.Header.Type, m.tx.Payload.Length)
		m.succeeded(false)
		if m.peer != nil && (m.passage.forward || m.arrival.from == nil && !m.out.reserved) {
			m.peer.noteUse(m.node.second.Load())
		}
		if m.out.retries > 0 {
			m.node.stats.successfulResends.Add(1)
		}
	case errors.Is(err, ErrCanceled):
	case errors.Is(err, lnd.ErrRecalled):
		m.queueForMonitor(nil)
		return
	case m.failed(err) && m.requeue():
		return
	}
	m.endSend(err)
}

// endUnsent ends an attempt to send m that no driver has begun. It releases m's credits
// and appends the messages that receive them to ready.
func (m *message) endUnsent(err error, ready *messageQueue) {
	m.releaseCredits(ready)
	m.schedule(stepAttempted, err)
}

// endSend ends the sending of m, successfully if err is nil. There is no further attempt.
func (m *message) endSend(err error) {
	n := m.node
	if err != nil {
		m.countDropped(err)
		if n.captures.active() {
			m.captureFailure(err)
		}
	}
	if m.passage.forward {
		if err != nil {
			n.missing(m.tx.Header.Dest)
		}
		m.free()
		return
	}
	switch m.tx.Header.Type {
	case lnet.MsgPut:
		if err == nil && m.out.retries == 0 {
			m.sample(latencyPutEgress, n.now()-m.out.started)
		}
	case lnet.MsgGet:
		if err == nil && m.tx.Replied {
			n.replied(m)
		}
	}
	if m.bound {
		m.op.Departure = m.departure()
	}
	m.end(err)
}

// endResponse ends m, an ACK or REPLY that has arrived completely for a request of this
// node. It measures the latency if the response was tracked.
func (m *message) endResponse() {
	if m.op.Issued != 0 {
		kind := latencyPutAck
		if m.op.Event.Type == portals.EventReply {
			kind = latencyGetRTT
		}
		m.sample(kind, m.node.now()-m.op.Issued)
	}
	m.end(nil)
}

// end ends m's operation if m is bound to an MD, which delivers an event, and frees m.
func (m *message) end(err error) {
	if m.bound {
		m.finish(err)
	}
	m.free()
}

// finish ends m's operation on its MD, with err if that is not nil, and delivers the
// event. The caller may then reuse m, for example for the ACK of a PUT.
func (m *message) finish(err error) {
	m.bound = false
	m.node.table.Finish(&m.op, err)
}

// drop discards the arrived message m, which may be for this or another node and must not
// have a placement yet (lnet-core 4.5). It frees m.
func (m *message) drop(r DropReason) {
	i, rx := m.ni, m.arrival.rx
	i.dropped(r, m.peer, &rx.Header, int(rx.Header.PayloadLength))
	m.free()
	i.iface.Receive(rx, lnd.Placement{})
}

// drop discards an arrived message for which no record was created.
func (i *ni) drop(rx *lnd.Rx, r DropReason) {
	i.dropped(r, nil, &rx.Header, int(rx.Header.PayloadLength))
	i.iface.Receive(rx, lnd.Placement{})
}

// dropWaiting discards all messages for which match returns true among those that wait on
// a lazy portal, for a router credit or buffer, or because of a delay rule (lnet-core 4.6,
// 11.2, 12.5).
func (n *Node) dropWaiting(r DropReason, match func(*message) bool) {
	dropDelayed(r, n.table.DropDelayed(func(o *portals.Operation) bool { return match(messageOf(o)) }))
	n.dropForwards(r, match)
	var ready messageQueue
	for _, h := range n.held.take(func(h *heldMessage) bool { return match(h.m) }) {
		if h.m.arrival.rx != nil {
			h.m.drop(r)
		} else {
			h.m.endUnsent(ErrCanceled, &ready)
			n.transmitAll(&ready)
		}
	}
}

// dropDelayed discards messages that were waiting on a lazy portal.
func dropDelayed(r DropReason, waited portals.Operations) {
	for o := waited.Next(); o != nil; o = waited.Next() {
		messageOf(o).drop(r)
	}
}

// replied delivers the REPLY event of a GET whose data the driver transferred by RDMA.
func (n *Node) replied(get *message) {
	m := n.newMessage()
	m.commit(get.ni, get.peer)
	h := &get.tx.Header
	nid, _ := initiator(h.Dest, n.peers.find(h.Dest))
	m.op.Event = portals.Event{
		Type: portals.EventReply, MsgType: lnet.MsgGet,
		Target:    lnet.ProcessID{NID: h.Src, PID: h.SrcPID},
		Initiator: lnet.ProcessID{NID: nid, PID: h.DestPID},
		Source:    lnet.ProcessID{NID: h.Dest, PID: h.DestPID},
		Sender:    get.tx.To.NID,
		Requested: get.tx.ReplyLength,
	}
	length := min(get.tx.ReplyLength, get.tx.Sink.Length)
	if !n.table.BeginReply(h.Handle, &m.op, length) {
		reply := lnet.Header{Type: lnet.MsgReply, Src: h.Dest, Dest: h.Src}
		n.dropped(reasonOf(m.op.Cause), m.ni, m.peer, &reply)
		m.free()
		return
	}
	m.bound = true
	m.countReceived(lnet.MsgReply, length)
	m.endResponse()
}
