package message

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// codec has the methods of all messages.
type codec interface {
	Append(b []byte) []byte
	Decode(b []byte) error
}

// fresh returns an empty message of the same type.
func fresh(m codec) codec { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(codec) }

// nid is 10.77.0.13@tcp.
const nid = NID4(0x00020000_0a4d000d)

var sid = SessionID{NID: nid, Stamp: 0x0102030405060708}

// The encodings of sid. The header follows the type.
const (
	sidLittle = "0d004d0a00000200 0807060504030201"
	sidBig    = "000200000a4d000d 0102030405060708"
)

// wire pads the bytes of a table to 160 with zeros.
func wire(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Map(func(r rune) rune {
		if r == ' ' || r == '\n' || r == '\t' {
			return -1
		}
		return r
	}, s))
	if err != nil || len(b) > Size {
		t.Fatalf("%q: %d bytes, %v", s, len(b), err)
	}
	return append(b, make([]byte, Size-len(b))...)
}

// Computed by hand from the tables of selftest 2.
var golden = []struct {
	name string
	m    codec
	wire string
}{
	{"debug request", &DebugRequest{Header: NewHeader(1), ReplyID: 0x1122334455667788, Session: sid, Flags: 5},
		`0df0b0ee 01000000 0a000000 00000000 00000000 01000000 8877665544332211 ` + sidLittle + ` 05000000`},
	{"debug reply",
		&DebugReply{Header: NewHeader(1), Status: 3, Session: NoSession, Timeout: 100, Batches: 2, Name: NameOf("abc")},
		`0df0b0ee 01000000 0b000000 00000000 00000000 01000000
		03000000 ffffffffffffffff ffffffffffffffff 64000000 02000000 616263`},
	{"make session request",
		&MakeSessionRequest{Header: NewHeader(1), ReplyID: 0x2725000000000001, Session: sid, Force: true, Name: NameOf("t311")},
		`0df0b0ee 01000000 00000000 00000000 00000000 01000000 0100000000002527 ` + sidLittle + ` 01000000 74333131`},
	{"make session reply",
		&MakeSessionReply{Header: NewHeader(0), Status: EBUSY, Session: sid, Timeout: 100, Name: NameOf("t311")},
		`0df0b0ee 01000000 01000000 00000000 00000000 00000000 10000000 ` + sidLittle + ` 64000000 74333131`},
	{"remove session request", &RemoveSessionRequest{Header: NewHeader(1), ReplyID: 2, Session: sid},
		`0df0b0ee 01000000 02000000 00000000 00000000 01000000 0200000000000000 ` + sidLittle},
	{"remove session reply", &RemoveSessionReply{Header: NewHeader(1), Session: NoSession},
		`0df0b0ee 01000000 03000000 00000000 00000000 01000000 00000000 ffffffffffffffffffffffffffffffff`},
	{"batch request",
		&BatchRequest{Header: NewHeader(1), ReplyID: 6, Session: sid, Batch: 2, Op: BatchStop, Test: 3, Arg: 4},
		`0df0b0ee 01000000 04000000 00000000 00000000 01000000 0600000000000000 ` + sidLittle +
			`0200000000000000 02000000 03000000 04000000`},
	{"batch reply", &BatchReply{Header: NewHeader(1), Session: sid, Active: 7, Time: 8},
		`0df0b0ee 01000000 05000000 00000000 00000000 01000000 00000000 ` + sidLittle + ` 07000000 08000000`},
	{"stat request", &StatRequest{Header: NewHeader(1), ReplyID: 10, Session: sid, Kind: 1},
		`0df0b0ee 01000000 06000000 00000000 00000000 01000000 0a00000000000000 ` + sidLittle + ` 01000000`},
	{"stat reply", &StatReply{
		Header: NewHeader(1), Session: sid,
		Framework: FrameworkCounters{1, 2, 3, 4, 5},
		RPC:       RPCCounters{6, 7, 8, 9, 10, 11, 12},
		LNet:      LNetCounters{13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23},
	},
		`0df0b0ee 01000000 07000000 00000000 00000000 01000000 00000000 ` + sidLittle + `
		01000000 02000000 03000000 04000000 05000000
		06000000 07000000 08000000 09000000 0a000000 0b00000000000000 0c00000000000000
		0d000000 0e000000 0f000000 10000000 11000000 12000000 13000000
		1400000000000000 1500000000000000 1600000000000000 1700000000000000`},
	{"ping test request", &TestRequest{
		Header: NewHeader(1), ReplyID: 4, BulkID: 5, Session: sid, Batch: 2, Tests: ServicePing, Loop: 5, Concurrency: 2,
		Client: true, StopOnError: true, Destinations: 1, Ping: PingParameters{Size: 6, Flags: 7},
	},
		`0df0b0ee 01000000 08000000 00000000 00000000 01000000 0400000000000000 0500000000000000 ` + sidLittle + `
		0200000000000000 0c000000 05000000 02000000 01 01 01000000 06000000 07000000`},
	{"brw test request of the first version", &TestRequest{
		Header: NewHeader(0), ReplyID: 4, Session: sid, Batch: 2, Tests: ServiceBRW, Loop: 0xffffffff, Concurrency: 1,
		StopOnError: true, BRW: BRWParameters{Op: BRWWrite, Pages: 256, Flags: 3},
	},
		`0df0b0ee 01000000 08000000 00000000 00000000 00000000 0400000000000000 0000000000000000 ` + sidLittle + `
		0200000000000000 0b000000 ffffffff 01000000 00 01 00000000 02000000 00010000 03000000`},
	{"brw test request with bulk length", &TestRequest{
		Header: NewHeader(1), ReplyID: 4, Session: sid, Batch: 2, Tests: ServiceBRW, Loop: 1, Concurrency: 1,
		BRW: BRWParameters{Op: BRWRead, Flags: 2, Length: 1 << 20, Offset: 8},
	},
		`0df0b0ee 01000000 08000000 00000000 00000000 01000000 0400000000000000 0000000000000000 ` + sidLittle + `
		0200000000000000 0b000000 01000000 01000000 00 00 00000000 0100 0200 00001000 08000000`},
	{"brw test request, big endian", &TestRequest{
		Header: Header{BigEndian, 1, 1}, ReplyID: 4, Session: sid, Batch: 2, Tests: ServiceBRW, Loop: 1, Concurrency: 1,
		BRW: BRWParameters{Op: BRWRead, Flags: 2, Length: 1 << 20, Offset: 8},
	},
		`eeb0f00d 00000001 00000008 00000000 00000000 00000001 0000000000000004 0000000000000000 ` + sidBig + `
		0000000000000002 0000000b 00000001 00000001 00 00 00000000 0001 0002 00100000 00000008`},
	{"test reply", &TestReply{Header: NewHeader(1), Status: EINVAL, Session: sid},
		`0df0b0ee 01000000 09000000 00000000 00000000 01000000 16000000 ` + sidLittle},
	{"brw request",
		&BRWRequest{Header: NewHeader(1), ReplyID: 7, BulkID: 8, Op: BRWWrite, Length: 1 << 20, Check: CheckFull},
		`0df0b0ee 01000000 0c000000 00000000 00000000 01000000 0700000000000000 0800000000000000
		02000000 00001000 03000000`},
	{"brw reply", &BRWReply{Header: NewHeader(1), Status: EBADMSG},
		`0df0b0ee 01000000 0d000000 00000000 00000000 01000000 4a000000`},
	{"ping request",
		&PingRequest{Header: NewHeader(1), ReplyID: 9, Magic: PingMagic, Seq: 3, Seconds: 1795172138, Nanoseconds: 38621543},
		`0df0b0ee 01000000 0e000000 00000000 00000000 01000000 0900000000000000 cefabeba 03000000
		2a27006b00000000 67514d0200000000`},
	{"ping reply", &PingReply{Header: NewHeader(1), Magic: PingMagic, Seq: 3},
		`0df0b0ee 01000000 0f000000 00000000 00000000 01000000 00000000 cefabeba 03000000`},
	{"ping reply, big endian", &PingReply{Header: Header{BigEndian, 1, 1}, Status: EPROTO, Magic: PingMagic, Seq: 3},
		`eeb0f00d 00000001 0000000f 00000000 00000000 00000001 00000047 babeface 00000003`},
	{"join request", &JoinRequest{Header: NewHeader(1), ReplyID: 9, Session: NoSession, Group: NameOf("g")},
		`0df0b0ee 01000000 10000000 00000000 00000000 01000000 0900000000000000 ffffffffffffffffffffffffffffffff 67`},
	{"join reply", &JoinReply{Header: NewHeader(1), Status: EEXIST, Session: sid, Timeout: 300, Name: NameOf("s")},
		`0df0b0ee 01000000 11000000 00000000 00000000 01000000 11000000 ` + sidLittle + ` 2c010000 73`},
}

