package protocol

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// TestQuiet checks of which chains nothing waits for the completion: those of ACKs, of messages that are answered,
// and of NOOPs.
func TestQuiet(t *testing.T) {
	s1, s2 := sessions(V2, 8, 256)
	wanted := lnet.Handle{Object: 1}
	sink := &Descriptor{Key: 1, Fragments: []Fragment{{Addr: 4096, Length: 5000}}}
	source := []Segment{{Addr: 4096, Key: 1, Length: 5000}}
	send := func(typ lnet.MsgType, h lnet.Handle) func(*Conn, *Batch) {
		return func(c *Conn, b *Batch) {
			header := lnet.Header{Dest: s1.Peer, Src: s1.Self, Type: typ, Handle: h}
			c.Immediate(start, new(Tx), &header, b)
		}
	}
	request := func(typ Type) Message {
		m := Message{Version: V2, Type: typ, Src: s2.Self, SrcStamp: s2.SelfStamp, Dst: s2.Peer, DstStamp: s2.PeerStamp, Cookie: 7}
		m.LNet = lnet.Header{Type: lnet.MsgPut, Src: s1.Peer, Dest: s1.Self, PayloadLength: 5000}
		if typ == GetReq {
			m.LNet = lnet.Header{Type: lnet.MsgGet, Src: s1.Peer, Dest: s1.Self, Length: 5000}
			m.Sink = *sink
		}
		return m
	}
	arrival := func(c *Conn, b *Batch, typ Type) *Rx {
		c.Received(start, 0, wireOf(t, request(typ)), b)
		return b.Arrivals[0]
	}
	for name, x := range map[string]struct {
		post  func(*Conn, *Batch)
		quiet bool
	}{
		"ACK":              {send(lnet.MsgAck, wanted), true},
		"PUT with an ACK":  {send(lnet.MsgPut, wanted), true},
		"PUT":              {send(lnet.MsgPut, lnet.NoHandle), false},
		"GET":              {send(lnet.MsgGet, wanted), true},
		"REPLY":            {send(lnet.MsgReply, wanted), false},
		"NOOP":             {func(c *Conn, b *Batch) { c.Probe(start, b) }, true},
		"PUT_REQ":          {func(c *Conn, b *Batch) { c.Put(start, new(Tx), &lnet.Header{Type: lnet.MsgPut}, source, b) }, true},
		"GET_REQ":          {func(c *Conn, b *Batch) { c.Get(start, new(Tx), &lnet.Header{Type: lnet.MsgGet}, sink, b) }, true},
		"PUT_ACK":          {func(c *Conn, b *Batch) { c.Sink(start, arrival(c, b, PutReq), sink, b) }, true},
		"PUT_NAK":          {func(c *Conn, b *Batch) { c.Refuse(start, arrival(c, b, PutReq), 0, b) }, false},
		"GET_DONE":         {func(c *Conn, b *Batch) { c.Reply(start, arrival(c, b, GetReq), source, b) }, false},
		"GET_DONE refused": {func(c *Conn, b *Batch) { c.Refuse(start, arrival(c, b, GetReq), 0, b) }, false},
	} {
		c := NewConn(Options{})
		c.Accept()
		var b Batch
		c.Establish(start, s1, &b)
		x.post(c, &b)
		if len(b.Sends) != 1 {
			t.Errorf("%s: %d chains, failure %v", name, len(b.Sends), c.Failure())
			continue
		}
		if got := b.Sends[0].Quiet; got != x.quiet {
			t.Errorf("%s: quiet %v, want %v", name, got, x.quiet)
		}
	}
}
