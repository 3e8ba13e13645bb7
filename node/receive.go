package node

import (
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selection"
)

// Arrived implements lnd.Upper (lnet-core 5.2). It processes a message whose header the
// driver has read.
func (i *ni) Arrived(rx *lnd.Rx) error {
	if !i.open.Load() && i.deferArrival(rx) {
		return nil
	}
	return i.receive(rx)
}

// Errors for messages that violate the protocol.
var (
	errDirect    = errors.New("destination is on the net that the message arrived on; it should be sent there directly")
	errLoopback  = errors.New("destination is 0@lo, but another node sent the message")
	errRDMAAfar  = errors.New("RDMA GET for another node, which a router cannot forward")
	errSource    = errors.New("source is not a NID of another node")
	errNeighbour = errors.New("the neighbour's NID is not on the net that the message arrived on")
)

func (i *ni) receive(rx *lnd.Rx) error {
	h := &rx.Header
	if err := i.validate(rx); err != nil {
		return i.protocolError(rx, DropMalformed, err)
	}
	n := i.node
	forward := h.Dest != i.NID
	// ours is true if the message is for this node, but arrived on another NI. Kernels treat
	// this as a protocol error and close the connection. Here only the message is dropped,
	// because the other messages of the connection are valid.
	ours := forward && n.topology.Load().find(h.Dest) != nil
	if forward && !ours {
		if err := i.checkForward(rx); err != nil {
			return i.protocolError(rx, DropMisdirected, err)
		}
	}
	routes := n.router.forwards()
	if routes {
		i.noteRouterPing(h)
	}
	switch {
	case ours:
		i.drop(rx, DropOtherNI)
		return nil
	case forward && !routes:
		i.drop(rx, DropNotRouter)
		return nil
	case n.isClosing() && !forward:
		i.drop(rx, DropClosing)
		return nil
	}
	faults := n.faults.Active()
	if faults && n.dropByRule(i, rx) {
		i.drop(rx, DropFaultRule)
		return nil
	}
	neighbour := i.peerNIFrom(rx)
	if neighbour == nil && !i.loopback {
		i.drop(rx, DropPeerBound)
		return nil
	}
	if neighbour != nil && h.Src.Net() != i.net && !n.admitRouted(neighbour, h.Src.Net(), !forward) {
		i.drop(rx, DropAsymmetric)
		return nil
	}
	m := n.newArrival(i, rx, neighbour)
	m.passage.forward = forward
	if faults && m.holdArrival() {
		return nil
	}
	m.dispatch()
	return nil
}

// validate returns an error if the message violates the protocol, whatever its
// destination.
func (i *ni) validate(rx *lnd.Rx) error {
	if err := rx.Header.Validate(); err != nil || i.loopback {
		return err
	}
	if s := rx.Header.Src; s.IsZero() || s.IsAny() || s.IsLoopback() {
		return errSource
	}
	if rx.From.NID.Net() != i.net {
		return errNeighbour
	}
	return nil
}

// peerNIFrom returns the peer NI of the neighbour from which a message has arrived, and
// records that the neighbour is alive. If needed, it creates the peer NI. It returns nil
// on 0@lo, or if the limit on strangers is reached. It keeps the peer NI in rx, for the
// next message of the connection.
func (i *ni) peerNIFrom(rx *lnd.Rx) *peerNI {
	if i.loopback {
		return nil
	}
	n, nid := i.node, rx.From.NID
	p, _ := rx.Upper.(*peerNI)
	if p == nil || p.NID != nid || p.gone.Load() {
		if p = n.peers.find(nid); p == nil {
			if n.strangersFull() {
				return nil
			}
			p = n.makePeerNI(nid, i)
		}
		rx.Upper = p
	}
	if p.noteAlive(n.second.Load()) {
		n.discoverer.retryRounds(p, false)
	}
	if !p.Up.Load() || p.Trouble(nil) != selection.NoTrouble {
		n.markAlive(p)
	}
	return p
}

// dispatch processes the arrived message m by its type (lnet-core 5.3 to 5.6), or starts
// to forward it. m no longer belongs to the caller.
func (m *message) dispatch() {
	if m.passage.forward {
		m.startForward()
		return
	}
	h := &m.arrival.rx.Header
	e := &m.op.Event
	e.MsgType = h.Type
	e.Unlinked = false
	e.Target = lnet.ProcessID{NID: h.Dest, PID: h.DestPID}
	e.Source = lnet.ProcessID{NID: h.Src, PID: h.SrcPID}
	source := m.peer
	if source == nil || source.NID != h.Src { // it came through a router
		source = m.node.peers.find(h.Src)
		m.node.discoverer.retryRounds(source, false)
	}
	m.arrival.source = source
	e.Initiator.NID, m.op.Aliases = initiator(h.Src, source)
	e.Initiator.PID = h.SrcPID
	e.Sender = m.arrival.rx.From.NID
	e.Portal, e.MatchBits, e.HdrData = h.Portal, h.MatchBits, h.HdrData
	e.Requested, e.Length, e.Offset = int(h.PayloadLength), 0, 0

	switch h.Type {
	case lnet.MsgPut:
		if h.Portal == lnet.ReservedPortal && h.MatchBits != lnet.PingMatchBits {
			m.drop(DropNoMatch) // no entry will ever accept it
			return
		}
		e.Type = portals.EventPut
		m.op.Length = int(h.PayloadLength)
		m.match(h)
	case lnet.MsgGet:
		e.Type = portals.EventGet
		m.op.Length = int(h.Length)
		if h.Length > lnet.MTU {
			// The REPLY would exceed the limit of LNet. No correct peer requests this.
			m.drop(DropTooLong)
			return
		}
		m.match(h)
	case lnet.MsgReply:
		e.Type = portals.EventReply
		e.Portal, e.MatchBits, e.HdrData = 0, 0, 0
		m.placeResponse(m.node.table.BeginReply(h.Handle, &m.op, int(h.PayloadLength)))
	default:
		e.Type = portals.EventAck
		e.Portal, e.HdrData, e.Length = 0, 0, int(h.Length)
		m.placeResponse(m.node.table.BeginAck(h.Handle, &m.op))
	}
}

