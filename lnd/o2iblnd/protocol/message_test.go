package protocol

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

var nids = rapid.Custom(func(t *rapid.T) lnet.NID {
	return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeO2IB, rapid.Uint16().Draw(t, "net")), rapid.Uint32().Draw(t, "address"))
})

var descriptors = rapid.Custom(func(t *rapid.T) Descriptor {
	return Descriptor{Key: rapid.Uint32().Draw(t, "key"), Fragments: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Fragment {
		return Fragment{Addr: rapid.Uint64().Draw(t, "addr"), Length: rapid.Uint32().Draw(t, "nob")}
	}), 1, MaxFragments).Draw(t, "fragments")}
})

func drawHeader(t *rapid.T, types ...lnet.MsgType) lnet.Header {
	h := lnet.Header{
		Dest: nids.Draw(t, "dest"), Src: nids.Draw(t, "src"), DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Type: rapid.SampledFrom(types).Draw(t, "type"),
		Handle: lnet.Handle{
			Interface: rapid.Uint64().Draw(t, "interface"), Object: rapid.Uint64().Draw(t, "object"),
		},
	}
	switch h.Type {
	case lnet.MsgPut:
		h.MatchBits, h.Portal = rapid.Uint64().Draw(t, "bits"), rapid.Uint32().Draw(t, "portal")
		h.HdrData, h.Offset = rapid.Uint64().Draw(t, "data"), rapid.Uint32().Draw(t, "offset")
	case lnet.MsgGet:
		h.MatchBits, h.Length = rapid.Uint64().Draw(t, "bits"), rapid.Uint32().Draw(t, "length")
	}
	return h
}

// messages generates messages of any type that can be encoded.
var messages = rapid.Custom(func(t *rapid.T) Message {
	m := Message{
		Version:  rapid.SampledFrom([]Version{V1, V2}).Draw(t, "version"),
		Type:     Type(rapid.SampledFrom([]uint8{0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7}).Draw(t, "what")),
		Credits:  rapid.Uint8().Draw(t, "credits"),
		Src:      nids.Draw(t, "srcnid"),
		Dst:      nids.Draw(t, "dstnid"),
		SrcStamp: rapid.Uint64().Draw(t, "srcstamp"),
		DstStamp: rapid.Uint64().Draw(t, "dststamp"),
	}
	switch m.Type {
	case ConnReq, ConnAck:
		m.Params = Params{rapid.Uint16().Draw(t, "depth"), rapid.Uint16().Draw(t, "frags"), rapid.Uint32().Draw(t, "size")}
	case Immediate:
		m.LNet = drawHeader(t, lnet.MsgAck, lnet.MsgPut, lnet.MsgGet, lnet.MsgReply)
		if m.LNet.Type == lnet.MsgPut || m.LNet.Type == lnet.MsgReply {
			m.Payload = rapid.SliceOfN(rapid.Byte(), 0, MaxPayload).Draw(t, "payload")
			m.LNet.PayloadLength = uint32(len(m.Payload))
		}
	case PutReq:
		m.LNet = drawHeader(t, lnet.MsgPut, lnet.MsgReply)
		m.LNet.PayloadLength = rapid.Uint32().Draw(t, "payload_length")
		m.Cookie = Cookie(rapid.Uint64().Draw(t, "cookie"))
	case GetReq:
		m.LNet = drawHeader(t, lnet.MsgGet)
		m.Cookie, m.Sink = Cookie(rapid.Uint64().Draw(t, "cookie")), descriptors.Draw(t, "sink")
	case PutAck:
		m.Cookie, m.SinkCookie = Cookie(rapid.Uint64().Draw(t, "cookie")), Cookie(rapid.Uint64().Draw(t, "dst_cookie"))
		m.Sink = descriptors.Draw(t, "sink")
	case PutNak, PutDone, GetDone:
		m.Cookie, m.Status = Cookie(rapid.Uint64().Draw(t, "cookie")), rapid.Int32().Draw(t, "status")
	}
	return m
})

var orders = rapid.SampledFrom([]binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian})

func encode(t rapid.TB, m *Message, order binary.AppendByteOrder) []byte {
	b, err := m.Append(nil, order)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, m.Payload...)
}

