//go:build o2ib && cgo

package matrix

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// Match bits of replies and of bulk.
const (
	replyBits = 0x5e1f
	bulkBits  = 0xb01d
)

// ask asks the kernel to send a bulk, or to fetch one (selftest 5).
func (k *console) ask(op, length uint32, check message.Check) {
	k.p.t.Helper()
	q := message.BRWRequest{
		Header: message.NewHeader(message.BulkLength), ReplyID: replyBits, BulkID: bulkBits, Op: op, Length: length, Check: check,
	}
	k.put(message.TestPortal, uint64(message.ServiceBRW), q.Append(nil))
}

// wantReply waits for the kernel's reply.
func (p *peer) wantReply(want message.Status) {
	p.t.Helper()
	m := p.next()
	if m.Type != protocol.Immediate || m.LNet.Portal != message.ReplyPortal || m.LNet.MatchBits != replyBits {
		p.t.Fatalf("in place of a reply comes %+v", m)
	}
	_, got, err := message.ReplyStatus(m.Payload, message.TypeBRWRequest.Reply())
	if err != nil || got != want {
		p.t.Errorf("the reply says %v, %v; want %v", got, err, want)
	}
}

// wantBulk waits for a message with, or for, a bulk.
func (p *peer) wantBulk(t protocol.Type, length uint32) (protocol.Message, *conn) {
	p.t.Helper()
	m, on := p.nextOn()
	n := m.LNet.PayloadLength
	if t == protocol.GetReq {
		n = m.LNet.Length
	}
	if m.Type != t || m.LNet.Portal != message.ReplyPortal || m.LNet.MatchBits != bulkBits || n != length {
		p.t.Fatalf("in place of a bulk comes %+v", m)
	}
	return m, on
}

// larger is the next length that does not fit into a message. A length that is not a multiple of 8
// would crash a kernel (decisions 33).
const larger = protocol.MaxPayload + 8

// Up to 3976 bytes of a PUT fit into a message.
//
// o2iblnd 10.1
func TestWhatAKernelPutsIntoAMessage(t *testing.T) {
	p := newPeer(t)
	k := newServer(p.connect())
	defer k.end()
	k.ask(message.BRWRead, protocol.MaxPayload, message.CheckNone)
	if m, _ := p.wantBulk(protocol.Immediate, protocol.MaxPayload); len(m.Payload) != protocol.MaxPayload {
		t.Errorf("%d bytes", len(m.Payload))
	}
	p.wantReply(message.OK)
}

// A kernel's PUT writes to the sink of our answer, and ends with as many bytes as the sink has. If
// the sink is larger than the payload, it ends with EPROTO, which the kernel does not report on its
// side.
//
// o2iblnd 10.1, 10.2 (1), 10.2 (3)
func TestPutsOfAKernel(t *testing.T) {
	pieces := []uint32{1, 4095, 1 << 19, 100_000}
	rest := uint32(1<<20) - pieces[0] - pieces[1] - pieces[2] - pieces[3]
	for _, row := range []struct {
		name   string
		length uint32
		sink   []uint32
		status int32
	}{
		{"3984 bytes", larger, []uint32{larger}, larger},
		{"1 MiB into 1 piece", 1 << 20, []uint32{1 << 20}, 1 << 20},
		{"1 MiB into 5 pieces", 1 << 20, append(slices.Clone(pieces), rest), 1 << 20},
		{"into less room", 8192, []uint32{4096}, 4096},
		{"into more room", 8192, []uint32{16384}, -71},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPeer(t)
			k := newServer(p.connect())
			defer k.end()
			k.ask(message.BRWRead, row.length, message.CheckFull)
			q, c := p.wantBulk(protocol.PutReq, row.length)
			m := c.message(protocol.PutAck)
			c.returnCredits(&m)
			m.Cookie, m.SinkCookie, m.Sink = q.Cookie, 4712, c.sink(row.sink...)
			c.sendMessage(&m)
			if got := p.next(); got.Type != protocol.PutDone || got.Cookie != 4712 || got.Status != row.status {
				t.Fatalf("%+v", got)
			}
			if row.status > 0 {
				if err := pattern.Check(c.found(row.sink...), message.CheckFull, message.LittleEndian); err != nil {
					t.Error(err)
				}
			}
			p.wantReply(message.OK)
		})
	}
}

// A kernel that fetches accepts what we write, and the length that we report, which must not be
// more than it has room for (18). After the end of our answer are the bytes that tell other lnetds
// that everything was written (decisions 86): kernels ignore them.
//
// o2iblnd 10.3 (2)
func TestGetsOfAKernel(t *testing.T) {
	mark := []byte{0xa5, 'l', 'n', 'd'}
	for _, row := range []struct {
		name   string
		length uint32
		check  message.Check
		status int32 // of the GET_DONE
	}{
		{"1 MiB", 1 << 20, message.CheckFull, 1 << 20},
		{"5000 of 1 MiB", 1 << 20, message.CheckNone, 5000},
		{"-61", 1 << 20, message.CheckNone, -61}, // status without a reply
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPeer(t)
			k := newServer(p.connect())
			defer k.end()
			k.ask(message.BRWWrite, row.length, row.check)
			q, c := p.wantBulk(protocol.GetReq, row.length)
			pattern.Fill(c.at(0, int(row.length)), message.LittleEndian)
			m := c.message(protocol.GetDone)
			c.returnCredits(&m)
			m.Cookie, m.Status = q.Cookie, row.status
			var to []protocol.Fragment
			if row.status > 0 {
				to = []protocol.Fragment{{Addr: q.Sink.Fragments[0].Addr, Length: uint32(row.status)}}
			}
			c.write(0, to, append(c.p.encoded(&m, little), mark...), q.Sink.Key)
			if row.status >= 0 {
				p.wantReply(message.OK)
			}
			c.ping(little)
		})
	}
}

// A PUT_REQ that gets no answer ends its connection, but no other.
//
// o2iblnd 13.2 (1), 13.2 (2)
func TestUnanswered(t *testing.T) {
	p := newPeer(t)
	both := [2]*conn{p.connect(), p.connect()}
	newServer(both[0]).ask(message.BRWRead, 8192, message.CheckNone)
	_, on := p.wantBulk(protocol.PutReq, 8192)
	on.wantClosed()
	other := both[0]
	if on == other {
		other = both[1]
	}
	other.ping(little)
}
