package lnet

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The headers of lnet-wire 11.3.
var (
	handle11d = Handle{Interface: 0x17f1a2b300000001, Object: 0x11d}
	handle131 = Handle{Interface: 0x17f1a2b300000001, Object: 0x131}
)

type goldenHeader struct {
	name  string
	dump  string
	large bool
	want  Header
}

func goldenHeaders(t testing.TB) []goldenHeader {
	a, b := mustNID(t, "192.168.1.10@tcp"), mustNID(t, "192.168.1.20@tcp")
	a6, b6 := mustNID(t, "2001:db8::10@tcp"), mustNID(t, "2001:db8::20@tcp")
	return []goldenHeader{
		{
			name: "GET ping",
			dump: `14 01 a8 c0 00 00 02 00 0a 01 a8 c0 00 00 02 00
			       39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
			       01 00 00 00 b3 a2 f1 17 1d 01 00 00 00 00 00 00
			       00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00
			       10 01 00 00 00 00 00 00`,
			want: Header{
				Dest: b, Src: a, DestPID: PingPID, SrcPID: PIDLustre, Type: MsgGet,
				Handle: handle11d, MatchBits: PingMatchBits, Portal: ReservedPortal, Length: PingBufferMin,
			},
		},
		{
			name: "REPLY",
			dump: `0a 01 a8 c0 00 00 02 00 14 01 a8 c0 00 00 02 00
			       39 30 00 00 39 30 00 00 03 00 00 00 30 00 00 00
			       01 00 00 00 b3 a2 f1 17 1d 01 00 00 00 00 00 00
			       00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
			       00 00 00 00 00 00 00 00`,
			want: Header{
				Dest: a, Src: b, DestPID: PIDLustre, SrcPID: PIDLustre, Type: MsgReply, PayloadLength: 48,
				Handle: handle11d,
			},
		},
		{
			name: "PUT push",
			dump: `14 01 a8 c0 00 00 02 00 0a 01 a8 c0 00 00 02 00
			       39 30 00 00 39 30 00 00 01 00 00 00 40 00 00 00
			       01 00 00 00 b3 a2 f1 17 31 01 00 00 00 00 00 00
			       00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00
			       00 00 00 00 00 00 00 00`,
			want: Header{
				Dest: b, Src: a, DestPID: PIDLustre, SrcPID: PIDLustre, Type: MsgPut, PayloadLength: 64,
				Handle: handle131, MatchBits: PingMatchBits,
			},
		},
		{
			name: "ACK",
			dump: `0a 01 a8 c0 00 00 02 00 14 01 a8 c0 00 00 02 00
			       39 30 00 00 39 30 00 00 00 00 00 00 00 00 00 00
			       01 00 00 00 b3 a2 f1 17 31 01 00 00 00 00 00 00
			       00 00 00 00 00 00 00 80 40 00 00 00 00 00 00 00
			       00 00 00 00 00 00 00 00`,
			want: Header{
				Dest: a, Src: b, DestPID: PIDLustre, SrcPID: PIDLustre, Type: MsgAck,
				Handle: handle131, MatchBits: PingMatchBits, Length: 64,
			},
		},
		{
			name: "PUT without ACK",
			dump: `14 01 a8 c0 00 00 02 00 0a 01 a8 c0 00 00 02 00
			       39 30 00 00 39 30 00 00 01 00 00 00 0a 00 00 00
			       ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
			       ef cd ab 89 67 45 23 01 00 00 00 00 00 00 00 00
			       1a 00 00 00 00 00 00 00`,
			want: Header{
				Dest: b, Src: a, DestPID: PIDLustre, SrcPID: PIDLustre, Type: MsgPut, PayloadLength: 10,
				Handle: NoHandle, MatchBits: 0x0123456789abcdef, Portal: 26,
			},
		},
		{
			name:  "PUT with large NIDs",
			large: true,
			dump: `0c 02 00 00 20 01 0d b8 00 00 00 00 00 00 00 00
			       00 00 00 20 0c 02 00 00 20 01 0d b8 00 00 00 00
			       00 00 00 00 00 00 00 10 39 30 00 00 39 30 00 00
			       01 00 00 00 0a 00 00 00 ff ff ff ff ff ff ff ff
			       ff ff ff ff ff ff ff ff ef cd ab 89 67 45 23 01
			       00 00 00 00 00 00 00 00 1a 00 00 00 00 00 00 00`,
			want: Header{
				Dest: b6, Src: a6, DestPID: PIDLustre, SrcPID: PIDLustre, Type: MsgPut, PayloadLength: 10,
				Handle: NoHandle, MatchBits: 0x0123456789abcdef, Portal: 26,
			},
		},
	}
}

