//go:build o2ib && cgo

package matrix

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// A kernel's answers to valid and invalid connection requests, and what it offers instead.
//
// o2iblnd 3.6 (1), 6 (1)
func TestCalls(t *testing.T) {
	limits := protocol.Params{Depth: 8, Fragments: 257, Size: protocol.MaxMessage}
	for _, row := range []struct {
		name  string
		spoil func(p *peer, m *protocol.Message)
		why   protocol.Reason // 0: accepted
		known bool            // the reject contains stamp and limits
	}{
		{"depth 8 and 256 fragments", func(*peer, *protocol.Message) {}, 0, true},
		{"depth 16", func(_ *peer, m *protocol.Message) { m.Params.Depth = 16 }, protocol.TooDeep, true},
		{"300 fragments", func(_ *peer, m *protocol.Message) { m.Params.Fragments = 300 }, protocol.TooManyFrag, true},
		{"1 fragment", func(_ *peer, m *protocol.Message) { m.Params.Fragments = 1 }, 0, true},
		{"another stamp", func(_ *peer, m *protocol.Message) { m.DstStamp = 1 }, protocol.Stale, true},
		{"another NID", func(p *peer, m *protocol.Message) {
			m.Dst = lnet.NIDFromIP(p.kernel.Net(), netip.MustParseAddr("10.77.0.99"))
		}, protocol.Fatal, false},
		{"messages of 8192", func(_ *peer, m *protocol.Message) { m.Params.Size = 8192 }, protocol.Fatal, true},
		{"V1", func(_ *peer, m *protocol.Message) { m.Version = protocol.V1 }, 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPeer(t)
			m := p.request()
			row.spoil(p, &m)
			c, why := p.call(p.encoded(&m, little))
			if row.why == 0 {
				if why != nil || c.ack.Params != m.Params || c.ack.Version != m.Version || c.ack.DstStamp != stamp {
					t.Errorf("answered with %+v, %+v", c, why)
				}
				return
			}
			if why == nil || why.Why != row.why {
				t.Fatalf("answered with %+v, %+v", c, why)
			}
			if known := why.Stamp != 0 && why.Limits == limits; known != row.known {
				t.Errorf("rejected with %+v", *why)
			}
		})
	}
}

// A kernel that has connections of V2 with a peer rejects its request of V1 as stale, and names V1
// in the reject.
//
// o2iblnd 6 (1), 8 (2)
func TestV1BesideV2(t *testing.T) {
	p := newPeer(t)
	p.connect()
	m := p.request()
	m.Version = protocol.V1
	if c, why := p.call(p.encoded(&m, little)); why == nil || why.Why != protocol.Stale || why.Version != protocol.V1 {
		t.Errorf("answered with %+v, %+v", c, why)
	}
}

// A request that is not a CONNREQ of a known version is rejected with the supported version.
//
// o2iblnd 3.6 (1)
func TestOtherCalls(t *testing.T) {
	for name, spoil := range map[string]func(b []byte){
		"version 0x13":  func(b []byte) { little.PutUint16(b[4:], 0x13) },
		"another magic": func(b []byte) { b[0]++ },
		"unified magic": func(b []byte) { little.PutUint32(b, 0x45726963) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			m := p.request()
			b := p.encoded(&m, little)
			spoil(b)
			p.wantReject(b, protocol.Reject{Version: protocol.V2, Why: protocol.Fatal, Limits: protocol.Params{Size: protocol.MaxMessage}})
		})
	}
	t.Run("NOOP", func(t *testing.T) {
		p := newPeer(t)
		m := p.request()
		b := p.encoded(&m, little)
		b[6] = byte(protocol.Noop)
		if c, why := p.call(b); why == nil || why.Why != protocol.Fatal || why.Stamp == 0 {
			t.Errorf("answered with %+v, %+v", c, why)
		}
	})
	t.Run("unprivileged port", func(t *testing.T) {
		p := newPeer(t)
		p.unprivileged = true
		m := p.request()
		if c, why := p.call(p.encoded(&m, little)); why != nil {
			t.Errorf("answered with %+v, %+v", c, why)
		}
	})
}

