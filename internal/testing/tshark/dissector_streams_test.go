//go:build !race

package tshark

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// write writes the capture to a file and returns its path.
func (c *capture) write(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "streams.pcap")
	if err := os.WriteFile(path, c.file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// addInPieces adds a stream in segments of size bytes.
func (c *capture) addInPieces(stream int, b []byte, size int) {
	s := c.open(stream)
	for piece := range slices.Chunk(b, size) {
		s.send(piece)
	}
}

// conversation returns the stream of a side that sends everything that socklnd knows: a request, a HELLO, NOOPs, and
// messages of all types, among them pings, REPLYs with ping info, and pushes.
func conversation(t testing.TB, v protocol.Version, order binary.AppendByteOrder) []byte {
	t.Helper()
	hello := protocol.Hello{
		Version: v, Src: nid(t, "10.9.8.7@tcp513"), Dst: nid(t, "192.168.1.20@tcp3"), SrcPID: lnet.PIDLustre, DstPID: 7,
		SrcIncarnation: 0x0102030405060708, DstIncarnation: 0x1112131415161718, Type: protocol.BulkOut,
	}
	if v == protocol.V2 || v == protocol.V1 {
		hello.IPs = []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.1.2.4")}
	}
	if v == protocol.V4 {
		hello.Src, hello.Dst = nid(t, "2001:db8::10@tcp"), nid(t, "2001:db8:0:1::20@tcp")
	}
	if v == protocol.V1 {
		hello.Dst, hello.DstPID, hello.DstIncarnation = lnet.NID{}, 0, 0
	}
	b, err := hello.Append(lnet.AcceptorRequest{NID: hello.Src}.Append(nil, order), order)
	if err != nil {
		t.Fatal(err)
	}
	frame := func(f protocol.Frame) {
		if v.Framed() {
			b = f.Append(b, order)
		}
	}
	message := func(f protocol.Frame, h lnet.Header, payload []byte) {
		frame(f)
		h.PayloadLength = uint32(len(payload))
		if b, err = v.AppendHeader(b, &h); err != nil {
			t.Fatal(err)
		}
		b = append(b, payload...)
	}
	sent := distinctive(t)
	ping := &sent[6].header
	ping.Handle = lnet.Handle{Interface: 0xd1d2d3d4d5d6d7d8, Object: 0xe1e2e3e4e5e6e7e8}
	for _, m := range sent {
		if v == protocol.V4 {
			m.header.Src = hello.Src
		}
		message(m.frame, m.header, bytes.Repeat([]byte{0x5a}, min(int(m.header.PayloadLength), 5000)))
	}
	for _, ack := range []protocol.Frame{{Ack: 1}, {Ack: 7}, {Request: 9, Ack: 5}, {Request: 5, Ack: 9}, {}} {
		if ack.Type = protocol.FrameNoop; v.Framed() {
			frame(ack)
		}
	}
	info := lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatMultiRail | lnet.FeatLargeAddr, PID: lnet.PIDLustre, Seq: 0x51525354,
		NIs: []lnet.PingNI{
			{NID: nid(t, "10.9.8.7@tcp513"), Status: lnet.StatusUp}, {NID: nid(t, "17@kfi2"), Status: lnet.StatusDown},
			{NID: nid(t, "2001:db8::10@tcp"), Status: lnet.StatusUp},
		},
	}
	reply := lnet.Header{Dest: ping.Src, Src: ping.Dest, Type: lnet.MsgReply, Handle: ping.Handle}
	push := lnet.Header{Dest: ping.Dest, Src: ping.Src, Type: lnet.MsgPut, Handle: lnet.NoHandle, MatchBits: lnet.PingMatchBits}
	message(protocol.Frame{Type: protocol.FrameLNet}, reply, info.Append(nil, order))
	message(protocol.Frame{Type: protocol.FrameLNet}, push, info.Append(nil, order))
	return b
}

