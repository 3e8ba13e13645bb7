package protocol

import (
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// goldenRequests are requests and their bytes: the three lines of the header, and the body.
var goldenRequests = []struct {
	name     string
	sequence uint32
	request  Request
	dump     string
}{
	{"HELLO", 1, &Hello{Lowest: 1, Highest: 2, Wanted: FeatPolling | 1<<40, Required: FeatPolling, Program: "oss"}, `
		4c544e44 0100 0100 50000000  01000000 00000000 00000000
		0100 0200 00000000  0200000000010000 0200000000000000
		6f73730000000000000000000000000000000000000000000000000000000000`},
	{"NIDS_GET", 2, &NIDsGet{}, `
		4c544e44 0100 0200 18000000  02000000 00000000 00000000`},
	{"AREA_ADD", 3, &AreaAdd{Size: 2 << 20}, `
		4c544e44 0100 0300 28000000  03000000 00000000 00000000
		0000200000000000 00000000 00000000`},
	{"AREA_DEL", 4, &AreaDel{Area: 7}, `
		4c544e44 0100 0400 1c000000  04000000 00000000 00000000
		07000000`},
	{"BUF_REGISTER", 5, &BufRegister{Ranges: []Range{
		{Area: 7, Length: 4096, Offset: 8192}, {Area: 8, Length: 1, Offset: 1 << 32},
	}}, `
		4c544e44 0100 0500 40000000  05000000 00000000 00000000
		02000000 00000000
		07000000 00100000 0020000000000000
		08000000 01000000 0000000001000000`},
	{"BUF_DEREGISTER", 6, &BufDeregister{Index: 9, Generation: 3}, `
		4c544e44 0100 0600 20000000  06000000 00000000 00000000
		09000000 03000000`},
	{"TM_START", 7, &TMStart{NID: nid("10.0.0.1@tcp"), PID: lnet.PIDLustre, Portal: 34, TMID: DynamicTMID, Completions: 1000}, `
		4c544e44 0100 0700 40000000  07000000 00000000 00000000
		0002 0000 0a000001 00000000 00000000 00000000
		39300000 22000000 00100000 e8030000 00000000`},
	{"TM_START at a large NID", 8, &TMStart{NID: nid("2001:db8::10@tcp1"), PID: lnet.PIDLustre, Portal: 63, TMID: 1, Completions: 2}, `
		4c544e44 0100 0700 40000000  08000000 00000000 00000000
		0c02 0001 20010db8 00000000 00000000 00000010
		39300000 3f000000 01000000 02000000 00000000`},
	{"TM_STOP", 9, &TMStop{Handle: 5}, `
		4c544e44 0100 0800 1c000000  09000000 00000000 00000000
		05000000`},
	{"STATS_GET", 10, &StatsGet{Handle: NoHandle}, `
		4c544e44 0100 0900 1c000000  0a000000 00000000 00000000
		ffffffff`},
	{"NOP", 11, &Nop{Data: []byte{1, 2, 3}}, `
		4c544e44 0100 0a00 1b000000  0b000000 00000000 00000000
		010203`},
}

// goldenReplies are lnetd's replies to requests with those opcodes.
var goldenReplies = []struct {
	opcode   Opcode
	sequence uint32
	reply    Body
	dump     string
}{
	{OpHello, 1, &HelloReply{
		Version: 1, Features: FeatPolling,
		Limits:      Limits{BufferSize: 1 << 20, SegmentSize: 4096, Segments: 256, DescriptorSize: 48},
		Quotas:      Quotas{TMs: 64, Buffers: 16384, Areas: 65, RingEntries: 65536, Bytes: 1 << 30},
		Incarnation: 0x1122334455667788, Now: 1_000_000_007, Connection: 258,
	}, `
		4c544e44 0100 0100 70000000  01000000 00000000 00000000
		0100 0000 00000000  0200000000000000
		0000100000000000 0010000000000000 00010000 30000000
		40000000 00400000 41000000 00000100 0000004000000000
		8877665544332211 07ca9a3b00000000 0201000000000000`},
	{OpNIDsGet, 2, &NIDsReply{NIDs: []lnet.NID{lnet.LoopbackNID, nid("10.0.0.1@tcp"), nid("2001:db8::10@tcp1")}}, `
		4c544e44 0100 0200 58000000  02000000 00000000 00000000
		03000000
		0009 0000 00000000 00000000 00000000 00000000
		0002 0000 0a000001 00000000 00000000 00000000
		0c02 0001 20010db8 00000000 00000000 00000010`},
	{OpAreaAdd, 3, &AreaAddReply{Area: 7}, `
		4c544e44 0100 0300 1c000000  03000000 00000000 00000000
		07000000`},
	{OpAreaDel, 4, &Empty{}, `
		4c544e44 0100 0400 18000000  04000000 00000000 00000000`},
	{OpBufRegister, 5, &BufRegisterReply{Index: 9, Generation: 3}, `
		4c544e44 0100 0500 20000000  05000000 00000000 00000000
		09000000 03000000`},
	{OpBufDeregister, 6, &Empty{}, `
		4c544e44 0100 0600 18000000  06000000 00000000 00000000`},
	{OpTMStart, 7, &TMStartReply{Handle: 5, TMID: 4095, Completions: 1024, Credits: 1016}, `
		4c544e44 0100 0700 2c000000  07000000 00000000 00000000
		05000000 ff0f0000 00040000 00100000
		f8030000`},
	{OpTMStop, 9, &Counters{Submissions: 1, Completions: 2, BellWrites: 3, BellReads: 4, Requests: 5}, `
		4c544e44 0100 0800 48000000  09000000 00000000 00000000
		05000000 00000000
		0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000`},
	{OpStatsGet, 10, &Counters{Submissions: 1 << 40, Requests: 7}, `
		4c544e44 0100 0900 48000000  0a000000 00000000 00000000
		05000000 00000000
		0000000000010000 0000000000000000 0000000000000000 0000000000000000 0700000000000000`},
	{OpNop, 11, &Nop{Data: []byte{1, 2, 3}}, `
		4c544e44 0100 0a00 1b000000  0b000000 00000000 00000000
		010203`},
}

var goldenNotices = []struct {
	notice Notice
	dump   string
}{
	{GoingDown(10, "restart"), `
		4c544e44 0100 4000 27000000  00000000 00000000 00000000
		01000000 0a000000 72657374617274`},
	{CutOff(fmt.Errorf("TM 5: submission tail 70000: %w", syscall.EPROTO)), `
		4c544e44 0100 4000 3b000000  00000000 00000000 00000000
		02000000 b9ffffff
		544d20353a207375626d697373696f6e207461696c203730303030`},
	{Notice{Kind: NoticeLimits, Value: 64}, `
		4c544e44 0100 4000 20000000  00000000 00000000 00000000
		03000000 40000000`},
}

// goldenFailure is the reply to request 7, a TM_START.
const goldenFailure = `
	4c544e44 0100 0700 2d000000  07000000 9effffff 00000000
	31302e302e302e31407463702069732074616b656e`

func nid(s string) lnet.NID {
	n, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return n
}

// unhex decodes a hex dump, which may contain white space.
func unhex(t testing.TB, dump string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(dump), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sameBytes checks that a record matches a dump.
func sameBytes(t *testing.T, got []byte, err error, dump string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if want := unhex(t, dump); string(got) != string(want) {
		t.Errorf("bytes\n%x, want\n%x", got, want)
	}
}

var equalNIDs = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })

