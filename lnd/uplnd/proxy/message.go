package proxy

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// message is a message that lnetd has ordered to send.
type message struct {
	lnd.Tx
	guest   *guest
	handle  uint64
	segment [1]memory.Segment // of the payload
}

// send passes a message to the driver.
func (g *guest) send(e *protocol.Entry) error {
	size := uint64(len(g.area.Bytes()))
	if uint64(e.Length) > size || e.Offset > size-uint64(e.Length) || e.Length != e.Header.PayloadLength {
		return fmt.Errorf("proxy: order of lnetd: payload of %d bytes at %#x, header says %d", e.Length, e.Offset, e.Header.PayloadLength)
	}
	m := g.messages.Get().(*message)
	m.handle = e.Handle
	m.Tx = lnd.Tx{Header: e.Header, To: e.Peer, More: e.More, Urgent: e.Urgent, Done: m}
	if n := int(e.Length); n > 0 {
		m.segment[0] = memory.Segment{Bytes: g.area.Bytes()[e.Offset:][:n:n]}
		m.Payload = memory.Vector{Segments: m.segment[:], Length: n}
	}
	g.mu.Lock()
	if e.Vouched && len(g.vouched) < maxVouched {
		g.vouched[e.Peer.NID] = true
	}
	_, twice := g.sending[e.Handle]
	g.sending[e.Handle] = m
	g.mu.Unlock()
	if twice {
		return fmt.Errorf("proxy: order of lnetd: message %#x twice", e.Handle)
	}
	g.iface.Send(&m.Tx)
	return nil
}

// Sent implements lnd.Sender.
func (m *message) Sent(_ *lnd.Tx, err error) {
	g := m.guest
	e := protocol.Entry{Op: protocol.Sent, Handle: m.handle}
	e.SetError(err)
	g.mu.Lock()
	delete(g.sending, m.handle)
	m.Tx = lnd.Tx{}
	g.put(&e)
	g.unlock()
	g.messages.Put(m)
}

// recall takes a message back from the driver.
func (g *guest) recall(handle uint64) {
	g.mu.Lock()
	m := g.sending[handle]
	var peer lnet.NID
	if m != nil {
		peer = m.To.NID
	}
	g.mu.Unlock()
	if m != nil {
		g.iface.Recall(peer, func(tx *lnd.Tx) bool {
			other, ok := tx.Done.(*message)
			return ok && other.handle == handle
		})
	}
}
