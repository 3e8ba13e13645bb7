package fuzz

import (
	"testing"

	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzMpilndMessage reads a short message of another process of an MPI job.
//
// MPI-22, MPI-23, MPI-24
func FuzzMpilndMessage(f *testing.F) {
	block := protocol.Block{
		Min: 1, Max: 2, ShortMax: 8192, Credits: 8, MaxPayload: lnet.MTU, Features: protocol.FeatureGet,
		NID: lnetNID(f, "192.168.1.20@tcp"), PID: lnet.PIDLustre, Incarnation: 7, Role: protocol.Proxy,
	}
	add := func(m protocol.Message) {
		b := append(m.Append(nil), m.Payload...)
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	for _, t := range []protocol.Type{protocol.Query, protocol.Reply, protocol.Bye, protocol.Probe, protocol.ProbeReply, protocol.Credit} {
		m := protocol.Message{Type: t, From: 1, To: 9, Sequence: 3, Credits: 4, Block: block}
		if t == protocol.Bye {
			m.Reason, m.Sequence = protocol.Stale, protocol.Unordered
		}
		add(m)
	}
	add(protocol.Message{Type: protocol.Nak, From: 1, To: 9, Tag: 3})
	for _, h := range lnetHeaders(f, "2001:db8::20@tcp", "192.168.1.10@tcp1") {
		add(protocol.Message{Type: protocol.GetOpt, From: 1, To: 9, Tag: 3, Length: 4096, Header: h})
		h.PayloadLength = 5
		add(protocol.Message{Type: protocol.LargePut, From: 1, To: 9, Tag: 2, Length: 5, Header: h})
		add(protocol.Message{Type: protocol.Short, From: 1, To: 9, Length: 5, Header: h, Payload: []byte("hello")})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m protocol.Message
		if err := m.Decode(b); err != nil {
			lnetNamed(t, err)
			return
		}
		_ = m.Block.Agree()
		if get := m.Type == protocol.GetOpt || m.Type == protocol.Nak; get != (m.Tag%2 == 1) || m.Tag == protocol.ShortTag {
			t.Fatalf("%s with the tag %d", m.Type, m.Tag)
		}
		if m.Header.Validate() != nil || m.Length > lnet.MTU || len(m.Payload) > len(b)-protocol.HeadSize && len(m.Payload) > 0 {
			t.Fatalf("accepted %+v", m)
		}
		out := append(m.Append(nil), m.Payload...)
		if len(out) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(out))
		}
		var again protocol.Message
		if err := again.Decode(out); err != nil || again.Type != m.Type || again.Header != m.Header || again.Block != m.Block ||
			again.Sequence != m.Sequence || again.Tag != m.Tag || again.Length != m.Length || string(again.Payload) != string(m.Payload) {
			t.Fatalf("%+v became %+v (%v)", m, again, err)
		}
	})
}