// answersWaitingMax is the number of answers that may wait to be sent to a neighbour.
// Further requests from that neighbour are dropped as if no entry had matched. If the
// connection were blocked instead, two nodes that do this to each other could deadlock.
const answersWaitingMax = 16384

// match finds the MD for m, an arrived PUT or GET with header h. It then places the
// message, drops it, or lets it wait on a lazy portal.
func (m *message) match(h *lnet.Header) {
	if m.peer != nil && m.peer.tx.answersWaiting() >= answersWaitingMax {
		m.drop(DropAnswersFull)
		return
	}
	m.op.Handle, m.op.Closing = h.Handle, &m.ni.closing
	m.op.RemoteOffset = int(h.Offset)
	switch m.node.table.Match(&m.op) {
	case portals.Accept:
		m.placePayload()
	case portals.Drop:
		m.drop(reasonOf(m.op.Cause))
	case portals.Delay:
		// The table owns m, and may have passed it to another goroutine by now.
	}
}

// placeResponse places an arrived REPLY or ACK if its MD was found, and drops it otherwise.
func (m *message) placeResponse(found bool) {
	if !found {
		m.drop(reasonOf(m.op.Cause))
		return
	}
	m.placePayload()
}

// placePayload tells the driver where to put the payload of the arrived message m, whose
// MD was found, or for a GET by RDMA, where the data for the REPLY is.
func (m *message) placePayload() {
	m.bound = true
	if p := m.arrival.source; p != nil && m.op.Event.Portal != lnet.ReservedPortal {
		p.noteUse(m.node.second.Load()) // a program on this node uses the message
	}
	p := lnd.Placement{Done: m}
	switch m.op.Event.Type {
	case portals.EventPut, portals.EventReply:
		p.Memory = m.op.Memory()
	case portals.EventGet:
		if m.arrival.rx.RDMA {
			p.Reply = m.op.Memory()
		} else { // Received sends the REPLY
			m.tx.Payload = m.op.Memory()
		}
	}
	m.ni.iface.Receive(m.arrival.rx, p)
}

// Received implements lnd.Receiver. The driver calls it when the message has arrived
// completely. Received delivers the event and sends the ACK or REPLY.
func (m *message) Received(rx *lnd.Rx, err error) {
	n := m.node
	e := &m.op.Event
	if err == nil && n.captures.active() {
		m.captureArrival(rx)
	}
	m.arrival.rx = nil
	if m.passage.forward {
		m.forwardReceived(err)
		return
	}
	if err != nil {
		if n.captures.active() {
			n.captureDrop(DropConnection, m.ni, m.peer, &rx.Header)
		}
		m.failed(err)
		m.end(err)
		return
	}
	m.succeeded(true)
	m.countReceived(e.MsgType, m.acceptedBytes())
	switch e.Type {
	case portals.EventPut:
		// Prepare the ACK first, because the handler may modify the event.
		ack := m.op.Ack
		source := e.Source.NID
		if ack {
			m.answer(rx, lnet.MsgAck)
		}
		if !ack {
			m.end(nil)
			return
		}
		m.finish(nil)
		n.sendAnswer(m, source)
	case portals.EventGet:
		if !rx.RDMA {
			m.answer(rx, lnet.MsgReply)
			n.sendAnswer(m, e.Source.NID)
			return
		}
		m.countSent(lnet.MsgReply, e.Length)
		m.end(nil)
	default:
		m.endResponse()
	}
}

// acceptedBytes returns the number of payload bytes that were stored from the arrived
// message m.
func (m *message) acceptedBytes() int {
	if t := m.op.Event.Type; t == portals.EventPut || t == portals.EventReply {
		return m.op.Event.Length
	}
	return 0
}

// answer turns m, the record of an arrived request, into an ACK or REPLY of type t to that
// request. The answer will be sent from the NI on which the request arrived.
func (m *message) answer(rx *lnd.Rx, t lnet.MsgType) {
	e := &m.op.Event
	h := &m.tx.Header
	*h = lnet.Header{DestPID: e.Source.PID, SrcPID: m.node.pid, Type: t, Handle: m.op.Handle}
	if t == lnet.MsgAck {
		h.MatchBits = e.MatchBits
		h.Length = uint32(e.Length)
	} else {
		h.PayloadLength = uint32(e.Length)
	}
	m.out.source = m.ni.NID
	m.out.urgent = rx.Header.Portal == lnet.ReservedPortal
	m.tx.Urgent = m.out.urgent
}

// checkForward returns an error if the sender of a message for another node should not
// have sent it through this node (lnet-core 5.2 step 3).
func (i *ni) checkForward(rx *lnd.Rx) error {
	h := &rx.Header
	switch {
	case h.Dest.Net() == i.net:
		return errDirect
	case h.Dest.IsLoopback():
		return errLoopback
	case rx.RDMA && h.Type == lnet.MsgGet:
		return errRDMAAfar
	}
	return nil
}

// protocolError counts a message that violates the protocol as dropped, and returns the
// error for the driver, which then closes the connection.
func (i *ni) protocolError(rx *lnd.Rx, r DropReason, err error) error {
	i.node.dropped(r, i, nil, &rx.Header)
	return &ProtocolError{NI: i.NID, From: rx.From, Err: err}
}