// A second connection of the same life is accepted. A request of another life ends the connections
// of the earlier one, and is accepted when it is repeated.
//
// o2iblnd 12.3
func TestLives(t *testing.T) {
	p := newPeer(t)
	first, second := p.connect(), p.connect()
	second.ping(little)
	m := p.request()
	m.SrcStamp++
	if _, why := p.call(p.encoded(&m, little)); why == nil || why.Why != protocol.Stale || why.Stamp != first.ack.SrcStamp {
		t.Fatalf("another life: %+v", why)
	}
	first.wantClosed()
	second.wantClosed()
	if c, why := p.call(p.encoded(&m, little)); why != nil {
		t.Errorf("again: %+v, %+v", c, why)
	}
}

// A node with the other byte order receives answers in the kernel's order, and gets its cookies
// back unchanged.
//
// o2iblnd 4 (1)-(2)
func TestBigEndian(t *testing.T) {
	p := newPeer(t)
	m := p.request()
	c, why := p.call(p.encoded(&m, big))
	if why != nil {
		t.Fatalf("%+v", why)
	}
	c.ping(big)
	c.fetch(big, pingSize)
}

// ping asks for the kernel's NIDs in a message, and expects the answer in a message.
func (c *conn) ping(order binary.AppendByteOrder) {
	t := c.p.t
	t.Helper()
	m := c.message(protocol.Immediate)
	m.LNet = c.header(lnet.MsgGet)
	m.LNet.Length = 272
	c.send(c.p.encoded(&m, order))
	got := c.p.next()
	for got.Type == protocol.Noop { // the connection was idle for long
		got = c.p.next()
	}
	if got.Type != protocol.Immediate || got.LNet.Type != lnet.MsgReply || got.Credits != 1 || got.LNet.Handle != m.LNet.Handle {
		t.Fatalf("a ping is answered with %+v", got)
	}
	if magic := little.Uint32(got.Payload); magic != pingMagic {
		t.Errorf("the answer begins with %#x", magic)
	}
}

const (
	// pingMagic is the beginning of the answer to a ping (lnet-wire 7.2).
	pingMagic = 0x70696e67
	// pingSize is the size for a node with one NI, besides the loopback one.
	pingSize = 48
)

// fetch asks for the kernel's NIDs by RDMA, into several pieces.
func (c *conn) fetch(order binary.AppendByteOrder, lengths ...uint32) {
	t := c.p.t
	t.Helper()
	m := c.message(protocol.GetReq)
	m.Cookie, m.Sink = 0x0123456789abcdef, c.sink(lengths...)
	m.LNet = c.header(lnet.MsgGet)
	for _, n := range lengths {
		m.LNet.Length += n
	}
	c.send(c.p.encoded(&m, order))
	if got := c.p.next(); got.Type != protocol.GetDone || got.Cookie != m.Cookie || got.Status != pingSize {
		t.Fatalf("a GET is answered with %+v", got)
	}
}

// Answers by RDMA into a sink of exactly their size, and into a larger one, where data that is
// reported as written was not written.
//
// o2iblnd 10.3 (1), 18 (1)
func TestFetch(t *testing.T) {
	t.Run("exact", func(t *testing.T) {
		c := newPeer(t).connect()
		c.fetch(little, pingSize)
		if magic := little.Uint32(c.at(0, 4)); magic != pingMagic {
			t.Errorf("there begins %#x", magic)
		}
	})
	t.Run("larger", func(t *testing.T) {
		c := newPeer(t).connect()
		c.fetch(little, 1024)
		if first := little.Uint32(c.at(0, 4)); first != 0 {
			t.Errorf("something has come: %#x", first)
		}
	})
	t.Run("in pieces", func(t *testing.T) {
		c := newPeer(t).connect()
		c.fetch(little, 20, 1004)
		if first, second := little.Uint32(c.at(0, 4)), little.Uint64(c.at(20+64, 8)); first != pingMagic || second != 0 {
			t.Errorf("there are %#x and %#x", first, second)
		}
	})
}