// An encoded message decodes to the same values, even into a Message that was used before.
//
// o2iblnd 4 (1), 5.1, 5.3 (1), 5.4, 5.5 (1), 5.6, 5.7, 5.8
func TestMessagesRoundTrip(t *testing.T) {
	var again Message
	rapid.Check(t, func(t *rapid.T) {
		m, order := messages.Draw(t, "message"), orders.Draw(t, "order")
		b := encode(t, &m, order)
		Seal(b, byteOrder(order), rapid.SampledFrom([]Variant{NoChecksum, Signed, Unsigned}).Draw(t, "seal"))
		got, err := again.Decode(b, Check)
		if err != nil || got != byteOrder(order) {
			t.Fatalf("%v, %v", got, err)
		}
		if d := cmp.Diff(m, again, equate); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		if len(b) < m.Type.size() {
			t.Fatalf("%d bytes, the least is %d", len(b), m.Type.size())
		}
	})
}

// Every truncated message is an error. If only the payload is truncated, the error drops just the
// message (o2iblnd 4, 5.3).
//
// o2iblnd 4 (4), 5.5 (2)
func TestMessagesCutShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages.Draw(t, "message")
		b := encode(t, &m, orders.Draw(t, "order"))
		var again Message
		for n := range b {
			if _, err := again.Decode(b[:n], Check); err == nil {
				t.Fatalf("%d of %d bytes pass", n, len(b))
			}
		}
	})
}

// Decode never panics, and every message that it accepts can be encoded again.
func TestDecodeTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages.Draw(t, "message")
		b := encode(t, &m, orders.Draw(t, "order"))
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		var again Message
		order, err := again.Decode(b[:rapid.IntRange(0, len(b)).Draw(t, "length")], DontCheck)
		if err != nil {
			return
		}
		if _, err := again.Append(nil, order.(binary.AppendByteOrder)); err != nil && again.Type != Immediate {
			t.Fatalf("%+v does not encode: %v", again, err)
		}
	})
}

// Decode checks the rules in their order: each row violates one rule in addition to those below it,
// and the error is about that rule (o2iblnd 4).
//
// o2iblnd 4 (3)-(4), 2.1 (2), 5.5 (2)
func TestDecodeRules(t *testing.T) {
	valid := from1(Message{Type: GetReq, LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgGet},
		Cookie: 1, Sink: Descriptor{Key: 1, Fragments: []Fragment{{1, 2}}}})
	good := encode(t, &valid, binary.LittleEndian)
	put := func(at int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	ones := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	rows := []struct {
		name string
		edit func([]byte) []byte
		want string
	}{
		{"fragments behind the end", put(132, 2, 0), "descriptor: 20 of 32 bytes: unexpected EOF"},
		{"no fragments", put(132, 0), "descriptor: nfrags 0: not within 1 to 257"},
		{"many fragments", put(132, 2, 1), "descriptor: nfrags 258: not within 1 to 257"},
		{"no GET", put(72, 1), "message: type PUT: a GET_REQ must contain a GET"},
		{"reserved bits of LNet's NID", put(55, 1), "header: dest_nid 0x010500000a080002: reserved bits are set"},
		{"nob below the type's", put(8, 135), "message: nob 135: less than a message of this type has"},
		{"type", put(6, 0xd8), "message: type 216: unknown"},
		{"reserved bits of dstnid", put(39, 1), "message: dstnid 0x10500000a080002: reserved bits are set"},
		{"source", put(16, ones...), "message: srcnid 0xffffffffffffffff: not the NID of a node"},
		{"checksum", put(12, 1), "message: cksum 0x1: neither the signed nor the unsigned checksum of the message"},
		{"nob above what has come", put(8, 255), "message: nob 255: more bytes than were received"},
		{"header", func(b []byte) []byte { return b[:47] }, "message: 47 of 48 bytes: unexpected EOF"},
		{"version", put(4, 0x13), "message: version 19: unknown"},
		{"magic", put(0, 0x92), "message: magic 0x0be91b92: unknown"},
		{"six bytes", func(b []byte) []byte { return b[:5] }, "message: 5 of 6 bytes: unexpected EOF"},
	}
	b := append([]byte(nil), good...)
	var m Message
	for _, r := range rows {
		if r.name == "reserved bits of LNet's NID" {
			b = append([]byte(nil), good...) // the edit hides the type, so undo the earlier ones
		}
		b = r.edit(b)
		if _, err := m.Decode(b, Check); err == nil || err.Error() != r.want {
			t.Errorf("%s: %v, want %s", r.name, err, r.want)
		}
	}
}

func TestPutReqHasPutOrReply(t *testing.T) {
	m := from1(Message{Type: PutReq, LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgAck}})
	_, err := m.Decode(encode(t, &m, binary.LittleEndian), Check)
	if err == nil || err.Error() != "message: type ACK: a PUT_REQ must contain a PUT or REPLY" {
		t.Error(err)
	}
}

