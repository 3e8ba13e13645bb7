package protocol

import (
	"bytes"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

func drawNID(t *rapid.T) lnet.NID {
	net := lnet.MakeNet(lnet.TypeTCP, rapid.Uint16().Draw(t, "net"))
	if rapid.Bool().Draw(t, "large") {
		return lnet.NIDFromIP(net, netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address"))))
	}
	return lnet.NIDFromNumber(net, rapid.Uint32().Draw(t, "address"))
}

func drawText(t *rapid.T, most int) string {
	return rapid.StringOfN(rapid.Custom(func(t *rapid.T) rune { return rapid.Int32Range(' ', '~').Draw(t, "c") }), 0, most, most).Draw(t, "text")
}

// drawRequest draws any valid request.
func drawRequest(t *rapid.T) Request {
	u16, u32, u64 := rapid.Uint16(), rapid.Uint32(), rapid.Uint64()
	switch rapid.SampledFrom([]Opcode{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}).Draw(t, "opcode") {
	case OpHello:
		lowest := rapid.Uint16Min(1).Draw(t, "lowest")
		return &Hello{
			Lowest: lowest, Highest: max(lowest, u16.Draw(t, "highest")),
			Wanted: Features(u64.Draw(t, "wanted")), Required: Features(u64.Draw(t, "required")),
			Program: drawText(t, MaxProgram),
		}
	case OpNIDsGet:
		return &NIDsGet{}
	case OpAreaAdd:
		return &AreaAdd{Size: rapid.Uint64Min(1).Draw(t, "size")}
	case OpAreaDel:
		return &AreaDel{Area: u32.Draw(t, "area")}
	case OpBufRegister:
		return &BufRegister{Ranges: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Range {
			length := rapid.Uint32Min(1).Draw(t, "length")
			return Range{
				Area: u32.Draw(t, "area"), Length: length,
				Offset: rapid.Uint64Max(1<<64-1-uint64(length)).Draw(t, "offset"),
			}
		}), 1, 300).Draw(t, "ranges")}
	case OpBufDeregister:
		return &BufDeregister{Index: u32.Draw(t, "index"), Generation: u32.Draw(t, "generation")}
	case OpTMStart:
		return &TMStart{
			NID: drawNID(t), PID: lnet.PID(u32.Draw(t, "pid")), Portal: rapid.Uint32Range(1, 63).Draw(t, "portal"),
			TMID:        rapid.Uint32Range(1, DynamicTMID).Draw(t, "tmid"),
			Completions: rapid.Uint32Range(1, MaxCompletions).Draw(t, "completions"),
		}
	case OpTMStop:
		return &TMStop{Handle: rapid.Uint32Max(NoHandle-1).Draw(t, "handle")}
	case OpStatsGet:
		return &StatsGet{Handle: u32.Draw(t, "handle")}
	}
	return &Nop{Data: rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "data")}
}

// drawReply draws any valid reply or notice.
func drawReply(t *rapid.T) (Opcode, Body) {
	u32, u64 := rapid.Uint32(), rapid.Uint64()
	switch o := rapid.SampledFrom([]Opcode{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, OpNotice}).Draw(t, "opcode"); o {
	case OpHello:
		return o, drawHelloReply(t)
	case OpNIDsGet:
		return o, &NIDsReply{NIDs: rapid.SliceOfN(rapid.Custom(drawNID), 0, 100).Draw(t, "NIDs")}
	case OpAreaAdd:
		return o, &AreaAddReply{Area: u32.Draw(t, "area")}
	case OpBufRegister:
		return o, &BufRegisterReply{Index: u32.Draw(t, "index"), Generation: u32.Draw(t, "generation")}
	case OpTMStart:
		n := Granted(rapid.Uint32Range(1, MaxCompletions).Draw(t, "completions"))
		return o, &TMStartReply{
			Handle: rapid.Uint32Max(NoHandle-1).Draw(t, "handle"), TMID: rapid.Uint32Range(1, 4095).Draw(t, "tmid"),
			Completions: n, Credits: rapid.Uint32Range(1, n).Draw(t, "credits"),
		}
	case OpTMStop, OpStatsGet:
		return o, &Counters{
			Submissions: u64.Draw(t, "submissions"), Completions: u64.Draw(t, "completions"),
			BellWrites: u64.Draw(t, "writes"), BellReads: u64.Draw(t, "reads"), Requests: u64.Draw(t, "requests"),
		}
	case OpNop:
		return o, &Nop{Data: rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "data")}
	case OpNotice:
		n := Notice{Text: drawText(t, MaxText)}
		switch n.Kind = NoticeKind(rapid.Uint32Max(5).Draw(t, "kind")); n.Kind {
		case NoticeCutOff:
			n.Value = rapid.Int32Range(-maxErrno, -1).Draw(t, "errno")
		case NoticeGoingDown, NoticeLimits:
			n.Value = rapid.Int32Min(0).Draw(t, "value")
		default:
			n.Value = rapid.Int32().Draw(t, "value")
		}
		return o, &n
	default:
		return o, &Empty{}
	}
}