// Given bytes written by hand, when messages are encoded and decoded, then they match, and only the
// message's own type decodes it.
//
// selftest 1.1, 2, 2.1, 2.2, 2.3, 2.3.1, 2.3.2, 11 (1)
func TestGolden(t *testing.T) {
	for _, test := range golden {
		t.Run(test.name, func(t *testing.T) {
			want := wire(t, test.wire)
			got := test.m.Append([]byte("before"))
			if !bytes.Equal(got[:6], []byte("before")) || !bytes.Equal(got[6:], want) {
				t.Errorf("encoded to\n%s, want\n%s", hex.Dump(got[6:]), hex.Dump(want))
			}
			m := fresh(test.m)
			if err := m.Decode(want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.m, m); diff != "" {
				t.Error(diff)
			}
			for _, other := range golden {
				if reflect.TypeOf(other.m) == reflect.TypeOf(test.m) {
					continue
				}
				m := fresh(other.m)
				if err := m.Decode(want); !errors.Is(err, ErrType) {
					t.Errorf("as a %s: %v", other.name, err)
				}
				if diff := cmp.Diff(fresh(other.m), m); diff != "" {
					t.Errorf("half decoded: %s", diff)
				}
			}
		})
	}
}

// Given a message that is too short, too long, or has another magic, when it is decoded, then the error
// names the reason.
//
// selftest 2.5 (1)
func TestMalformed(t *testing.T) {
	for _, test := range golden {
		b := test.m.Append(nil)
		for _, n := range []int{0, 1, 23, 24, 159, 161} {
			if err := fresh(test.m).Decode(append(b, 0)[:n]); !errors.Is(err, ErrSize) {
				t.Errorf("%s, %d bytes: %v", test.name, n, err)
			}
		}
		b[0] ^= 1
		if err := fresh(test.m).Decode(b); !errors.Is(err, ErrMagic) {
			t.Errorf("%s: %v", test.name, err)
		}
		if ReplyID(b) != 0 {
			t.Errorf("%s: a reply ID", test.name)
		}
	}
}

