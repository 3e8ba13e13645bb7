//go:build o2ib && cgo

package matrix

import (
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// console makes a kernel take part in LNet selftest with us (selftest 4).
type console struct {
	*conn
	id   message.SessionID
	next uint64 // match bits
	kept
}

const batch = 1

// newServer makes the kernel a server.
func newServer(c *conn) *console {
	c.p.t.Helper()
	k := newConsole(c)
	k.serve()
	return k
}

// newConsole begins a session.
func newConsole(c *conn) *console {
	c.p.t.Helper()
	nid, _ := message.NID4Of(c.p.self)
	k := &console{conn: c, id: message.SessionID{NID: nid, Stamp: time.Now().UnixMilli()}, next: 0x1000}
	k.call(&message.MakeSessionRequest{Header: message.NewHeader(message.BulkLength), Session: k.id, Force: true, Name: message.NameOf("matrix")})
	return k
}

// call calls a service of the framework, which must succeed. Meanwhile the kernel may fetch what
// the call offers, and request bulk.
func (k *console) call(q message.Request, offers ...byte) []byte {
	k.p.t.Helper()
	k.next += 2
	reply, bulk := k.next, k.next+1
	b := q.Append(nil)
	if len(offers) == 0 {
		bulk = 0
	}
	message.SetIDs(b, reply, bulk)
	k.put(q.Service().Portal(), uint64(q.Service()), b)
	for {
		m, on := k.p.nextOn()
		switch h := &m.LNet; {
		case m.Type == protocol.Noop:
		case m.Type == protocol.Immediate && h.Type == lnet.MsgGet && h.MatchBits == bulk:
			on.reply(h, offers)
		case m.Type == protocol.Immediate && h.MatchBits == reply:
			if _, status, err := message.ReplyStatus(m.Payload, message.Type(little.Uint32(b[8:])).Reply()); err != nil || status != message.OK {
				k.p.t.Fatalf("%v: %v, %v", q.Service(), status, err)
			}
			return m.Payload
		default:
			k.asked(&m)
		}
	}
}

// asked stores a request for bulk, or a PUT_ACK.
func (k *console) asked(m *protocol.Message) {
	k.p.t.Helper()
	if err := k.keep(m); err != nil {
		k.p.t.Fatalf("%+v: %v", m, err)
	}
}

// request returns the next request for bulk.
func (k *console) request() message.BRWRequest {
	k.p.t.Helper()
	for len(k.requests) == 0 {
		k.wait()
	}
	return takeFirst(&k.requests)
}

// putAck returns the next PUT_ACK.
func (k *console) putAck() protocol.Message {
	k.p.t.Helper()
	for len(k.acks) == 0 {
		k.wait()
	}
	return takeFirst(&k.acks)
}

// wait stores the next message that is not a NOOP.
func (k *console) wait() {
	k.p.t.Helper()
	if m := k.p.next(); m.Type != protocol.Noop {
		k.asked(&m)
	}
}

// serve makes the kernel a server.
func (k *console) serve() {
	k.p.t.Helper()
	k.call(&message.TestRequest{
		Header: message.NewHeader(message.BulkLength), Session: k.id, Batch: batch, Tests: message.ServiceBRW, Loop: 1, Concurrency: 1,
	})
}

// run makes the kernel our client. It starts with the given number of concurrent requests, each of
// which is made loop times.
func (k *console) run(op, concurrency, loop uint32) {
	k.p.t.Helper()
	nid, _ := message.NID4Of(k.p.self)
	to := message.AppendDestinations(nil, []message.Destination{{NID: nid, PID: lnet.PIDLustre}}, message.LittleEndian)
	k.call(&message.TestRequest{
		Header: message.NewHeader(message.BulkLength), Session: k.id, Batch: batch, Tests: message.ServiceBRW,
		Loop: loop, Concurrency: concurrency, Client: true, StopOnError: true, Destinations: 1,
		BRW: message.BRWParameters{Op: op, Flags: uint32(message.CheckFull), Length: lnet.MTU},
	}, to[:message.DestinationSize]...)
	k.batch(message.BatchRun)
}

func (k *console) batch(op message.BatchOp) (r message.BatchReply) {
	k.p.t.Helper()
	k.p.check(r.Decode(k.call(&message.BatchRequest{Header: message.NewHeader(message.BulkLength), Session: k.id, Batch: batch, Op: op})))
	return r
}

// answer tells the kernel that a request is complete.
func (k *console) answer(q *message.BRWRequest) {
	r := message.BRWReply{Header: message.NewHeader(message.BulkLength)}
	k.put(message.ReplyPortal, q.ReplyID, r.Append(nil))
}

// end checks that the kernel has found no error in the received data, and ends the session.
func (k *console) end() {
	k.p.t.Helper()
	for over := time.Now().Add(patience); k.batch(message.BatchQuery).Active > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(over) {
			k.p.t.Fatal("the kernel is not through")
		}
	}
	var r message.StatReply
	k.p.check(r.Decode(k.call(&message.StatRequest{Header: message.NewHeader(message.BulkLength), Session: k.id})))
	if n := r.Framework.BRWErrors; n != 0 {
		k.p.t.Errorf("the kernel has seen %d errors", n)
	}
	k.call(&message.RemoveSessionRequest{Header: message.NewHeader(message.BulkLength), Session: k.id})
}

// put sends a PUT that fits into a message, without an ACK.
func (c *conn) put(portal uint32, bits uint64, payload []byte) {
	c.p.t.Helper()
	m := c.message(protocol.Immediate)
	c.returnCredits(&m)
	m.LNet = c.header(lnet.MsgPut)
	m.LNet.Portal, m.LNet.MatchBits, m.LNet.Handle = portal, bits, lnet.NoHandle
	m.LNet.PayloadLength = uint32(len(payload))
	c.send(append(c.p.encoded(&m, little), payload...))
}
