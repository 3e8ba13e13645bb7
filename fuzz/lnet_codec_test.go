package fuzz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

func lnetNID(f *testing.F, s string) lnet.NID {
	f.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// lnetHeaders has one header of each type.
func lnetHeaders(f *testing.F, dest, src string) []lnet.Header {
	f.Helper()
	handle := lnet.Handle{Interface: 0x17f1a2b300000001, Object: 0x11d}
	headers := []lnet.Header{
		{Type: lnet.MsgAck, Handle: handle, MatchBits: lnet.PingMatchBits, Length: 64},
		{Type: lnet.MsgPut, PayloadLength: 10, Handle: lnet.NoHandle, MatchBits: 42, HdrData: 7, Portal: 26, Offset: 9},
		{Type: lnet.MsgGet, Handle: handle, MatchBits: lnet.PingMatchBits, Length: lnet.PingBufferMin},
		{Type: lnet.MsgReply, PayloadLength: lnet.MTU, Handle: handle},
		{Type: lnet.MsgHello, Incarnation: 17, ConnType: 1},
		{Type: 9, PayloadLength: math.MaxUint32},
	}
	for i := range headers {
		h := &headers[i]
		h.Dest, h.Src = lnetNID(f, dest), lnetNID(f, src)
		h.DestPID, h.SrcPID = lnet.PIDLustre, lnet.PIDLustre
	}
	return headers
}

// recordedHeaders adds the headers of recorded messages to the seeds.
func recordedHeaders(f *testing.F, large bool) {
	f.Helper()
	eachRecorded(f, func(u *recording.Unit) {
		if u.Kind == recording.KindMessage && (u.Version == protocol.V4) == large {
			end := len(u.Raw) - len(u.Payload)
			f.Add(u.Raw[end-u.Version.HeaderSize() : end])
		}
	})
}

// checkHeader decodes and encodes a header; same is the number of bytes up to
// the variant part, which come back as they were.
func checkHeader(t *testing.T, b []byte, size, same int,
	decode func(*lnet.Header, []byte) error, appendTo func(*lnet.Header, []byte) ([]byte, error),
) {
	t.Helper()
	before := lnet.Header{MatchBits: 42, ConnType: 9}
	h := before
	if err := decode(&h, b); err != nil {
		lnetNamed(t, err)
		if h != before {
			t.Fatalf("half decoded: %+v", h)
		}
		return
	}
	if err := h.Validate(); err != nil {
		lnetNamed(t, err)
	}
	again, err := appendTo(&h, nil)
	if err != nil || len(again) != size {
		t.Fatalf("%+v encodes to %d bytes: %v", h, len(again), err)
	}
	if !h.Dest.IsAny() && !h.Src.IsAny() && !bytes.Equal(again[:same], b[:same]) {
		t.Fatalf("%x became %x", b[:same], again[:same])
	}
	var h2 lnet.Header
	if err := decode(&h2, again); err != nil || h2 != h {
		t.Fatalf("%+v became %+v (%v)", h, h2, err)
	}
}

func FuzzLnetHeaderNID4(f *testing.F) {
	recordedHeaders(f, false)
	for _, h := range lnetHeaders(f, "192.168.1.20@tcp", "192.168.1.10@tcp1") {
		b, err := h.AppendNID4(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		lnetBounded(t, 1<<16, func() {
			checkHeader(t, b, lnet.HeaderNID4Size, 32, (*lnet.Header).DecodeNID4, (*lnet.Header).AppendNID4)
		})
	})
}

func FuzzLnetHeaderNID16(f *testing.F) {
	recordedHeaders(f, true)
	for _, dest := range []string{"2001:db8::20@tcp", "192.168.1.20@tcp"} {
		for _, h := range lnetHeaders(f, dest, "2001:db8::10@tcp") {
			f.Add(h.AppendNID16(nil))
		}
	}
	appendTo := func(h *lnet.Header, b []byte) ([]byte, error) { return h.AppendNID16(b), nil }
	f.Fuzz(func(t *testing.T, b []byte) {
		lnetBounded(t, 1<<16, func() {
			checkHeader(t, b, lnet.HeaderNID16Size, 56, (*lnet.Header).DecodeNID16, appendTo)
		})
	})
}

// lnetInfos are ping infos of all shapes.
func lnetInfos(f *testing.F) []lnet.PingInfo {
	f.Helper()
	up := func(s string) lnet.PingNI { return lnet.PingNI{NID: lnetNID(f, s), Status: lnet.StatusUp} }
	const host = lnet.FeatNIStatus | lnet.FeatRoutingDisabled | lnet.FeatMultiRail | lnet.FeatDiscovery
	return []lnet.PingInfo{
		{Features: host, PID: lnet.PIDLustre, Seq: 1},
		{Features: host, PID: lnet.PIDLustre, Seq: 7, NIs: []lnet.PingNI{up("192.168.1.20@tcp")}},
		{Features: host, PID: lnet.PIDLustre, Seq: 3, NIs: []lnet.PingNI{
			up("192.168.1.10@tcp"), {NID: lnetNID(f, "10.0.0.10@tcp1"), Status: lnet.StatusDown},
		}},
		{Features: host, PID: lnet.PIDLustre, Seq: 4, NIs: []lnet.PingNI{up("192.168.1.20@tcp"), up("2001:db8::20@tcp")}},
		{
			Features: host | lnet.FeatPrimaryLarge, PID: lnet.PIDLustre, Seq: 1,
			NIs: []lnet.PingNI{up("2001:db8::20@tcp"), up("2001:db8::21@tcp1")},
		},
		{
			Features: host, PID: lnet.PIDLustre, Seq: 2, NIs: []lnet.PingNI{up("10.0.0.1@efa"), up("fd00::1@efa")},
			Metadata: []lnet.PingMetadata{{NID: lnetNID(f, "10.0.0.1@efa"), Data: [32]byte{1, 2, 3}}},
		},
	}
}

func FuzzLnetPingInfo(f *testing.F) {
	eachRecorded(f, func(u *recording.Unit) {
		if _, ok := lnet.MagicOrder(u.Payload, lnet.MagicPing); ok {
			f.Add(u.Payload)
		}
	})
	for _, p := range lnetInfos(f) {
		f.Add(p.Append(nil, binary.LittleEndian))
		f.Add(p.Append(nil, binary.BigEndian))
	}
	const maxNIs = 64
	f.Fuzz(func(t *testing.T, b []byte) {
		var p lnet.PingInfo
		var err error
		lnetBounded(t, 1<<16+8*uint64(len(b)), func() { p, err = lnet.DecodePingInfo(b, maxNIs) })
		if len(p.NIs) >= maxNIs || len(p.NIs) > len(b)/12 || len(p.Metadata) > len(b)/40 {
			t.Fatalf("%d NIs and %d of metadata from %d bytes", len(p.NIs), len(p.Metadata), len(b))
		}
		if err != nil {
			checkPingError(t, p, err, maxNIs)
			return
		}
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			again := p.Append(nil, socklndOrder(order))
			if len(again) != p.Size() {
				t.Fatalf("%d bytes, Size is %d", len(again), p.Size())
			}
			p2, err := lnet.DecodePingInfo(again, maxNIs)
			if err != nil || !sameInfo(p, p2) {
				t.Fatalf("%+v became %+v (%v)", p, p2, err)
			}
		}
	})
}