// Given requests, when IDs are set, then they are at the specified offsets in the request's byte order.
//
// selftest 1.1
func TestSetIDs(t *testing.T) {
	for _, order := range []Order{LittleEndian, BigEndian} {
		q := BRWRequest{Header: Header{order, 1, 1}, Op: BRWRead, Length: 8, Check: CheckNone}
		b := q.Append(nil)
		SetIDs(b, 0x1234, 0x5678)
		var got BRWRequest
		if err := got.Decode(b); err != nil || got.ReplyID != 0x1234 || got.BulkID != 0x5678 || ReplyID(b) != 0x1234 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	d := DebugRequest{Header: NewHeader(1), Session: sid}
	b := d.Append(nil)
	SetIDs(b, 0x1234, 0)
	if err := d.Decode(b); err != nil || d.Session != sid || d.ReplyID != 0x1234 {
		t.Errorf("%+v, %v", d, err)
	}
}

// The names, portals and types of all services are consistent.
//
// selftest 2.3
func TestServices(t *testing.T) {
	for s := range Service(20) {
		typ, ok := s.Request()
		_, known := services[s]
		if ok != known || ok && (typ.Reply() != typ+1 || typ != services[s].request) {
			t.Errorf("%v: %v, %t", s, typ, ok)
		}
		if s.IsTest() != (s.Portal() == TestPortal) {
			t.Errorf("%v: portal %d", s, s.Portal())
		}
	}
	for typ, want := range map[Type]string{0: "make session request", 13: "brw reply", 17: "join reply", 18: "message of type 18"} {
		if typ.String() != want {
			t.Errorf("%d: %q", typ, typ)
		}
	}
}

// Given lists of destinations around the size of a block, when they are encoded, then entries are at the
// offsets that kernels use, and a list truncated to 12 bytes per entry lacks what the specification
// states.
//
// selftest 2.3.3 (1)
func TestDestinations(t *testing.T) {
	for _, n := range []int{1, 2, 340, 341, 342, 682, 683, 1024} {
		for _, order := range []Order{LittleEndian, BigEndian} {
			list := make([]Destination, n)
			for k := range list {
				list[k] = Destination{NID: nid + NID4(k), PID: lnet.PID(k + 1)}
			}
			b := AppendDestinations(nil, list, order)
			if want := (n-1)/341*4096 + ((n-1)%341+1)*12; len(b) != want {
				t.Fatalf("%d: %d bytes, want %d", n, len(b), want)
			}
			for k := range list {
				if got, ok := DecodeDestination(b, k, order); !ok || got != list[k] {
					t.Fatalf("%d of %d: %+v", k, n, got)
				}
			}
			if _, ok := DecodeDestination(b, n, order); ok {
				t.Errorf("%d: an entry too many", n)
			}
			last, ok := DecodeDestination(b[:n*12], n-1, order)
			switch blocks := (n - 1) / 341; {
			case blocks == 0 && (!ok || last != list[n-1]),
				blocks == 1 && (!ok || last != Destination{NID: list[n-1].NID, PID: lnet.PIDLustre}),
				blocks == 2 && ok:
				t.Errorf("%d: the last entry of a short list is %+v, %t", n, last, ok)
			}
		}
	}
	b := AppendDestinations(nil, []Destination{{NID: nid, PID: 12345}}, LittleEndian)
	if got := hex.EncodeToString(b); got != "0d004d0a0000020039300000" {
		t.Error(got)
	}
}

// Given names of any length, then 31 bytes are kept.
//
// selftest 2.2
func TestNames(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 100} {
		s := strings.Repeat("x", n)
		if got := NameOf(s).String(); got != s[:min(n, 31)] {
			t.Errorf("%d: %q", n, got)
		}
	}
	full := Name([]byte(strings.Repeat("y", 32)))
	if got := full.String(); got != strings.Repeat("y", 32) {
		t.Errorf("without a NUL: %q", got)
	}
}

