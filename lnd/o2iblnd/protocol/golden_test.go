package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lnetd/lnetd/lnet"
)

// The two nodes of the vectors (o2iblnd 22).
const (
	stamp1 = 1700000000000001
	stamp2 = 1700000000000002
)

var (
	nid1 = mustNID("10.8.0.1@o2ib")
	nid2 = mustNID("10.8.0.2@o2ib")
)

func mustNID(s string) lnet.NID {
	n, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return n
}

// unhex decodes a hexadecimal dump, which may contain white space.
func unhex(t testing.TB, dump string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(dump), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// from1 returns a message from the first node to the second. from2 returns one in the other
// direction.
func from1(edit Message) Message {
	edit.Version = V2
	edit.Src, edit.SrcStamp, edit.Dst = nid1, stamp1, nid2
	if edit.Type != ConnReq {
		edit.DstStamp = stamp2
	}
	return edit
}

func from2(edit Message) Message {
	edit.Version = V2
	edit.Src, edit.SrcStamp, edit.Dst, edit.DstStamp = nid2, stamp2, nid1, stamp1
	return edit
}

var paramsOfVectors = Params{Depth: 8, Fragments: 256, Size: MaxMessage}

const header12 = `01 00 08 0a 00 00 05 00 01 40 1e 18 24 0a 06 00
	02 00 08 0a 00 00 05 00 02 40 1e 18 24 0a 06 00 `

const header21 = `02 00 08 0a 00 00 05 00 02 40 1e 18 24 0a 06 00
	01 00 08 0a 00 00 05 00 01 40 1e 18 24 0a 06 00 `

var vectors = []struct {
	name             string
	order            binary.AppendByteOrder
	message          Message
	dump             string
	signed, unsigned uint32
}{
	{
		name: "CONNREQ", order: binary.LittleEndian, message: from1(Message{Type: ConnReq, Params: paramsOfVectors}),
		dump: `91 1b e9 0b 12 00 c0 00 38 00 00 00 00 00 00 00
			01 00 08 0a 00 00 05 00 01 40 1e 18 24 0a 06 00
			02 00 08 0a 00 00 05 00 00 00 00 00 00 00 00 00
			08 00 00 01 00 10 00 00`,
		signed: 0xe4660690, unsigned: 0x85e60691,
	},
	{
		name: "CONNREQ of a big-endian sender", order: binary.BigEndian,
		message: from1(Message{Type: ConnReq, Params: paramsOfVectors}),
		dump: `0b e9 1b 91 00 12 c0 00 00 00 00 38 00 00 00 00
			00 05 00 00 0a 08 00 01 00 06 0a 24 18 1e 40 01
			00 05 00 00 0a 08 00 02 00 00 00 00 00 00 00 00
			00 08 01 00 00 00 10 00`,
		signed: 0xb6dd83f7, unsigned: 0x08ad83f8,
	},
	{
		name: "CONNACK", order: binary.LittleEndian, message: from2(Message{Type: ConnAck, Params: paramsOfVectors}),
		dump:   `91 1b e9 0b 12 00 c1 00 38 00 00 00 00 00 00 00 ` + header21 + `08 00 00 01 00 10 00 00`,
		signed: 0x63ff1b11, unsigned: 0x057f1b12,
	},
	{
		name: "NOOP returning 4 credits", order: binary.LittleEndian, message: from1(Message{Type: Noop, Credits: 4}),
		dump:   `91 1b e9 0b 12 00 d0 04 30 00 00 00 00 00 00 00 ` + header12,
		signed: 0x40e49d96, unsigned: 0x41861d96,
	},
	{
		name: "IMMEDIATE ping", order: binary.LittleEndian,
		message: from1(Message{Type: Immediate, LNet: lnet.Header{
			Dest: nid2, Src: nid1, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre, Type: lnet.MsgGet,
			Handle: lnet.Handle{Interface: 0x1111, Object: 0x2222}, MatchBits: lnet.PingMatchBits, Length: 1024,
		}}),
		dump: `91 1b e9 0b 12 00 d1 00 78 00 00 00 00 00 00 00 ` + header12 + `
			02 00 08 0a 00 00 05 00 01 00 08 0a 00 00 05 00
			39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
			11 11 00 00 00 00 00 00 22 22 00 00 00 00 00 00
			00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00
			00 04 00 00 00 00 00 00`,
		signed: 0xb948a6c6, unsigned: 0x5bc8a6c7,
	},
	{
		name: "PUT_ACK", order: binary.LittleEndian,
		message: from2(Message{Type: PutAck, Cookie: 0xaaa1, SinkCookie: 0x10, Sink: Descriptor{
			Key: 0x3e8, Fragments: []Fragment{{Addr: 0x7f0000001000, Length: 1 << 20}},
		}}),
		dump: `91 1b e9 0b 12 00 d4 00 54 00 00 00 00 00 00 00 ` + header21 + `
			a1 aa 00 00 00 00 00 00 10 00 00 00 00 00 00 00
			e8 03 00 00 01 00 00 00 00 00 10 00 00 10 00 00
			00 7f 00 00`,
		signed: 0x958fd318, unsigned: 0xa7a7df18,
	},
	{
		name: "GET_DONE", order: binary.LittleEndian, message: from2(Message{Type: GetDone, Cookie: 0xbbb1, Status: -61}),
		dump:   `91 1b e9 0b 12 00 d7 00 3c 00 00 00 00 00 00 00 ` + header21 + `b1 bb 00 00 00 00 00 00 c3 ff ff ff`,
		signed: 0x42cdde27, unsigned: 0x5ad9ed31,
	},
}

// byteOrder returns the byte order as one for decoding.
func byteOrder(o binary.AppendByteOrder) binary.ByteOrder { return putOrder(o) }

// The vectors of o2iblnd 22 encode and decode, and have the right checksums in both variants
// (o2iblnd 7).
//
// o2iblnd 4 (1), 5.1, 5.2, 5.3 (1), 5.6, 5.8, 5.9 (1), 7 (1)-(2), 22
func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			want := unhex(t, v.dump)
			got, err := v.message.Append(nil, v.order)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("encoded % x (%v)\nwant    % x", got, err, want)
			}
			var m Message
			order, err := m.Decode(want, Check)
			if err != nil || order != byteOrder(v.order) {
				t.Fatalf("%v, %v", order, err)
			}
			if d := cmp.Diff(v.message, m, equate); d != "" {
				t.Errorf("decoded (-want +got):\n%s", d)
			}
			for variant, sum := range map[Variant]uint32{Signed: v.signed, Unsigned: v.unsigned} {
				if got := Checksum(want, variant); got != sum {
					t.Errorf("checksum %d: %#x, want %#x", variant, got, sum)
				}
				sealed := bytes.Clone(want)
				Seal(sealed, byteOrder(v.order), variant)
				if _, err := m.Decode(sealed, Check); err != nil {
					t.Errorf("sealed: %v", err)
				}
				sealed[7]++
				if _, err := m.Decode(sealed, Check); err == nil {
					t.Error("a wrong checksum passes")
				}
				if _, err := m.Decode(sealed, DontCheck); err != nil {
					t.Errorf("unchecked: %v", err)
				}
			}
		})
	}
}