// The dissector decodes all versions in both byte orders, however the messages are cut into segments.
func TestDissectorOnStreams(t *testing.T) {
	c := newCapture()
	var want [][]item
	add := func(v protocol.Version, order binary.AppendByteOrder, size int, start bool) {
		b := conversation(t, v, order)
		units, err := recording.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		pings := asked{}
		for i := range units {
			pings.add(&units[i])
		}
		if !start {
			b, units = b[units[2].Offset:], units[2:]
		}
		var items []item
		for i := range units {
			items = append(items, unitItems(t, &units[i], &pings)...)
		}
		c.addInPieces(len(want), b, size)
		want = append(want, items)
	}
	for v := protocol.V1; v <= protocol.V4; v++ {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, size := range []int{segmentSize, 97, 1 << 20} {
				add(v, order, size, true)
			}
		}
	}
	for v := protocol.V2; v <= protocol.V4; v++ {
		add(v, binary.LittleEndian, segmentSize, false) // recorded from after the HELLO
	}
	got := make([][]item, len(want))
	for _, p := range show(t, c.write(t)) {
		stream := c.streamOf[p.number-1]
		got[stream] = append(got[stream], p.items...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("our decoding (-) and the dissector's (+):\n%s", diff)
	}
}

// damaged returns b with some bytes changed, some of them to values at the limits of lengths.
func damaged(r *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range r.IntN(8) {
		if len(b) > 0 {
			b[r.IntN(len(b))] = [...]byte{0, 0xff, 0x7f, byte(r.Uint32())}[r.IntN(4)]
		}
	}
	return b
}

// addPackets adds the packets of a recording, each changed by change, which returns the bytes in the file.
func (c *capture) addPackets(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if file, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	le := binary.LittleEndian
	for at := 24; at+16 <= len(file); {
		size := int(le.Uint32(file[at+8:]))
		p := change(file[at+16 : at+16+size])
		c.file = append(c.file, file[at:at+8]...)
		c.file = le.AppendUint32(c.file, uint32(len(p)))
		c.file = le.AppendUint32(c.file, uint32(size))
		c.file = append(c.file, p...)
		at += 16 + size
	}
}

// Neither random bytes nor damaged, cut or missing packets cause an error in Lua.
func TestDissectorOnDamagedStreams(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	c := newCapture()
	stream := 0
	add := func(b []byte) {
		c.addInPieces(stream, b, 100+r.IntN(segmentSize))
		stream++
	}
	for v := protocol.V1; v <= protocol.V4; v++ {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			whole := conversation(t, v, order)
			units, err := recording.Parse(whole)
			if err != nil {
				t.Fatal(err)
			}
			for i := range units {
				u := &units[i]
				start := whole[:units[2].Offset]
				add(damaged(r, append(slices.Clone(start), u.Raw...)))
				add(damaged(r, u.Raw))
				add(u.Raw[:r.IntN(len(u.Raw))])
				add(append(slices.Clone(start), random(100)...))
			}
			add(damaged(r, whole))
		}
	}
	for _, m := range distinctiveIB(t) {
		b, err := m.Append(nil, binary.LittleEndian)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			c.sendRoCE(1, damaged(r, b), 16+r.IntN(200), uint32(n*1000))
		}
	}
	for range 50 {
		add(random(r.IntN(300)))
		c.sendRoCE(2, append([]byte{0x91, 0x1b, 0xe9, 0x0b, 0x12, 0}, random(r.IntN(300))...), 1024, 0)
	}
	for _, name := range []string{"a-tcp-ping-discovery-on", "j-ipv6-large-nid", "k-o2ib-rxe-ping-4k", "o2-o2ib-credits-mismatch"} {
		path := recorded(t, name)
		c.addPackets(t, path, func(p []byte) []byte { return p[:min(len(p), 96)] })
		for range 2 {
			c.addPackets(t, path, func(p []byte) []byte { return append(slices.Clone(p[:54]), damaged(r, p[54:])...) })
			c.addPackets(t, path, func(p []byte) []byte { return p[:r.IntN(len(p))] })
		}
	}
	_, out := showAnything(t, c.write(t))
	malformed := bytes.Count(out, []byte(`.malformed"`))
	t.Logf("%d streams, %d items are malformed", stream, malformed)
	if malformed == 0 {
		t.Error("nothing is malformed")
	}
}