func drawHelloReply(t *rapid.T) *HelloReply {
	u32, u64, size := rapid.Uint32(), rapid.Uint64(), rapid.Uint64Range(1, 1<<32-1)
	return &HelloReply{
		Version: rapid.Uint16Min(1).Draw(t, "version"), Features: Features(u64.Draw(t, "features")),
		Limits: Limits{
			BufferSize: size.Draw(t, "buffer"), SegmentSize: size.Draw(t, "segment"),
			Segments:       rapid.Uint32Range(1, MaxRanges).Draw(t, "segments"),
			DescriptorSize: rapid.Uint32Min(1).Draw(t, "descriptor"),
		},
		Quotas: Quotas{
			TMs: u32.Draw(t, "TMs"), Buffers: u32.Draw(t, "buffers"), Areas: u32.Draw(t, "areas"),
			RingEntries: u32.Draw(t, "entries"), Bytes: u64.Draw(t, "bytes"),
		},
		Incarnation: u64.Draw(t, "incarnation"), Now: u64.Draw(t, "now"),
		Connection: rapid.Uint64Min(1).Draw(t, "connection"),
	}
}

// A decoded request equals the encoded one.
func TestRequestsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, sequence := drawRequest(t), rapid.Uint32().Draw(t, "sequence")
		b, err := AppendRequest(nil, sequence, want)
		if err != nil || len(b) > MaxRecord {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		h, got, err := DecodeRequest(b)
		if err != nil || h != (Header{Opcode: want.Opcode(), Sequence: sequence}) {
			t.Fatalf("%+v, %v", h, err)
		}
		if diff := cmp.Diff(want, got, equalNIDs); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// A decoded reply equals the encoded one.
func TestRepliesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, want := drawReply(t)
		request := Header{Opcode: o}
		if o != OpNotice {
			request.Sequence = rapid.Uint32().Draw(t, "sequence")
		}
		b, err := AppendReply(nil, request, want)
		if err != nil || len(b) > MaxRecord {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		h, body, err := DecodeReply(b)
		if err != nil || h != request || h.Failure(body) != nil {
			t.Fatalf("%+v, %v", h, err)
		}
		got := blank(want)
		if err := got.Decode(body); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, equalNIDs); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// Arbitrary bytes are accepted, or refused with a reason. Valid records with a few changes reach more
// checks than random bytes.
func TestRequestsFromAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := AppendRequest(nil, 1, drawRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "to")
		}
		b = b[:rapid.OneOf(rapid.Just(len(b)), rapid.IntRange(0, len(b))).Draw(t, "length")]
		h, r, err := DecodeRequest(bytes.Clone(b))
		switch {
		case err == nil && (r == nil || r.Opcode() != h.Opcode):
			t.Fatalf("%+v with %v", h, r)
		case err != nil && r != nil:
			t.Fatalf("%v and %v", r, err)
		case errors.Is(err, syscall.EPROTO) && h != Header{}:
			t.Fatalf("%+v and %v", h, err)
		case errors.Is(err, syscall.EPROTO):
			named(t, err, syscall.EPROTO)
		case errors.Is(err, syscall.EOPNOTSUPP):
			named(t, err, syscall.EOPNOTSUPP)
		case err != nil:
			named(t, err, syscall.EINVAL)
		}
	})
}
