package node

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// PutOptions are the parameters of a PUT.
type PutOptions struct {
	// Source, if it is neither zero nor AnyNID, is the local NID to send from.
	Source    lnet.NID
	Portal    uint32
	MatchBits uint64
	// Offset is where the data go in a target MD with ManageRemote.
	Offset uint32
	// HdrData is handed to the target's handler.
	HdrData uint64
	// Ack asks for an acknowledgement.
	Ack bool
}

// GetOptions are the parameters of a GET.
type GetOptions struct {
	// Source, if it is neither zero nor AnyNID, is the local NID to send from.
	Source    lnet.NID
	Portal    uint32
	MatchBits uint64
	// Offset is where the data lie in a target MD with ManageRemote.
	Offset uint32
}

// request is a PUT or GET that shall be made.
type request struct {
	typ       lnet.MsgType
	source    lnet.NID
	portal    uint32
	bits      uint64
	offset    uint32
	hdrData   uint64
	wantReply bool     // an ACK or a REPLY
	recovery  bool     // a recovery ping
	over      lnet.Net // the net to go by, if not 0
}

// Put sends the memory of the bound MD h. A PID of 0 stands for
// lnet.PIDLustre. It never blocks: if it returns nil
// a SEND event follows, perhaps before Put returns (to 0@lo all happens before,
// and what handlers send there meanwhile, too), with the error if the
// message could not leave; with Ack an ACK event may come before or after. An
// error means that there will be no event: ErrNotFound if the MD is unknown,
// attached or used up, ErrClosed.
func (n *Node) Put(h lnet.Handle, to lnet.ProcessID, o PutOptions) error {
	r := request{
		typ: lnet.MsgPut, source: o.Source, portal: o.Portal, bits: o.MatchBits,
		offset: o.Offset, hdrData: o.HdrData, wantReply: o.Ack,
	}
	return n.request(h, to, &r)
}

// Get fetches into the memory of the bound MD h: a SEND and a REPLY event
// follow, in any order. Otherwise it is like Put.
func (n *Node) Get(h lnet.Handle, to lnet.ProcessID, o GetOptions) error {
	r := request{
		typ: lnet.MsgGet, source: o.Source, portal: o.Portal, bits: o.MatchBits,
		offset: o.Offset, wantReply: true,
	}
	return n.request(h, to, &r)
}

func (n *Node) request(h lnet.Handle, to lnet.ProcessID, r *request) error {
	if to.PID == 0 {
		to.PID = lnet.PIDLustre
	}
	if n.closing.Load() {
		return fmt.Errorf("%s to %s: %w", r.typ, to, ErrClosed)
	}
	if n.faults.Active() && n.faults.Fails(to.NID) {
		return fmt.Errorf("%s to %s: %w", r.typ, to, ErrFailNID)
	}
	m := n.newMessage()
	m.source, m.recovery, m.reserved, m.over = r.source, r.recovery, r.portal == lnet.ReservedPortal, r.over
	m.started = n.now()
	m.tx.Header.Type = r.typ
	p := n.plan(m, to.NID)
	parameters := n.parameters.Load()
	b := portals.Begin{Type: r.typ, Response: r.wantReply}
	if r.wantReply {
		b.Track = parameters.tracks(r.typ)
		b.Now, b.Deadline = m.started, m.started+int64(parameters.TransactionTimeout)
		b.Hop = p.hop()
	}
	memory, err := n.table.Begin(h, &m.op, b)
	if err != nil {
		n.freeMessage(m)
		return fmt.Errorf("%s to %s: %w", r.typ, to, err)
	}
	m.bound = true

	e := &m.op.Event // of which Begin has set what the MD tells
	e.Portal = r.portal
	e.Target = to
	e.Initiator = lnet.ProcessID{NID: lnet.AnyNID, PID: n.pid}
	e.Source = e.Initiator
	e.Sender = lnet.AnyNID
	e.MatchBits, e.HdrData = r.bits, r.hdrData
	e.Offset = int(r.offset)

	hd := &m.tx.Header
	*hd = lnet.Header{
		DestPID: to.PID, SrcPID: n.pid, Type: r.typ, Handle: lnet.NoHandle,
		MatchBits: r.bits, Portal: r.portal, Offset: r.offset,
	}
	if r.wantReply {
		hd.Handle = h
	}
	if r.typ == lnet.MsgPut {
		hd.PayloadLength = uint32(memory.Length)
		hd.HdrData = r.hdrData
		m.tx.Payload = memory
	} else {
		hd.Length = uint32(memory.Length)
		m.tx.Sink = memory
	}
	hd.Dest = to.NID
	if p.err != nil {
		p.err = fmt.Errorf("%s to %s: %w", r.typ, to, p.err)
	}
	n.follow(m, &p)
	return nil
}

