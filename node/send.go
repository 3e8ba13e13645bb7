package node

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// PutOptions are the parameters of a PUT.
type PutOptions struct {
	// Source, if neither zero nor AnyNID, is the local NID to send from.
	Source lnet.NID
	// Portal is the portal of the target, 0 to 63.
	Portal    uint32
	MatchBits uint64
	// Offset is the position in a target MD that has ManageRemote.
	Offset uint32
	// HdrData is passed to the target's handler.
	HdrData uint64
	// Ack requests an acknowledgement.
	Ack bool
	// More is a hint that the caller is about to send more messages, so that the driver may
	// write this one together with them.
	More bool
}

// GetOptions are the parameters of a GET.
type GetOptions struct {
	// Source, if neither zero nor AnyNID, is the local NID to send from.
	Source lnet.NID
	// Portal is the portal of the target, 0 to 63.
	Portal    uint32
	MatchBits uint64
	// Offset is the position in a target MD that has ManageRemote.
	Offset uint32
	// More is a hint that the caller is about to send more messages; see PutOptions.
	More bool
}

// request holds the parameters of a PUT or a GET.
type request struct {
	typ       lnet.MsgType
	source    lnet.NID
	portal    uint32
	bits      uint64
	offset    uint32
	hdrData   uint64
	wantReply bool     // an ACK or a REPLY is expected
	recovery  bool     // a recovery ping
	net       lnet.Net // the net of the next hop, if not 0
	more      bool     // another request follows
}

// Put sends the memory of the bound MD h. A PID of 0 means lnet.PIDLustre. Put never
// blocks. If it returns nil, a SEND event follows, with an error if the message could not
// be sent. If Ack is set, an ACK event follows too, before or after the SEND event. Events
// may be delivered before Put returns. For a PUT to 0@lo, all events are delivered before
// Put returns, including events of messages to 0@lo that handlers send meanwhile.
//
// If Put returns an error, there will be no event. The error is ErrNotFound if the MD does
// not exist, was created by Attach, or is used up; ErrInvalid if the portal number is out
// of range; or ErrClosed.
func (n *Node) Put(h lnet.Handle, to lnet.ProcessID, o PutOptions) error {
	r := request{
		typ: lnet.MsgPut, source: o.Source, portal: o.Portal, bits: o.MatchBits,
		offset: o.Offset, hdrData: o.HdrData, wantReply: o.Ack, more: o.More,
	}
	return n.request(h, to, &r)
}

// Get requests data into the memory of the bound MD h. If it returns nil, a SEND and a
// REPLY event follow, in any order. Otherwise it is like Put.
func (n *Node) Get(h lnet.Handle, to lnet.ProcessID, o GetOptions) error {
	r := request{
		typ: lnet.MsgGet, source: o.Source, portal: o.Portal, bits: o.MatchBits,
		offset: o.Offset, wantReply: true, more: o.More,
	}
	return n.request(h, to, &r)
}

// checkPortal returns an error if the portal number is out of range (lnet-core 1.2, 4.3).
func checkPortal(portal uint32) error {
	if portal < lnet.Portals {
		return nil
	}
	return noPortal(portal)
}

func noPortal(portal uint32) error {
	return fmt.Errorf("portal %d: the number must be below %d: %w", portal, lnet.Portals, ErrInvalid)
}