func (g *goldenHeader) decode(h *Header, b []byte) error {
	if g.large {
		return h.DecodeNID16(b)
	}
	return h.DecodeNID4(b)
}

// lnet-wire 2.2 (2), 4.1 (1), 4.2, 4.3, 4.5 (1)-(4), 11.3
func TestHeaderGolden(t *testing.T) {
	for _, g := range goldenHeaders(t) {
		t.Run(g.name, func(t *testing.T) {
			dump := unhex(t, g.dump)
			var got Header
			if err := g.decode(&got, append(dump, "payload"...)); err != nil || got != g.want {
				t.Fatalf("decodes to\n%+v, %v, want\n%+v", got, err, g.want)
			}
			b := []byte("prefix")
			var err error
			if g.large {
				b = g.want.AppendNID16(b)
			} else {
				b, err = g.want.AppendNID4(b)
			}
			if err != nil || !bytes.Equal(b[6:], dump) || string(b[:6]) != "prefix" {
				t.Errorf("encodes to\n% x, %v, want\n% x", b[6:], err, dump)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

// Every field is at its offset, by type. Field i has the value i, so that exchanged fields
// are detected.
//
// lnet-wire 4.5 (1)-(4)
func TestHeaderVariantOffsets(t *testing.T) {
	full := Header{
		Handle: Handle{1, 2}, MatchBits: 3, HdrData: 4, Portal: 5, Offset: 6, Length: 7, Incarnation: 8, ConnType: 9,
	}
	for typ, want := range map[MsgType]map[int]byte{
		MsgAck:      {0: 1, 8: 2, 16: 3, 24: 7},
		MsgPut:      {0: 1, 8: 2, 16: 3, 24: 4, 32: 5, 36: 6},
		MsgGet:      {0: 1, 8: 2, 16: 3, 24: 5, 28: 6, 32: 7},
		MsgReply:    {0: 1, 8: 2},
		MsgHello:    {0: 8, 8: 9},
		MsgType(77): {},
	} {
		t.Run(typ.String(), func(t *testing.T) {
			body := make([]byte, 40)
			for off, v := range want {
				body[off] = v
			}
			h := full
			h.Type = typ
			dirty := bytes.Repeat([]byte{0xee}, 200) // the buffer's old contents must not leak
			b, err := h.AppendNID4(dirty[:0])
			if err != nil || !bytes.Equal(b[32:], body) {
				t.Errorf("nid4 body % x, %v, want % x", b[32:], err, body)
			}
			b = h.AppendNID16(dirty[:0])
			if !bytes.Equal(b[56:], body) {
				t.Errorf("nid16 body % x, want % x", b[56:], body)
			}
		})
	}
}

// Bytes after the used part are ignored, and fields of other types are cleared.
//
// lnet-wire 4.5 (6)
func TestHeaderUnusedBytes(t *testing.T) {
	for typ, used := range map[MsgType]int{MsgAck: 28, MsgPut: 40, MsgGet: 36, MsgReply: 16, MsgHello: 12, 77: 0} {
		b, err := (&Header{Type: typ}).AppendNID4(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 32 + used; i < len(b); i++ {
			b[i] = 0xff
		}
		h := Header{
			Handle: handle11d, MatchBits: 1, HdrData: 1, Portal: 1, Offset: 1, Length: 1, Incarnation: 1, ConnType: 1,
		}
		if err := h.DecodeNID4(b); err != nil || h != (Header{Type: typ}) {
			t.Errorf("%v: %+v, %v", typ, h, err)
		}
	}
}

// lnet-wire 4.9
func TestHeaderRefusesLargeNIDs(t *testing.T) {
	small, large := mustNID(t, "10.0.0.1@tcp"), mustNID(t, "2001:db8::10@tcp")
	for field, h := range map[string]Header{"dest_nid": {Dest: large, Src: small}, "src_nid": {Dest: small, Src: large}} {
		b, err := h.AppendNID4([]byte("as it was"))
		var f *FieldError
		if !errors.As(err, &f) || f.Field != field || string(b) != "as it was" {
			t.Errorf("%s: error %v, bytes %q", field, err, b)
		}
	}
}

func TestHeaderTruncation(t *testing.T) {
	for _, g := range goldenHeaders(t) {
		before := Header{MatchBits: 42}
		everyTruncation(t, unhex(t, g.dump), func(b []byte) error {
			h := before
			err := g.decode(&h, b)
			if h != before {
				t.Errorf("%s: %d bytes change the header", g.name, len(b))
			}
			return err
		})
	}
}

func TestHeaderBitFlips(t *testing.T) {
	for _, g := range goldenHeaders(t) {
		b := unhex(t, g.dump)
		everyBitFlip(t, b, 0, len(b), func(b []byte) error {
			before := Header{MatchBits: 42}
			h := before
			err := g.decode(&h, b)
			if err != nil && h != before {
				t.Errorf("%s: error %v changes the header", g.name, err)
			}
			if err == nil && h.Validate() != nil {
				wantNamed(t, h.Validate())
			}
			return err
		})
	}
}

// A nid4 with reserved bits cannot be encoded again, so it is rejected.
func TestHeaderReservedNIDBits(t *testing.T) {
	b, err := (&Header{Dest: mustNID(t, "10.0.0.1@tcp"), Src: mustNID(t, "10.0.0.2@tcp")}).AppendNID4(nil)
	if err != nil {
		t.Fatal(err)
	}
	for field, off := range map[string]int{"dest_nid": 7, "src_nid": 15} {
		c := bytes.Clone(b)
		c[off] = 1
		var h Header
		err := h.DecodeNID4(c)
		if !errors.Is(err, errNIDReserved) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestHeaderNamesBadLargeNID(t *testing.T) {
	b := (&Header{Dest: mustNID(t, "10.0.0.1@tcp"), Src: mustNID(t, "10.0.0.2@tcp")}).AppendNID16(nil)
	for want, off := range map[string]int{
		"dest_nid.nid_size": 0, "dest_nid.nid_addr": 19, "src_nid.nid_size": 20, "src_nid.nid_addr": 30,
	} {
		c := bytes.Clone(b)
		c[off] = 5
		var f *FieldError
		if err := new(Header).DecodeNID16(c); !errors.As(err, &f) || f.Field != want {
			t.Errorf("byte %d: error %v, want it to name %s", off, err, want)
		}
	}
}

// Rows 1 to 3 of lnet-wire 4.7.
//
// lnet-wire 4.4, 4.7 (1)-(3)
func TestHeaderValidate(t *testing.T) {
	for _, tt := range []struct {
		h    Header
		want string // empty: valid
	}{
		{h: Header{Type: MsgAck}},
		{h: Header{Type: MsgGet}},
		{h: Header{Type: MsgPut}},
		{h: Header{Type: MsgReply}},
		{h: Header{Type: MsgPut, PayloadLength: MTU}},
		{h: Header{Type: MsgReply, PayloadLength: MTU}},
		{h: Header{Type: MsgAck, PayloadLength: 1}, want: "header: payload_length 1: must be 0 in a message of type ACK"},
		{h: Header{Type: MsgGet, PayloadLength: 8}, want: "header: payload_length 8: must be 0 in a message of type GET"},
		{h: Header{Type: MsgPut, PayloadLength: MTU + 1}, want: "header: payload_length 1048577: more than 1048576 bytes"},
		{h: Header{Type: MsgReply, PayloadLength: 2000000}, want: "header: payload_length 2000000: more than 1048576 bytes"},
		{h: Header{Type: MsgHello}, want: "header: type 4: not ACK, PUT, GET or REPLY"},
		{h: Header{Type: 5}, want: "header: type 5: not ACK, PUT, GET or REPLY"},
		{h: Header{Type: 0xffffffff}, want: "header: type 4294967295: not ACK, PUT, GET or REPLY"},
	} {
		err := tt.h.Validate()
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%v with %d bytes: error %v, want %q", tt.h.Type, tt.h.PayloadLength, err, tt.want)
		}
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	t.Run("nid4", rapid.MakeCheck(func(t *rapid.T) {
		want := genHeader(genNID4()).Draw(t, "header")
		b, err := want.AppendNID4(nil)
		if err != nil || len(b) != HeaderNID4Size {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		var got Header
		if err := got.DecodeNID4(b); err != nil || got != want {
			t.Fatalf("got %+v, %v", got, err)
		}
	}))
	t.Run("nid16", rapid.MakeCheck(func(t *rapid.T) {
		want := genHeader(genNID()).Draw(t, "header")
		b := want.AppendNID16(nil)
		if len(b) != HeaderNID16Size {
			t.Fatalf("%d bytes", len(b))
		}
		var got Header
		if err := got.DecodeNID16(b); err != nil || got != want {
			t.Fatalf("got %+v, %v", got, err)
		}
	}))
}

func TestHeaderDecodesRandomBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "bytes")
		var h Header
		if err := h.DecodeNID4(b); err != nil {
			wantNamed(t, err)
		}
		if err := h.DecodeNID16(b); err != nil {
			wantNamed(t, err)
		}
	})
}

// A handle is sent back unchanged, whatever the byte order of its owner.
//
// lnet-wire 4.1 (2)
func TestHandleIsOpaque(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := [HandleSize]byte(rapid.SliceOfN(rapid.Byte(), HandleSize, HandleSize).Draw(t, "raw"))
		h := getHandle(&raw)
		var back [HandleSize]byte
		h.put(&back)
		if back != raw || h.IsNone() != (raw == [HandleSize]byte(bytes.Repeat([]byte{0xff}, 16))) {
			t.Errorf("% x comes back as % x", raw, back)
		}
	})
}

func TestHandleText(t *testing.T) {
	if got := handle11d.String(); got != "17f1a2b300000001.11d" {
		t.Errorf("handle prints %q", got)
	}
	if got := NoHandle.String(); got != "none" || !NoHandle.IsNone() || handle11d.IsNone() {
		t.Errorf("no handle prints %q", got)
	}
}

func TestMsgTypeText(t *testing.T) {
	for typ, want := range map[MsgType]string{
		MsgAck: "ACK", MsgPut: "PUT", MsgGet: "GET", MsgReply: "REPLY", MsgHello: "HELLO", 9: "type 9",
	} {
		if got := typ.String(); got != want {
			t.Errorf("type %d prints %q, want %q", uint32(typ), got, want)
		}
	}
}

func TestHeaderDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, HeaderNID16Size)
	for _, g := range goldenHeaders(t) {
		var h Header
		allocs := testing.AllocsPerRun(100, func() {
			var err error
			if g.large {
				buf = g.want.AppendNID16(buf[:0])
			} else {
				buf, err = g.want.AppendNID4(buf[:0])
			}
			if err != nil || g.decode(&h, buf) != nil || h.Validate() != nil {
				t.Error(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", g.name, allocs)
		}
	}
}

func BenchmarkHeader(b *testing.B) {
	golden := goldenHeaders(b)
	put4, put16 := golden[4].want, golden[5].want
	buf := make([]byte, 0, HeaderNID16Size)
	var h Header
	b.Run("append nid4", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf, _ = put4.AppendNID4(buf[:0])
		}
	})
	b.Run("decode nid4", func(b *testing.B) {
		b.ReportAllocs()
		buf, _ = put4.AppendNID4(buf[:0])
		for b.Loop() {
			if err := h.DecodeNID4(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append nid16", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = put16.AppendNID16(buf[:0])
		}
	})
	b.Run("decode nid16", func(b *testing.B) {
		b.ReportAllocs()
		buf = put16.AppendNID16(buf[:0])
		for b.Loop() {
			if err := h.DecodeNID16(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The name of a type is parsed in any case. HELLO, which is not an LNet message, and
// unknown names are rejected with a named error.
func TestParseMsgType(t *testing.T) {
	for text, want := range map[string]MsgType{"ACK": MsgAck, "put": MsgPut, "Get": MsgGet, "REPLY": MsgReply} {
		if got, err := ParseMsgType(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "HELLO", "type 9", "puts"} {
		if got, err := ParseMsgType(text); err == nil || got != 0 || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
