//go:build o2ib && cgo

package matrix

import (
	"errors"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// The memory of a connection: buffers to receive into, one to send from, and a sink.
const (
	buffers  = 2*8 + 2 // of a queue of 8 (o2iblnd 9.2)
	sendAt   = buffers * protocol.MaxMessage
	sinkAt   = sendAt + protocol.MaxMessage
	connSize = sinkAt + 1<<16
)

// conn is a connection with the kernel.
type conn struct {
	p   *peer
	id  verbs.ID
	ack protocol.Message // the kernel's CONNACK
	mem verbs.Memory
}

// newConn makes what the connection needs, and posts all its buffers.
func newConn(p *peer, id verbs.ID) *conn {
	p.t.Helper()
	dev, _, err := id.Device()
	p.check(err)
	c := &conn{p: p, id: id}
	c.mem, err = dev.Alloc(connSize, false, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	p.check(err)
	cq, err := dev.NewCQ(4*buffers, 0)
	p.check(err)
	p.check(id.CreateQP(&verbs.QP{CQ: cq, Sends: buffers, Recvs: buffers, SendPieces: 1}))
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

// receive hands what arrives to the peer, until the connection ends.
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
				c.p.arrivals <- append([]byte(nil), c.mem.Bytes()[k*protocol.MaxMessage:][:w.Bytes]...)
				_, _, _ = c.id.Post([]verbs.Recv{c.buffer(k)}, nil, nil)
			}
		}
	}
}

// message is the beginning of one on the connection.
func (c *conn) message(t protocol.Type) protocol.Message {
	return protocol.Message{
		Version: c.ack.Version, Type: t, Src: c.p.self, SrcStamp: stamp, Dst: c.p.kernel, DstStamp: c.ack.SrcStamp,
	}
}

// header is that of an LNet message for the kernel.
func (c *conn) header(t lnet.MsgType) lnet.Header {
	return lnet.Header{
		Type: t, Src: c.p.self, Dest: c.p.kernel, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
		Handle: lnet.Handle{Interface: stamp, Object: 1}, MatchBits: lnet.PingMatchBits, Portal: lnet.ReservedPortal,
	}
}

// send sends bytes.
func (c *conn) send(b []byte) {
	c.p.t.Helper()
	n := copy(c.mem.Bytes()[sendAt:sinkAt], b)
	_, _, err := c.id.Post(nil, []verbs.Request{{WRID: buffers, Count: 1, Op: verbs.Send, Flags: verbs.FlagSignalled}},
		[]verbs.Piece{{Addr: c.mem.Addr() + sendAt, Len: uint32(n), LKey: c.mem.LKey()}})
	c.p.check(err)
}

// say sends a message.
func (c *conn) say(m *protocol.Message) {
	c.p.t.Helper()
	c.send(c.p.encoded(m, little))
}

// wantClosed has the kernel end the connection.
func (c *conn) wantClosed() {
	c.p.t.Helper()
	c.p.await(c.id, verbs.EventDisconnected)
	if err := c.id.Disconnect(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		c.p.t.Log(err) // it is over for both
	}
}

// sink is where an RDMA may go, as pieces of some lengths that lie apart.
func (c *conn) sink(lengths ...uint32) (d protocol.Descriptor) {
	d.Key = c.mem.RKey()
	at := c.mem.Addr() + sinkAt
	for _, n := range lengths {
		d.Fragments = append(d.Fragments, protocol.Fragment{Addr: at, Length: n})
		at += uint64(n) + 64
	}
	return d
}

// at is what lies in the sink.
func (c *conn) at(offset, n int) []byte { return c.mem.Bytes()[sinkAt+offset:][:n] }