func (n *Node) request(h lnet.Handle, to lnet.ProcessID, r *request) error {
	if to.PID == 0 {
		to.PID = lnet.PIDLustre
	}
	if err := n.checkOpen(); err != nil {
		return fmt.Errorf("%s to %s: %w", r.typ, to, err)
	}
	if err := checkPortal(r.portal); err != nil {
		return fmt.Errorf("%s to %s: %w", r.typ, to, err)
	}
	if n.faults.Active() && n.faults.Fails(to.NID) {
		return fmt.Errorf("%s to %s: %w", r.typ, to, ErrFailNID)
	}
	m := n.newMessage()
	m.out.source, m.out.recovery, m.out.reserved, m.out.over = r.source, r.recovery, r.portal == lnet.ReservedPortal, r.net
	m.out.urgent, m.tx.Urgent = m.out.reserved, m.out.reserved
	m.tx.Reconnect = r.net != 0
	m.out.started = n.now()
	m.tx.Header.Type, m.tx.Header.DestPID, m.tx.More = r.typ, to.PID, r.more
	m.out.region = n.regionOf(h)
	p := n.plan(m, to.NID)
	p.now = m.out.started
	parameters := n.parameters.Load()
	b := portals.Begin{Type: r.typ, Response: r.wantReply}
	if r.wantReply {
		b.Track = parameters.tracks(r.typ)
		b.Now, b.Deadline = m.out.started, m.out.started+int64(parameters.TransactionTimeout)
		b.NextHop = p.hop()
	}
	memory, err := n.table.Begin(h, &m.op, b)
	if err != nil {
		m.free()
		return fmt.Errorf("%s to %s: %w", r.typ, to, err)
	}
	m.bound = true
	setPollPath(m.op.Handler(), &p.d, r.wantReply)

	m.describe(r, to)
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
	n.execute(m, &p)
	return nil
}

// describe sets the fields of m's event that follow from the request. Begin has set the
// others from the MD.
func (m *message) describe(r *request, to lnet.ProcessID) {
	e := &m.op.Event
	e.Portal = r.portal
	e.Target = to
	e.Initiator = lnet.ProcessID{NID: lnet.AnyNID, PID: m.node.pid}
	e.Source = e.Initiator
	e.Sender = lnet.AnyNID
	e.MatchBits, e.HdrData = r.bits, r.hdrData
	e.Offset = int(r.offset)
}

// transmit acquires the credits for m and passes m to the driver (lnet-core 7.2). If a
// credit is not free, m waits in a queue. If m fails before the driver has it, transmit
// also sends the messages that receive m's credits.
func (n *Node) transmit(m *message) {
	var ready messageQueue
	for ; m != nil; m = ready.pop() {
		if m.out.waited || m.passage.forward {
			if err := m.checkSendable(); err != nil {
				if m.passage.forward && !m.out.waited { // no attempt has begun
					m.schedule(stepConclude, err)
				} else {
					m.endUnsent(err, &ready)
				}
				continue
			}
		}
		if !m.acquireCredits() {
			continue
		}
		if n.faults.Active() && !m.ni.loopback { // fault rules do not apply to 0@lo
			held, err := m.inject()
			if held {
				continue
			}
			if err != nil {
				m.endUnsent(err, &ready)
				continue
			}
		}
		if n.captures.active() {
			m.captureSend()
		}
		m.ni.iface.Send(&m.tx)
	}
}

// transmitAll transmits the messages of a queue, in order.
func (n *Node) transmitAll(q *messageQueue) {
	for q.head != nil {
		n.transmit(q.pop())
	}
}

// errOverdue is the error of a message that waited for credits until its deadline.
// errHopDown is the error of a forwarded message whose next hop does not answer.
var (
	errOverdue = &lnd.Error{Driver: "node", Op: "send", Status: lnd.StatusNetworkTimeout, Err: ErrTimedOut}
	errHopDown = &lnd.Error{Driver: "node", Op: "forward", Status: lnd.StatusRemoteDropped, Err: ErrUnreachable}
)

// checkSendable returns an error if m must not be sent any more (lnet-core 7.2). m has
// waited for credits or is being forwarded.
func (m *message) checkSendable() error {
	switch {
	case m.out.deadline != 0 && m.node.now() > m.out.deadline:
		return errOverdue
	case m.passage.forward && m.tx.To.PID&lnet.PIDUserFlag == 0 && !m.peer.Up.Load() && m.ni.tunables.PeerTimeout > 0 && m.node.router.forwards():
		return errHopDown
	case m.aborted():
		return ErrCanceled
	}
	return nil
}