var equate = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b lnet.NID) bool { return a == b }),
}

// The reject of the vectors.
//
// o2iblnd 6 (1), 22, 3.5
func TestRejectVector(t *testing.T) {
	want := unhex(t, `91 1b e9 0b 12 00 07 00 02 40 1e 18 24 0a 06 00 08 00 01 01 00 10 00 00`)
	r := Reject{Version: V2, Why: TooDeep, Stamp: stamp2, Limits: Params{Depth: 8, Fragments: 257, Size: 4096}}
	if got := r.Append(nil, binary.LittleEndian); !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	// The CM appends zeros (o2iblnd 3.5).
	got, err := DecodeReject(append(want, make([]byte, 124)...))
	if err != nil || got != r {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := DecodeReject(r.Append(nil, binary.BigEndian)); err != nil || got != r {
		t.Errorf("big-endian: %+v, %v", got, err)
	}
}

// Only version and reason of short and of old rejects are used (o2iblnd 6).
//
// o2iblnd 6 (1)
func TestRejectForms(t *testing.T) {
	r := Reject{Version: V2, Why: Stale, Stamp: 7, Limits: Params{Depth: 8, Fragments: 257, Size: 4096}}
	whole := r.Append(nil, binary.LittleEndian)
	for n := 7; n < 24; n++ {
		got, err := DecodeReject(whole[:n])
		if err != nil || got != (Reject{Version: V2, Why: Stale}) {
			t.Errorf("%d bytes: %+v, %v", n, got, err)
		}
	}
	for n := range 7 {
		if _, err := DecodeReject(whole[:n]); !lnet.IsShort(err) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	old := r
	old.Version = V1
	if got, err := DecodeReject(old.Append(nil, binary.LittleEndian)); err != nil || got != (Reject{Version: V1, Why: Stale}) {
		t.Errorf("V1: %+v, %v", got, err)
	}
	unified := unhex(t, "63 69 72 45 12 00 03 00")
	if got, err := DecodeReject(unified); err != nil || got != (Reject{Version: V2, Why: Fatal}) {
		t.Errorf("unified magic: %+v, %v", got, err)
	}
	for dump, want := range map[string]string{
		"91 1b e9 0b 13 00 03 00":                         "reject: version 19: unknown",
		strings.Repeat("00", 148):                         "reject: magic 0x00000000: unknown",
		"91 1b e9 0c 12 00 03 00 00 00 00 00 00 00 00 00": "reject: magic 0x0ce91b91: unknown",
	} {
		if _, err := DecodeReject(unhex(t, dump)); err == nil || err.Error() != want {
			t.Errorf("%.20s: %v, want %s", dump, err, want)
		}
	}
}
