package tshark

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

func nid(t testing.TB, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// message is a message that a test sends.
type message struct {
	name   string
	frame  protocol.Frame
	header lnet.Header
}

// distinctive returns messages of all types. No two fields of a message have the same value, and no value
// is the same when its bytes are reversed.
func distinctive(t testing.TB) []message {
	handle := lnet.Handle{Interface: 0x0102030405060708, Object: 0x1112131415161718}
	const matchBits, hdrData = 0x2122232425262728, 0x3132333435363738
	header := func(h lnet.Header) lnet.Header {
		h.Dest, h.Src = nid(t, "192.168.1.20@tcp3"), nid(t, "10.9.8.7@tcp513")
		h.DestPID, h.SrcPID = 0x41424344, 0x51525354
		return h
	}
	plain := protocol.Frame{Type: protocol.FrameLNet}
	return []message{
		{"ACK", plain, header(lnet.Header{
			Type: lnet.MsgAck, Handle: handle, MatchBits: matchBits, Length: 0x61626364,
		})},
		{"PUT", plain, header(lnet.Header{
			Type: lnet.MsgPut, PayloadLength: 3000, Handle: handle, MatchBits: matchBits,
			HdrData: hdrData, Portal: 0x71, Offset: 0x81828384,
		})},
		{"PUT without ACK or payload", plain, header(lnet.Header{
			Type: lnet.MsgPut, Handle: lnet.NoHandle, MatchBits: 1, Portal: 63,
		})},
		{"GET", plain, header(lnet.Header{
			Type: lnet.MsgGet, Handle: handle, MatchBits: matchBits, Portal: 0x71,
			Offset: 0x81828384, Length: 0x91929394,
		})},
		{"REPLY", plain, header(lnet.Header{
			Type: lnet.MsgReply, PayloadLength: 1, Handle: handle,
		})},
		{"largest REPLY, zero-copy", protocol.Frame{Type: protocol.FrameLNet, Request: 0xa1a2a3a4a5a6a7a8},
			header(lnet.Header{Type: lnet.MsgReply, PayloadLength: lnet.MTU, Handle: handle})},
		{"GET with cookies", protocol.Frame{
			Type: protocol.FrameLNet, Request: 0xa1a2a3a4a5a6a7a8, Ack: 0xb1b2b3b4b5b6b7b8,
		}, header(lnet.Header{
			Type: lnet.MsgGet, Handle: handle, MatchBits: lnet.PingMatchBits, Length: 272,
		})},
		{"PUT with checksum", protocol.Frame{Type: protocol.FrameLNet, Checksum: 0xc1c2c3c4},
			header(lnet.Header{
				Type: lnet.MsgPut, PayloadLength: 160, Handle: lnet.NoHandle, MatchBits: 12, Portal: 50,
			})},
		{"routed ACK", plain, lnet.Header{
			Dest: nid(t, "172.16.3.4@o2ib7"), Src: nid(t, "10.9.8.7@tcp"),
			DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
			Type: lnet.MsgAck, Handle: handle, MatchBits: matchBits, Length: 48,
		}},
	}
}

func (m *message) append(t testing.TB, b []byte) []byte {
	t.Helper()
	b = m.frame.Append(b, binary.LittleEndian)
	b, err := m.header.AppendNID4(b)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, m.header.PayloadLength)...)
}

// tshark decodes the same values that we encoded, however the messages are cut into segments.
func TestEncodersAgainstTshark(t *testing.T) {
	var (
		streams []Stream
		want    [][]Message
		row     []byte
		rowWant []Message
	)
	for _, m := range distinctive(t) {
		one := m.append(t, nil)
		meant := []Message{{Size: len(one), Frame: m.frame, Header: m.header}}
		streams, want = append(streams, Stream{Name: m.name, Bytes: one}), append(want, meant)
		row, rowWant = append(row, one...), append(rowWant, meant...)
	}
	streams, want = append(streams, Stream{Name: "all in a row", Bytes: row}), append(want, rowWant)

	for i, got := range Decode(t, streams...) {
		t.Run(streams[i].Name, func(t *testing.T) {
			if diff := cmp.Diff(want[i], got, equalNIDs); diff != "" {
				t.Errorf("meant (-) and seen by tshark (+):\n%s", diff)
			}
		})
	}
	if c := Check(t, streams...); c.Compared != 2*len(rowWant) || len(c.NotShown) != 0 {
		t.Errorf("compared %+v", c)
	}
}

// tshark and our decoder also agree about the messages that kernels sent.
func TestRecordingsAgainstTshark(t *testing.T) {
	for _, name := range []string{"a-tcp-ping-discovery-on", "e-lst-brw-write-1m", "i-routed-tcp-tcp1"} {
		t.Run(name, func(t *testing.T) {
			rec, err := recording.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			var streams []Stream
			messages := 0
			for _, c := range rec.Conversations {
				for _, side := range []recording.Side{recording.Active, recording.Passive} {
					streams = append(streams, Stream{Name: c.Addrs[side].String(), Bytes: c.Stream(side)})
				}
				units, err := c.Units()
				if err != nil {
					t.Fatal(err)
				}
				for i := range units {
					if units[i].Kind == recording.KindMessage {
						messages++
					}
				}
			}
			if c := Check(t, streams...); c.Compared != messages {
				t.Errorf("compared %+v, want %d messages", c, messages)
			}
		})
	}
}

// Units that tshark cannot decode are counted.
func TestCheckCountsWhatIsNotShown(t *testing.T) {
	a, b := nid(t, "10.0.0.1@tcp"), nid(t, "10.0.0.2@tcp")
	get := message{frame: protocol.Frame{Type: protocol.FrameLNet}, header: lnet.Header{
		Dest: b, Src: a, Type: lnet.MsgGet, Handle: lnet.Handle{Interface: 1, Object: 2}, Length: 272,
	}}
	noop := protocol.Frame{Type: protocol.FrameNoop, Ack: 2}
	start := func(v protocol.Version) []byte {
		hello := protocol.Hello{Version: v, Src: a, Dst: b, Type: protocol.Control}
		s, err := hello.Append(lnet.AcceptorRequest{NID: b}.Append(nil, binary.LittleEndian), binary.LittleEndian)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	v3 := get.append(t, noop.Append(get.append(t, start(protocol.V3)), binary.LittleEndian))
	cut := v3[:len(v3)-10]
	v4 := get.header.AppendNID16(get.frame.Append(start(protocol.V4), binary.LittleEndian))

	got := Check(t, Stream{"V3", v3}, Stream{"cut short", cut}, Stream{"V4", v4})
	want := Checked{Compared: 3, NotShown: map[string]int{"CONNREQ": 3, "HELLO": 3, "NOOP": 2, "GET v4": 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
