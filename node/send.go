package node

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
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
	wantReply bool // an ACK or a REPLY
}

// Put sends the memory of the bound MD h. It never blocks: if it returns nil
// a SEND event follows, perhaps before Put returns, with the error if the
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
	if n.closing.Load() {
		return fmt.Errorf("%s to %s: %w", r.typ, to, ErrClosed)
	}
	d := n.find(h)
	if d == nil {
		return fmt.Errorf("%s to %s: descriptor %s: %w", r.typ, to, h, ErrNotFound)
	}
	m := n.newMessage()
	now := n.now()
	e := &m.event

	d.mu.Lock()
	if d.handle != h || d.zombie || d.threshold == 0 || d.portal != nil {
		d.mu.Unlock()
		n.freeMessage(m)
		return fmt.Errorf("%s to %s: descriptor %s: %w", r.typ, to, h, ErrNotFound)
	}
	d.spend()
	if r.wantReply {
		d.due++
		if r.typ == lnet.MsgGet {
			d.awaits |= awaitReply
		} else {
			d.awaits |= awaitAck
		}
		if n.tracks(d, r.typ) {
			n.track(d, now)
		}
	}
	m.md = d
	d.describe(e)
	memory := d.mem
	d.mu.Unlock()

	e.Type = EventSend
	e.MsgType = r.typ
	e.Portal = r.portal
	e.Target = to
	e.Initiator = lnet.ProcessID{NID: lnet.AnyNID, PID: n.pid}
	e.Source = e.Initiator
	e.Sender = lnet.AnyNID
	e.MatchBits, e.HdrData = r.bits, r.hdrData
	e.Requested, e.Length, e.Offset = memory.Length, memory.Length, int(r.offset)

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

	m.started = now
	c, err := n.choose(r.source, to.NID)
	if err != nil {
		n.finish(m, fmt.Errorf("%s to %s: %w", r.typ, to, err))
		n.freeMessage(m)
		return nil
	}
	m.commit(c.ni, c.ni.peer(c.hop))
	hd.Src, hd.Dest = c.ni.nid, c.target
	m.tx.To = lnet.ProcessID{NID: c.hop, PID: to.PID}
	m.deadline = now + c.ni.lifetime
	n.transmit(m)
	return nil
}

// transmit takes m through credits to the driver (lnet-core 7.2), and with it
// every message that goes on because one of them fails.
func (n *Node) transmit(m *message) {
	var ready messageQueue
	for ; m != nil; m = ready.pop() {
		if m.waited {
			if err := m.stale(); err != nil {
				m.giveCredits(&ready)
				if errors.Is(err, ErrTimedOut) {
					m.ni.countDropped(m.peer, m.tx.Header.Type, m.tx.Payload.Length)
				}
				m.left(err)
				continue
			}
		}
		if m.takeCredits() {
			m.ni.iface.Send(&m.tx)
		}
	}
}

// errOverdue is the fate of a message that waited for credits for too long.
var errOverdue = &lnd.Error{Driver: "node", Op: "send", Status: lnd.StatusNetworkTimeout, Err: ErrTimedOut}

// stale checks a message that comes from a credit queue (lnet-core 7.2).
func (m *message) stale() error {
	if m.node.now() > m.deadline {
		return errOverdue
	}
	if d := m.md; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.aborted {
			return ErrCanceled
		}
	}
	return nil
}

// Sent implements lnd.Sender.
func (m *message) Sent(_ *lnd.Tx, err error) {
	n := m.node
	var ready messageQueue
	m.giveCredits(&ready)
	for w := ready.pop(); w != nil; w = ready.pop() {
		n.transmit(w)
	}
	if err == nil {
		m.countSent(m.tx.Header.Type, m.tx.Payload.Length)
	}
	m.left(err)
}

// left ends m: it has left the node, or never will.
func (m *message) left(err error) {
	n := m.node
	if err != nil && !errors.Is(err, ErrCanceled) {
		m.countFailure(err)
	}
	switch m.tx.Header.Type {
	case lnet.MsgPut:
		if err == nil {
			m.sample(latencyPutEgress, n.now()-m.started)
		}
	case lnet.MsgGet:
		if err == nil && m.tx.Replied {
			n.replied(m)
		}
	}
	if m.md != nil {
		n.finish(m, err)
	}
	n.freeMessage(m)
}

// replied makes the REPLY event of a GET that the driver had answered by RDMA.
func (n *Node) replied(get *message) {
	d := get.md
	m := n.newMessage()
	m.commit(get.ni, get.peer)
	h := &get.tx.Header
	m.event = Event{
		Type: EventReply, MsgType: lnet.MsgGet,
		Target:    lnet.ProcessID{NID: h.Src, PID: h.SrcPID},
		Initiator: lnet.ProcessID{NID: n.primary(h.Dest), PID: h.DestPID},
		Source:    lnet.ProcessID{NID: h.Dest, PID: h.DestPID},
		Sender:    get.tx.To.NID,
		Requested: get.tx.ReplyLength,
	}
	d.mu.Lock()
	if d.zombie || d.threshold == 0 {
		d.mu.Unlock()
		n.freeMessage(m)
		return
	}
	d.spend()
	d.describe(&m.event)
	m.event.Length = min(get.tx.ReplyLength, d.mem.Length)
	d.mu.Unlock()
	m.md = d
	m.countReceived(lnet.MsgReply, m.event.Length)
	n.finish(m, nil)
	n.freeMessage(m)
}