// transmit takes m through credits to the driver (lnet-core 7.2), and with it
// every message that goes on because one of them fails.
func (n *Node) transmit(m *message) {
	var ready messageQueue
	for ; m != nil; m = ready.pop() {
		if m.waited || m.forward {
			if err := m.stale(); err != nil {
				m.giveCredits(&ready)
				if m.forward && !m.waited {
					n.abandon(m, err)
					continue
				}
				n.end(m, err)
				continue
			}
		}
		if !m.takeCredits() {
			continue
		}
		if n.faults.Active() && !m.ni.loopback { // LNDs ask the rules, and 0@lo is none
			held, err := m.inject()
			if held {
				continue
			}
			if err != nil {
				m.giveCredits(&ready)
				n.end(m, err)
				continue
			}
		}
		m.ni.iface.Send(&m.tx)
	}
}

// transmitAll transmits the messages of a queue, in order.
func (n *Node) transmitAll(q *messageQueue) {
	for m := q.pop(); m != nil; m = q.pop() {
		n.transmit(m)
	}
}

// What becomes of a message that waited for credits for too long, and of one
// from elsewhere whose next hop does not answer.
var (
	errOverdue = &lnd.Error{Driver: "node", Op: "send", Status: lnd.StatusNetworkTimeout, Err: ErrTimedOut}
	errHopDown = &lnd.Error{Driver: "node", Op: "forward", Status: lnd.StatusRemoteDropped, Err: ErrUnreachable}
)

// stale checks a message that comes from a credit queue or from elsewhere
// (lnet-core 7.2).
func (m *message) stale() error {
	switch {
	case m.deadline != 0 && m.node.now() > m.deadline:
		return errOverdue
	case m.forward && m.tx.To.PID&lnet.PIDUserFlag == 0 && !m.peer.Up.Load() && m.ni.tunables.PeerTimeout > 0 && m.node.router.forwards():
		return errHopDown
	case m.aborted():
		return ErrCanceled
	}
	return nil
}

// Sent implements lnd.Sender.
func (m *message) Sent(_ *lnd.Tx, err error) {
	var ready messageQueue
	m.giveCredits(&ready)
	m.node.transmitAll(&ready)
	m.ended(err)
}

// ended deals with an attempt to send m that is over: it counts for the health
// of those who took part, and another may follow.
func (m *message) ended(err error) {
	switch {
	case err == nil:
		m.countSent(m.tx.Header.Type, m.tx.Payload.Length)
		if m.forward {
			m.node.stats.routed.add(m.tx.Payload.Length)
		}
		m.succeeded(false)
		if m.peer != nil && (m.forward || m.from == nil && !m.reserved) {
			m.peer.use(m.node.second.Load())
		}
		if m.retries > 0 {
			m.node.stats.successfulResends.Add(1)
		}
	case errors.Is(err, ErrCanceled):
	case errors.Is(err, lnd.ErrRecalled):
		m.node.unpark(m, nil)
		return
	case m.failed(err) && m.again():
		return
	}
	m.left(err)
}

// left ends m: it has left the node, or never will.
func (m *message) left(err error) {
	n := m.node
	if err != nil {
		m.lost(err)
	}
	if m.forward {
		if err != nil {
			n.missing(m.tx.Header.Dest)
		}
		n.passed(m)
		return
	}
	switch m.tx.Header.Type {
	case lnet.MsgPut:
		if err == nil && m.retries == 0 {
			m.sample(latencyPutEgress, n.now()-m.started)
		}
	case lnet.MsgGet:
		if err == nil && m.tx.Replied {
			n.replied(m)
		}
	}
	if m.bound {
		m.op.Departure = m.departure()
		m.finish(err)
	}
	n.freeMessage(m)
}

// replied makes the REPLY event of a GET that the driver had answered by RDMA.
func (n *Node) replied(get *message) {
	m := n.newMessage()
	m.commit(get.ni, get.peer)
	h := &get.tx.Header
	nid, _ := initiator(h.Dest, n.sender(h.Dest, get.peer))
	m.op.Event = portals.Event{
		Type: portals.EventReply, MsgType: lnet.MsgGet,
		Target:    lnet.ProcessID{NID: h.Src, PID: h.SrcPID},
		Initiator: lnet.ProcessID{NID: nid, PID: h.DestPID},
		Source:    lnet.ProcessID{NID: h.Dest, PID: h.DestPID},
		Sender:    get.tx.To.NID,
		Requested: get.tx.ReplyLength,
	}
	length := min(get.tx.ReplyLength, get.tx.Sink.Length)
	if !n.table.TakeReply(h.Handle, &m.op, length) {
		reply := lnet.Header{Type: lnet.MsgReply, Src: h.Dest, Dest: h.Src}
		n.dropped(reasonOf(m.op.Cause), m.ni, m.peer, &reply)
		n.freeMessage(m)
		return
	}
	m.countReceived(lnet.MsgReply, length)
	m.answered()
}