func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, equalNIDs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Encoded requests equal the test vectors byte by byte.
//
// transport 9.1, 9.2
func TestGoldenRequests(t *testing.T) {
	seen := map[Opcode]bool{}
	for _, g := range goldenRequests {
		seen[g.request.Opcode()] = true
		t.Run(g.name, func(t *testing.T) {
			b, err := AppendRequest(nil, g.sequence, g.request)
			sameBytes(t, b, err, g.dump)
			h, r, err := DecodeRequest(unhex(t, g.dump))
			if err != nil {
				t.Fatal(err)
			}
			same(t, Header{Opcode: g.request.Opcode(), Sequence: g.sequence}, h)
			same(t, g.request, r)
		})
	}
	for o := OpHello; o <= OpNop; o++ {
		if !seen[o] {
			t.Errorf("no golden %v", o)
		}
	}
}

// Encoded replies equal the test vectors byte by byte.
//
// transport 9.1, 9.2
func TestGoldenReplies(t *testing.T) {
	seen := map[Opcode]bool{}
	for _, g := range goldenReplies {
		seen[g.opcode] = true
		t.Run(g.opcode.String(), func(t *testing.T) {
			h := Header{Opcode: g.opcode, Sequence: g.sequence}
			b, err := AppendReply(nil, h, g.reply)
			sameBytes(t, b, err, g.dump)
			got, body, err := DecodeReply(unhex(t, g.dump))
			if err != nil {
				t.Fatal(err)
			}
			same(t, h, got)
			if err := got.Failure(body); err != nil {
				t.Errorf("a failure: %v", err)
			}
			reply := blank(g.reply)
			if err := reply.Decode(body); err != nil {
				t.Fatal(err)
			}
			same(t, g.reply, reply)
		})
	}
	for o := OpHello; o <= OpNop; o++ {
		if !seen[o] {
			t.Errorf("no golden reply to %v", o)
		}
	}
}

// Encoded notices equal the test vectors byte by byte.
//
// transport 9.2
func TestGoldenNotices(t *testing.T) {
	for _, g := range goldenNotices {
		t.Run(g.notice.Kind.String(), func(t *testing.T) {
			sameBytes(t, AppendNotice(nil, &g.notice), nil, g.dump)
			h, body, err := DecodeReply(unhex(t, g.dump))
			if err != nil {
				t.Fatal(err)
			}
			same(t, Header{Opcode: OpNotice}, h)
			var n Notice
			if err := n.Decode(body); err != nil {
				t.Fatal(err)
			}
			same(t, g.notice, n)
		})
	}
}

// An encoded failure equals the test vector byte by byte.
//
// transport 9.1
func TestGoldenFailure(t *testing.T) {
	request := Header{Opcode: OpTMStart, Sequence: 7}
	b := AppendFailure(nil, request, fmt.Errorf("10.0.0.1@tcp is taken: %w", syscall.EADDRINUSE))
	sameBytes(t, b, nil, goldenFailure)
	h, body, err := DecodeReply(unhex(t, goldenFailure))
	if err != nil {
		t.Fatal(err)
	}
	request.Status = syscall.EADDRINUSE
	same(t, request, h)
	same(t, error(&Failure{Opcode: OpTMStart, Errno: syscall.EADDRINUSE, Text: "10.0.0.1@tcp is taken"}), h.Failure(body))
}