// checkPingError wants a claim of bounded size with what was cut off, and
// nothing at all with any other error.
func checkPingError(t *testing.T, p lnet.PingInfo, err error, maxNIs int) {
	t.Helper()
	lnetNamed(t, err)
	var short *lnet.TruncatedError
	if errors.As(err, &short) {
		if short.Need > 16+(16+24)*maxNIs {
			t.Fatalf("asks for %d bytes", short.Need)
		}
		return
	}
	if p.Features != 0 || p.Seq != 0 || len(p.NIs) != 0 || len(p.Metadata) != 0 {
		t.Fatalf("half decoded: %+v (%v)", p, err)
	}
}

// sameInfo reports whether b is a with the features that follow from its lists.
func sameInfo(a, b lnet.PingInfo) bool {
	a.Features &^= lnet.FeatLargeAddr
	if slices.ContainsFunc(a.NIs, func(ni lnet.PingNI) bool { return ni.NID.IsLarge() }) {
		a.Features |= lnet.FeatLargeAddr
	}
	if len(a.Metadata) > 0 {
		a.Features |= lnet.FeatMetadata
	}
	return a.Features == b.Features && a.PID == b.PID && a.Seq == b.Seq &&
		slices.Equal(a.NIs, b.NIs) && slices.Equal(a.Metadata, b.Metadata)
}

func FuzzLnetAcceptorRequest(f *testing.F) {
	eachRecorded(f, func(u *recording.Unit) {
		if u.Kind == recording.KindRequest {
			f.Add(u.Raw)
		}
	})
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, nid := range []string{"192.168.1.20@tcp", "2001:db8::20@tcp", "<?>", "0@lo"} {
			f.Add(lnet.AcceptorRequest{NID: lnetNID(f, nid)}.Append(nil, order))
			f.Add(lnet.AcceptorRequest{Version: 2, NID: lnetNID(f, nid)}.Append(nil, order))
		}
		f.Add(lnet.AppendAcceptorRefusal(nil, order))
		f.Add(order.AppendUint32(nil, lnet.MagicProto))
		f.Add(order.AppendUint32(nil, lnet.MagicTCP))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, order, err := lnet.DecodeAcceptorRequest(b)
		need, needErr := lnet.AcceptorRequestNeed(b)
		if need > lnet.MaxAcceptorRequestSize || needErr != nil && err == nil {
			t.Fatalf("%d bytes are needed (%v), decoding: %v", need, needErr, err)
		}
		if err != nil {
			lnetNamed(t, err)
			if needErr == nil && (need > len(b)) != lnet.IsShort(err) {
				t.Fatalf("%d bytes of %d: %v", len(b), need, err)
			}
			return
		}
		again := r.Append(nil, socklndOrder(order))
		if len(again) != need || !r.NID.IsAny() && !bytes.Equal(again, b[:need]) {
			t.Fatalf("%x became %x", b[:need], again)
		}
		r2, order2, err := lnet.DecodeAcceptorRequest(again)
		if err != nil || r2 != r || order2 != order {
			t.Fatalf("%+v became %+v (%v)", r, r2, err)
		}
	})
}
