//go:build o2ib && cgo

package matrix

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// The memory of a connection: receive buffers, send buffers, and the sinks and sources of RDMA.
const (
	buffers  = 2*8 + 2 // of a queue of 8 (o2iblnd 9.2)
	sends    = 16
	sendAt   = buffers * protocol.MaxMessage
	bulkAt   = sendAt + sends*protocol.MaxMessage
	connSize = bulkAt + lnet.MTU + protocol.MaxFragments*gap
	gap      = 64 // between pieces
)

// conn is a connection with the kernel.
type conn struct {
	p   *peer
	id  verbs.ID
	ack protocol.Message // the kernel's CONNACK
	mem verbs.Memory

	sent            int          // messages
	creditsToReturn atomic.Int32 // credits
}

// newConn allocates the memory of a connection, and posts all its buffers.
func newConn(p *peer, id verbs.ID) *conn {
	p.t.Helper()
	dev, _, err := id.Device()
	p.check(err)
	c := &conn{p: p, id: id}
	c.mem, err = dev.Alloc(connSize, false, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	p.check(err)
	cq, err := dev.NewCQ(4*sends+buffers, 0)
	p.check(err)
	p.check(id.CreateQP(&verbs.QP{CQ: cq, Sends: 4 * sends, Recvs: buffers, SendPieces: 1}))
	var list []verbs.Recv
	for k := range buffers {
		list = append(list, c.buffer(k))
	}
	_, _, err = id.Post(list, nil, nil)
	p.check(err)
	go c.receive(cq)
	return c
}

func (c *conn) buffer(k int) verbs.Recv {
	return verbs.Recv{
		WRID: uint64(k), Addr: c.mem.Addr() + uint64(k)*protocol.MaxMessage, Len: protocol.MaxMessage, LKey: c.mem.LKey(),
	}
}

// receive passes messages to the peer until the connection ends.
func (c *conn) receive(cq verbs.CQ) {
	var wc [16]verbs.Completion
	for {
		n, err := cq.Wait(wc[:], 0)
		if err != nil {
			return
		}
		for _, w := range wc[:n] {
			if w.Status != verbs.Success {
				return
			}
			if w.Op == verbs.CompletedRecv {
				k := int(w.WRID)
				b := bytes.Clone(c.mem.Bytes()[k*protocol.MaxMessage:][:w.Bytes])
				_, _, _ = c.id.Post([]verbs.Recv{c.buffer(k)}, nil, nil)
				switch protocol.Type(b[6]) {
				case protocol.Immediate, protocol.GetReq, protocol.PutDone: // see 9.4
					c.creditsToReturn.Add(1)
				}
				c.p.arrivals <- arrival{c, b}
			}
		}
	}
}

// message returns the header of a message on the connection, without returned credits.
func (c *conn) message(t protocol.Type) protocol.Message {
	return protocol.Message{
		Version: c.ack.Version, Type: t, Src: c.p.self, SrcStamp: stamp, Dst: c.p.kernel, DstStamp: c.ack.SrcStamp,
	}
}

// returnCredits adds the credits that must be returned to a message.
func (c *conn) returnCredits(m *protocol.Message) { m.Credits = uint8(c.creditsToReturn.Swap(0)) }

// header returns the header of an LNet message for the kernel.
func (c *conn) header(t lnet.MsgType) lnet.Header {
	return lnet.Header{
		Type: t, Src: c.p.self, Dest: c.p.kernel, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
		Handle: lnet.Handle{Interface: stamp, Object: 1}, MatchBits: lnet.PingMatchBits, Portal: lnet.ReservedPortal,
	}
}

// send sends bytes.
func (c *conn) send(b []byte) { c.write(0, nil, b) }

// write writes the bytes at an offset of the connection's memory to the peer's sink, and sends a
// message after them.
func (c *conn) write(offset int, to []protocol.Fragment, b []byte, key ...uint32) {
	c.p.t.Helper()
	at := sendAt + c.sent%sends*protocol.MaxMessage
	c.sent++
	n := copy(c.mem.Bytes()[at:at+protocol.MaxMessage], b)
	var requests []verbs.Request
	var pieces []verbs.Piece
	for _, f := range to {
		requests = append(requests, verbs.Request{
			WRID: buffers, Remote: f.Addr, RKey: key[0], First: uint16(len(pieces)), Count: 1, Op: verbs.RDMAWrite,
		})
		pieces = append(pieces, verbs.Piece{Addr: c.mem.Addr() + bulkAt + uint64(offset), Len: f.Length, LKey: c.mem.LKey()})
		offset += int(f.Length)
	}
	requests = append(requests, verbs.Request{WRID: buffers, First: uint16(len(pieces)), Count: 1, Op: verbs.Send, Flags: verbs.FlagSignalled})
	pieces = append(pieces, verbs.Piece{Addr: c.mem.Addr() + uint64(at), Len: uint32(n), LKey: c.mem.LKey()})
	_, _, err := c.id.Post(nil, requests, pieces)
	c.p.check(err)
}

// sendMessage sends a message.
func (c *conn) sendMessage(m *protocol.Message) {
	c.p.t.Helper()
	c.send(c.p.encoded(m, little))
}

// reply answers a GET in a message.
func (c *conn) reply(to *lnet.Header, payload []byte) {
	c.p.t.Helper()
	m := c.message(protocol.Immediate)
	c.returnCredits(&m)
	m.LNet = lnet.Header{
		Type: lnet.MsgReply, Src: c.p.self, Dest: c.p.kernel, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
		Handle: to.Handle, PayloadLength: uint32(len(payload)),
	}
	c.send(append(c.p.encoded(&m, little), payload...))
}

// wantClosed waits until the kernel ends the connection.
func (c *conn) wantClosed() {
	c.p.t.Helper()
	c.p.await(c.id, verbs.EventDisconnected)
	if err := c.id.Disconnect(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		c.p.t.Log(err) // the connection has ended on both sides
	}
}

// sink returns a descriptor for RDMA, with separate pieces of the given lengths.
func (c *conn) sink(lengths ...uint32) (d protocol.Descriptor) {
	d.Key = c.mem.RKey()
	at := c.mem.Addr() + bulkAt
	for _, n := range lengths {
		d.Fragments = append(d.Fragments, protocol.Fragment{Addr: at, Length: n})
		at += uint64(n) + gap
	}
	return d
}

// at returns the bytes of the sink.
func (c *conn) at(offset, n int) []byte { return c.mem.Bytes()[bulkAt+offset:][:n] }

// found returns the bytes of the pieces of a sink.
func (c *conn) found(lengths ...uint32) (b []byte) {
	at := 0
	for _, n := range lengths {
		b = append(b, c.at(at, int(n))...)
		at += int(n) + gap
	}
	return b
}
