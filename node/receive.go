package node

import (
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Arrived implements lnd.Upper (lnet-core 5.2).
func (i *ni) Arrived(rx *lnd.Rx) error {
	if !i.open.Load() && i.holdBack(rx) {
		return nil
	}
	return i.receive(rx)
}

// Reasons why a message that is not for the NI it came to is an error.
var (
	errDirect    = errors.New("destination on the net that it came over: should have gone there directly")
	errOtherNI   = errors.New("destination is another NID of this node")
	errRDMAAfar  = errors.New("RDMA request for another node")
	errSinkRange = errors.New("sink_length: more than the MTU")
)

func (i *ni) receive(rx *lnd.Rx) error {
	h := &rx.Header
	if err := h.Validate(); err != nil {
		return i.protocolError(rx, err)
	}
	n := i.node
	if h.Dest != i.nid {
		return i.misdirected(rx)
	}
	if n.closing.Load() {
		i.countDropped(nil, h.Type, int(h.PayloadLength))
		i.iface.Receive(rx, lnd.Placement{})
		return nil
	}
	m := n.newMessage()
	m.commit(i, i.peer(rx.From.NID))
	if m.peer != nil {
		m.peer.heard(n.second.Load())
	}
	m.rx = rx
	e := &m.event
	e.MsgType = h.Type
	e.Unlinked = false
	e.Target = lnet.ProcessID{NID: h.Dest, PID: h.DestPID}
	e.Source = lnet.ProcessID{NID: h.Src, PID: h.SrcPID}
	e.Initiator = lnet.ProcessID{NID: n.primary(h.Src), PID: h.SrcPID}
	e.Sender = rx.From.NID
	e.Portal, e.MatchBits, e.HdrData = h.Portal, h.MatchBits, h.HdrData
	e.Requested, e.Length, e.Offset = int(h.PayloadLength), 0, 0

	switch h.Type {
	case lnet.MsgPut:
		e.Type = EventPut
		m.wanted = int(h.PayloadLength)
		m.request(h)
	case lnet.MsgGet:
		e.Type = EventGet
		m.wanted = int(h.Length)
		if h.Length > lnet.MTU {
			// The REPLY could not be carried; no requester means this.
			n.log.Debug("get dropped", "ni", i.nid, "from", rx.From, "err", errSinkRange)
			m.dropArrival()
			return nil
		}
		m.request(h)
	case lnet.MsgReply:
		e.Type = EventReply
		m.reply(h)
	default:
		e.Type = EventAck
		m.acked(h)
	}
	return nil
}

// answersWaitingMax is how many answers may wait for a neighbour to read
// them. One that asks on all the same loses its requests, as if nothing had
// matched: its connection cannot stand still instead, since two nodes that do
// so to each other would wait for ever.
const answersWaitingMax = 16384

// request matches an arrived PUT or GET.
func (m *message) request(h *lnet.Header) {
	if m.peer != nil && m.peer.credits.answers.Load() >= answersWaitingMax {
		m.dropArrival()
		return
	}
	m.handle = h.Handle
	m.remoteOffset = int(h.Offset)
	switch m.node.portals.match(m.node, m) {
	case verdictAccept:
		m.place()
	case verdictDrop:
		m.dropArrival()
	}
}

// claim finds the bound MD that an arrived REPLY or ACK names, and returns it
// with d.mu held; nil if the message must be dropped.
func (m *message) claim(h lnet.Handle, awaited uint8) *md {
	d := m.node.find(h)
	if d == nil {
		return nil
	}
	d.mu.Lock()
	if d.handle != h || d.zombie || d.threshold == 0 || d.portal != nil || d.awaits&awaited == 0 {
		d.mu.Unlock()
		return nil
	}
	return d
}

// reply places an arrived REPLY (lnet-core 5.5).
func (m *message) reply(h *lnet.Header) {
	d := m.claim(h.Handle, awaitReply)
	if d == nil {
		m.dropArrival()
		return
	}
	length := int(h.PayloadLength)
	if length > d.mem.Length {
		if d.options&Truncate == 0 {
			d.mu.Unlock()
			m.dropArrival()
			return
		}
		length = d.mem.Length
	}
	d.spend()
	d.describe(&m.event)
	memory := d.cut(0, length)
	d.mu.Unlock()
	m.md = d
	e := &m.event
	e.Portal, e.MatchBits, e.HdrData = 0, 0, 0
	e.Length = length
	m.ni.iface.Receive(m.rx, lnd.Placement{Memory: memory, Done: m})
}

// acked takes an arrived ACK (lnet-core 5.6).
func (m *message) acked(h *lnet.Header) {
	d := m.claim(h.Handle, awaitAck)
	if d == nil {
		m.dropArrival()
		return
	}
	d.spend()
	d.describe(&m.event)
	d.mu.Unlock()
	m.md = d
	e := &m.event
	e.Portal, e.HdrData = 0, 0
	e.Length = int(h.Length)
	m.ni.iface.Receive(m.rx, lnd.Placement{Done: m})
}

// dropArrival gives up an arrived message (lnet-core 4.5).
func (m *message) dropArrival() {
	i, rx := m.ni, m.rx
	i.countDropped(m.peer, m.event.MsgType, m.event.Requested)
	m.node.freeMessage(m)
	i.iface.Receive(rx, lnd.Placement{})
}

// Received implements lnd.Receiver.
func (m *message) Received(rx *lnd.Rx, err error) {
	n := m.node
	e := &m.event
	m.rx = nil
	if err != nil {
		m.countFailure(err)
		n.finish(m, err)
		n.freeMessage(m)
		return
	}
	m.countReceived(e.MsgType, m.payload())
	switch e.Type {
	case EventPut:
		// The ACK is made up first: the event is the handler's until it is
		// through, and the ACK leaves only then.
		ack := m.ack
		if ack {
			m.answer(lnet.MsgAck)
		}
		n.finish(m, nil)
		if ack {
			n.transmit(m)
			return
		}
	case EventGet:
		if !rx.RDMA {
			m.answer(lnet.MsgReply)
			n.transmit(m)
			return
		}
		m.countSent(lnet.MsgReply, e.Length)
		n.finish(m, nil)
	default:
		n.finish(m, nil)
	}
	n.freeMessage(m)
}

// payload is how much payload an arrived message brought that was taken.
func (m *message) payload() int {
	if m.event.Type == EventPut || m.event.Type == EventReply {
		return m.event.Length
	}
	return 0
}

// answer turns an arrived request into its ACK or REPLY, which leaves from the
// NI that the request came to, for the NID that it came from, by way of the
// neighbour that brought it (lnet-core 5.4): a router, or the asker itself. So
// nobody can make this node call others by lying about a source.
func (m *message) answer(t lnet.MsgType) {
	e := &m.event
	h := &m.tx.Header
	*h = lnet.Header{
		Dest: e.Source.NID, DestPID: e.Source.PID,
		Src: m.ni.nid, SrcPID: m.node.pid,
		Type: t, Handle: m.handle,
	}
	if t == lnet.MsgAck {
		h.MatchBits = e.MatchBits
		h.Length = uint32(e.Length)
	} else {
		h.PayloadLength = uint32(e.Length)
	}
	m.tx.To = e.Source
	if e.Sender != e.Source.NID {
		m.tx.To = lnet.ProcessID{NID: e.Sender, PID: lnet.PIDLustre}
	}
}

// misdirected deals with a message for somebody else: an error if the sender
// should have known better, else it is dropped, since this node does not
// route (lnet-core 5.2 step 3).
func (i *ni) misdirected(rx *lnd.Rx) error {
	h := &rx.Header
	switch {
	case h.Dest.Net() == i.net:
		return i.protocolError(rx, errDirect)
	case h.Dest.IsLoopback() || i.node.topology.Load().find(h.Dest) != nil:
		return i.protocolError(rx, errOtherNI)
	case rx.RDMA && h.Type == lnet.MsgGet:
		return i.protocolError(rx, errRDMAAfar)
	}
	i.countDropped(i.peer(rx.From.NID), h.Type, int(h.PayloadLength))
	i.iface.Receive(rx, lnd.Placement{})
	return nil
}

func (i *ni) protocolError(rx *lnd.Rx, err error) error {
	return &ProtocolError{NI: i.nid, From: rx.From, Err: err}
}