// Bytes after a message are ignored, except that they may be a payload (o2iblnd 4, 5.3).
//
// o2iblnd 4 (6), 5.3 (2)
func TestBytesBehindAMessage(t *testing.T) {
	m := from1(Message{Type: Noop})
	var again Message
	if _, err := again.Decode(append(encode(t, &m, binary.LittleEndian), 1, 2, 3), Check); err != nil {
		t.Error(err)
	}
	m = from1(Message{Type: Immediate, LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgPut, PayloadLength: 3}})
	b := encode(t, &m, binary.LittleEndian)
	binary.LittleEndian.PutUint32(b[8:], immediateSize)
	if _, err := again.Decode(append(b, 1, 2, 3, 4), Check); err != nil {
		t.Fatal(err)
	}
	if p, err := again.Content(); err != nil || string(p) != "\x01\x02\x03" {
		t.Errorf("% x, %v", p, err)
	}
	if _, err := again.Decode(append(b, 1, 2), Check); err != nil {
		t.Fatal(err)
	}
	var field *lnet.FieldError
	if _, err := again.Content(); !errors.As(err, &field) || err.Error() != "message: payload_length 3: more bytes than were received" {
		t.Error(err)
	}
}

// The bytes of cookies and of the LNet header are not swapped (o2iblnd 4).
//
// o2iblnd 4 (2), 5.2
func TestBigEndianCookies(t *testing.T) {
	m := from1(Message{Type: GetReq, Cookie: 0x0102030405060708,
		LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgGet, Length: 16},
		Sink: Descriptor{Key: 0x01020304, Fragments: []Fragment{{0x05, 16}}}})
	le, be := encode(t, &m, binary.LittleEndian), encode(t, &m, binary.BigEndian)
	if d := cmp.Diff(le[headerSize:putReqSize], be[headerSize:putReqSize]); d != "" {
		t.Error(d)
	}
	if be[putReqSize] != 1 || le[putReqSize] != 4 {
		t.Error("the descriptor is not in the sender's order")
	}
}

// A message that cannot be sent returns an error and leaves the buffer unchanged.
//
// o2iblnd 2.1 (1)
func TestAppendRefuses(t *testing.T) {
	large := mustNID("2001:db8::1@o2ib")
	for _, c := range []struct {
		name    string
		message Message
		want    string
	}{
		{"large source", Message{Type: Noop, Src: large}, "message: srcnid 2001:db8::1@o2ib: 16-byte address in a message for 4-byte addresses"},
		{"large destination", Message{Type: Noop, Dst: large}, "message: dstnid 2001:db8::1@o2ib: 16-byte address in a message for 4-byte addresses"},
		{"type", Message{Type: 7}, "message: type type 0x07: unknown"},
		{"payload", Message{Type: Immediate, LNet: lnet.Header{PayloadLength: 3977}},
			"message: payload_length 3977: more than 3976 bytes in an IMMEDIATE"},
		{"no fragments", Message{Type: PutAck}, "descriptor: nfrags 0: not within 1 to 257"},
		{"many fragments", Message{Type: GetReq, Sink: Descriptor{Fragments: make([]Fragment, 258)}},
			"descriptor: nfrags 258: not within 1 to 257"},
	} {
		b, err := c.message.Append([]byte("before"), binary.LittleEndian)
		if err == nil || err.Error() != c.want || string(b) != "before" {
			t.Errorf("%s: %q, %v, want %s", c.name, b, err, c.want)
		}
	}
}

// The largest IMMEDIATE fills a receive buffer. A GET_REQ with 257 fragments fits into one (o2iblnd
// 5.1, 10.1).
func TestLargestMessages(t *testing.T) {
	if MaxPayload != 3976 {
		t.Errorf("MaxPayload is %d", MaxPayload)
	}
	if n := getReqSize + MaxFragments*fragmentSize; n > MaxMessage {
		t.Errorf("a GET_REQ may have %d bytes", n)
	}
}

// Encoding and decoding allocate nothing.
func TestCodecAllocatesNothing(t *testing.T) {
	var m Message
	for _, v := range vectors {
		b, err := v.message.Append(make([]byte, 0, MaxMessage), v.order)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Decode(b, Check); err != nil { // allocates memory for the fragments
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() {
			_, _ = m.Decode(b, Check)
			b, _ = v.message.Append(b[:0], v.order)
		}); n != 0 {
			t.Errorf("%s: %v allocations", v.name, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	var m Message
	data, _ := vectors[4].message.Append(nil, binary.LittleEndian)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Decode(data, Check); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	m := vectors[4].message
	buf := make([]byte, 0, MaxMessage)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Append(buf, binary.LittleEndian); err != nil {
			b.Fatal(err)
		}
	}
}
