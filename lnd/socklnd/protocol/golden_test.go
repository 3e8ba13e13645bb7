package protocol

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// The two nodes of the worked examples (socklnd 21).
const (
	incarnationA = 0x17f1a2b3c4d5e6f7
	incarnationB = 0x17f1a2b3d0000001
)

var (
	nidA  = mustNID("192.168.1.10@tcp")
	nidB  = mustNID("192.168.1.20@tcp")
	nidA6 = mustNID("2001:db8::10@tcp")
	nidB6 = mustNID("2001:db8::20@tcp")
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

// helloAB is the HELLO from A to B (V3, CONTROL, LE), changed by edit.
func helloAB(edit func(*Hello)) Hello {
	h := Hello{
		Version: V3, Src: nidA, Dst: nidB, SrcPID: lnet.PIDLustre,
		SrcIncarnation: incarnationA, Type: Control,
	}
	if edit != nil {
		edit(&h)
	}
	return h
}

// answerBA is B's answer to it, changed by edit.
func answerBA(edit func(*Hello)) Hello {
	return helloAB(func(h *Hello) {
		h.Src, h.Dst, h.SrcIncarnation = nidB, nidA, incarnationB
		if edit != nil {
			edit(h)
		}
	})
}

var helloExamples = []struct {
	name      string
	bigEndian bool
	hello     Hello
	dump      string
}{
	{
		name:  "21.1 A opens CONTROL",
		hello: helloAB(nil),
		dump: `63 69 72 45 03 00 00 00 0a 01 a8 c0 00 00 02 00
			14 01 a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
			f7 e6 d5 c4 b3 a2 f1 17 00 00 00 00 00 00 00 00
			01 00 00 00 00 00 00 00`,
	},
	{
		name:  "21.1 B answers",
		hello: answerBA(nil),
		dump: `63 69 72 45 03 00 00 00 14 01 a8 c0 00 00 02 00
			0a 01 a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
			01 00 00 d0 b3 a2 f1 17 00 00 00 00 00 00 00 00
			01 00 00 00 00 00 00 00`,
	},
	{
		name:  "21.1 A opens BULK_IN",
		hello: helloAB(func(h *Hello) { h.Type = BulkIn }),
		dump: `63 69 72 45 03 00 00 00 0a 01 a8 c0 00 00 02 00
			14 01 a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
			f7 e6 d5 c4 b3 a2 f1 17 00 00 00 00 00 00 00 00
			02 00 00 00 00 00 00 00`,
	},
	{
		name:  "21.1 B answers BULK_OUT",
		hello: answerBA(func(h *Hello) { h.Type = BulkOut }),
		dump: `63 69 72 45 03 00 00 00 14 01 a8 c0 00 00 02 00
			0a 01 a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
			01 00 00 d0 b3 a2 f1 17 00 00 00 00 00 00 00 00
			03 00 00 00 00 00 00 00`,
	},
	{
		name:  "21.1 B refuses",
		hello: answerBA(func(h *Hello) { h.Type = None }),
		dump: `63 69 72 45 03 00 00 00 14 01 a8 c0 00 00 02 00
			0a 01 a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
			01 00 00 d0 b3 a2 f1 17 00 00 00 00 00 00 00 00
			ff ff ff ff 00 00 00 00`,
	},
	{
		name:  "21.1 B does not understand the version",
		hello: answerBA(func(h *Hello) { h.Dst, h.Type = nidB, None }),
		dump: `63 69 72 45 03 00 00 00 14 01 a8 c0 00 00 02 00
			14 01 a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
			01 00 00 d0 b3 a2 f1 17 00 00 00 00 00 00 00 00
			ff ff ff ff 00 00 00 00`,
	},
	{
		name:      "21.2 V3 from a big-endian A",
		bigEndian: true,
		hello:     helloAB(nil),
		dump: `45 72 69 63 00 00 00 03 00 02 00 00 c0 a8 01 0a
			00 02 00 00 c0 a8 01 14 00 00 30 39 00 00 00 00
			17 f1 a2 b3 c4 d5 e6 f7 00 00 00 00 00 00 00 00
			00 00 00 01 00 00 00 00`,
	},
	{
		name: "21.2 V2 with bonded addresses",
		hello: helloAB(func(h *Hello) {
			h.Version = V2
			h.IPs = []netip.Addr{netip.MustParseAddr("192.168.1.10"), netip.MustParseAddr("192.168.2.10")}
		}),
		dump: `63 69 72 45 02 00 00 00 0a 01 a8 c0 00 00 02 00
			14 01 a8 c0 00 00 02 00 39 30 00 00 00 00 00 00
			f7 e6 d5 c4 b3 a2 f1 17 00 00 00 00 00 00 00 00
			01 00 00 00 02 00 00 00 0a 01 a8 c0 0a 02 a8 c0`,
	},
	{
		name:  "21.2 V1",
		hello: helloAB(func(h *Hello) { h.Version, h.Dst = V1, lnet.NID{} }),
		dump: `ed 0d bc ee 01 00 00 00 0a 01 a8 c0 00 00 02 00
			00 00 00 00 39 30 00 00 04 00 00 00 00 00 00 00
			f7 e6 d5 c4 b3 a2 f1 17 01 00 00 00 00 00 00 00
			00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
			00 00 00 00 00 00 00 00`,
	},
	{
		name:  "21.2 V4",
		hello: helloAB(func(h *Hello) { h.Version, h.Src, h.Dst = V4, nidA6, nidB6 }),
		dump: `63 69 72 45 04 00 00 00 0c 02 00 00 20 01 0d b8
			00 00 00 00 00 00 00 00 00 00 00 10 0c 02 00 00
			20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 20
			39 30 00 00 00 00 00 00 f7 e6 d5 c4 b3 a2 f1 17
			00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00`,
	},
}

// The LNet messages of 21.4. "hello LNet" is the payload of the PUTs.
var (
	headerPing = lnet.Header{
		Dest: nidB, Src: nidA, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Type: lnet.MsgGet, Handle: lnet.Handle{Interface: 0x17f1a2b300000001, Object: 0x11d},
		MatchBits: lnet.PingMatchBits, Length: 272,
	}
	headerPut = lnet.Header{
		Dest: nidB, Src: nidA, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Type: lnet.MsgPut, PayloadLength: 10, Handle: lnet.NoHandle,
		MatchBits: 0x0123456789abcdef, Portal: 26,
	}
)

var messageExamples = []struct {
	name    string
	version Version
	frame   Frame
	header  lnet.Header
	payload string
	dump    string
}{
	{
		name: "V3 ping", version: V3, frame: Frame{Type: FrameLNet}, header: headerPing,
		dump: `c1 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
			00 00 00 00 00 00 00 00 14 01 a8 c0 00 00 02 00
			0a 01 a8 c0 00 00 02 00 39 30 00 00 39 30 00 00
			02 00 00 00 00 00 00 00 01 00 00 00 b3 a2 f1 17
			1d 01 00 00 00 00 00 00 00 00 00 00 00 00 00 80
			00 00 00 00 00 00 00 00 10 01 00 00 00 00 00 00`,
	},
	{
		name: "V3 PUT with a piggybacked acknowledgement", version: V3,
		frame: Frame{Type: FrameLNet, Ack: 9}, header: headerPut, payload: "hello LNet",
		dump: `c1 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
			09 00 00 00 00 00 00 00 14 01 a8 c0 00 00 02 00
			0a 01 a8 c0 00 00 02 00 39 30 00 00 39 30 00 00
			01 00 00 00 0a 00 00 00 ff ff ff ff ff ff ff ff
			ff ff ff ff ff ff ff ff ef cd ab 89 67 45 23 01
			00 00 00 00 00 00 00 00 1a 00 00 00 00 00 00 00
			68 65 6c 6c 6f 20 4c 4e 65 74`,
	},
	{
		name: "V2 PUT with checksum", version: V2,
		frame: Frame{Type: FrameLNet, Checksum: 0x17e1b043}, header: headerPut, payload: "hello LNet",
		dump: `c1 00 00 00 43 b0 e1 17 00 00 00 00 00 00 00 00
			00 00 00 00 00 00 00 00 14 01 a8 c0 00 00 02 00
			0a 01 a8 c0 00 00 02 00 39 30 00 00 39 30 00 00
			01 00 00 00 0a 00 00 00 ff ff ff ff ff ff ff ff
			ff ff ff ff ff ff ff ff ef cd ab 89 67 45 23 01
			00 00 00 00 00 00 00 00 1a 00 00 00 00 00 00 00
			68 65 6c 6c 6f 20 4c 4e 65 74`,
	},
	{
		name: "V1 PUT", version: V1, header: headerPut, payload: "hello LNet",
		dump: `14 01 a8 c0 00 00 02 00
			0a 01 a8 c0 00 00 02 00 39 30 00 00 39 30 00 00
			01 00 00 00 0a 00 00 00 ff ff ff ff ff ff ff ff
			ff ff ff ff ff ff ff ff ef cd ab 89 67 45 23 01
			00 00 00 00 00 00 00 00 1a 00 00 00 00 00 00 00
			68 65 6c 6c 6f 20 4c 4e 65 74`,
	},
	{
		name: "V4 ping", version: V4, frame: Frame{Type: FrameLNet},
		header: func() lnet.Header {
			h := headerPing
			h.Dest, h.Src = nidB6, nidA6
			return h
		}(),
		dump: `c1 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
			00 00 00 00 00 00 00 00 0c 02 00 00 20 01 0d b8
			00 00 00 00 00 00 00 00 00 00 00 20 0c 02 00 00
			20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10
			39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
			01 00 00 00 b3 a2 f1 17 1d 01 00 00 00 00 00 00
			00 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00
			10 01 00 00 00 00 00 00`,
	},
}