// An unexpected message is answered, or its credit is returned.
//
// o2iblnd 9.5 (1), 10.2 (2), 10.3 (2)
func TestUnmatched(t *testing.T) {
	const nobody = 40 // a portal without entries
	t.Run("GET", func(t *testing.T) {
		c := newPeer(t).connect()
		m := c.message(protocol.GetReq)
		m.Cookie, m.Sink, m.LNet = 7, c.sink(64), c.header(lnet.MsgGet)
		m.LNet.Portal, m.LNet.Length = nobody, 64
		c.sendMessage(&m)
		if got := c.p.next(); got.Type != protocol.GetDone || got.Cookie != 7 || got.Status != -61 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("PUT", func(t *testing.T) {
		c := newPeer(t).connect()
		m := c.message(protocol.PutReq)
		m.Cookie, m.LNet = 8, c.header(lnet.MsgPut)
		m.LNet.Portal, m.LNet.PayloadLength, m.LNet.Handle = nobody, 1<<16, lnet.NoHandle
		c.sendMessage(&m)
		if got := c.p.next(); got.Type != protocol.PutNak || got.Cookie != 8 || got.Status != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("6 messages", func(t *testing.T) {
		c := newPeer(t).connect()
		for range 6 {
			m := c.message(protocol.Immediate)
			m.LNet = c.header(lnet.MsgPut)
			m.LNet.Portal, m.LNet.Handle = nobody, lnet.NoHandle
			c.sendMessage(&m)
		}
		if got := c.p.next(); got.Type != protocol.Noop || got.Credits != 4 {
			t.Errorf("%+v", got)
		}
	})
}

// A protocol violation closes the connection.
//
// o2iblnd 2.2 (3), 4 (3), 9.4 (1), 18 (7)
func TestWhatCostsAConnection(t *testing.T) {
	for name, say := range map[string]func(c *conn){
		"credits that nobody is owed": func(c *conn) {
			m := c.message(protocol.Noop)
			m.Credits = 9
			c.sendMessage(&m)
		},
		"another stamp": func(c *conn) {
			m := c.message(protocol.Noop)
			m.DstStamp++
			c.sendMessage(&m)
		},
		"a cookie of nothing": func(c *conn) {
			m := c.message(protocol.PutNak)
			m.Cookie = 99
			c.sendMessage(&m)
		},
		"longer than it is": func(c *conn) {
			m := c.message(protocol.Noop)
			b := c.p.encoded(&m, little)
			little.PutUint32(b[8:], 4000)
			c.send(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPeer(t).connect()
			say(c)
			c.wantClosed()
		})
	}
}

// Bytes after the end of a message are ignored.
//
// o2iblnd 4 (3)
func TestBytesBeyondTheEnd(t *testing.T) {
	c := newPeer(t).connect()
	m := c.message(protocol.Immediate)
	m.LNet = c.header(lnet.MsgGet)
	m.LNet.Length = 272
	c.send(append(c.p.encoded(&m, little), bytes.Repeat([]byte{0xee}, 100)...))
	if got := c.p.next(); got.Type != protocol.Immediate || got.LNet.Type != lnet.MsgReply {
		t.Errorf("%+v", got)
	}
}

// A connection on which nothing happens gets a NOOP.
//
// o2iblnd 9.5 (2)
func TestKeepalive(t *testing.T) {
	p := newPeer(t)
	p.connect()
	if m, _ := p.any(time.After(patience)); m.Type != protocol.Noop || m.Credits != 0 {
		t.Errorf("%+v", m)
	}
}