// Given large and small NIDs, then the short form is exact or does not exist.
//
// selftest 2.2, 2.2 large
func TestNID4(t *testing.T) {
	for s, want := range map[string]NID4{"10.77.0.13@tcp": nid, "0@lo": 0x00090000_00000000} {
		n, err := lnet.ParseNID(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := NID4Of(n); !ok || got != want || got.NID() != n || got.String() != s {
			t.Errorf("%s: %#x, %t", s, uint64(got), ok)
		}
	}
	large, err := lnet.ParseNID("fd77::11@tcp")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := NID4Of(large); ok {
		t.Errorf("%v: %#x", large, uint64(got))
	}
	if got, ok := NID4Of(lnet.AnyNID); !ok || got != AnyNID4 {
		t.Errorf("any: %#x", uint64(got))
	}
}

// Encoding and decoding messages allocates nothing.
func TestCodecDoesNotAllocate(t *testing.T) {
	var buf [Size]byte
	q := BRWRequest{Header: NewHeader(1), Op: BRWRead, Length: 8}
	s := StatReply{Header: NewHeader(1)}
	if n := testing.AllocsPerRun(100, func() {
		q.Append(buf[:0])
		if q.Decode(buf[:]) != nil {
			t.Fatal("decode")
		}
		s.Append(buf[:0])
		if s.Decode(buf[:]) != nil {
			t.Fatal("decode")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The cost of encoding and decoding a BRW request.
func BenchmarkBRWRequest(b *testing.B) {
	var buf [Size]byte
	q := BRWRequest{Header: NewHeader(1), Op: BRWRead, Length: 8}
	for b.Loop() {
		q.Append(buf[:0])
		if q.Decode(buf[:]) != nil {
			b.Fatal("decode")
		}
	}
}
