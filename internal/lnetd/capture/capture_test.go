package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// fake is a Source.
type fake struct {
	see     func(*node.Captured)
	stopped bool
}

func (f *fake) Capture(see func(*node.Captured)) (stop func(), _ error) {
	f.see = see
	return func() { f.stopped = true }, nil
}

func nid(s string) lnet.NID {
	n, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return n
}

// message returns a message between two NIDs.
func message(e node.CaptureEvent, t lnet.MsgType, src, dest string, payload []byte) *node.Captured {
	m := &node.Captured{Event: e, Payload: memory.Of(payload), Header: lnet.Header{
		Type: t, Src: nid(src), Dest: nid(dest), SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre, PayloadLength: uint32(len(payload)),
		Handle: lnet.Handle{Interface: 1, Object: 2},
	}}
	m.NI, m.Neighbour = m.Header.Src, m.Header.Dest
	if e == node.CaptureReceived {
		m.NI, m.Neighbour = m.Neighbour, m.NI
	}
	return m
}

func start(t *testing.T, f Filter) (*fake, *Capture) {
	t.Helper()
	from := new(fake)
	c, err := Start(t.Context(), from, f, "test")
	if err != nil {
		t.Fatal(err)
	}
	return from, c
}

// block is a block of pcapng.
type block struct {
	kind uint32
	body []byte
}

func blocksOf(t *testing.T, b []byte) (all []block) {
	t.Helper()
	for len(b) > 0 {
		kind, n := le.Uint32(b), int(le.Uint32(b[4:]))
		if n%4 != 0 || n > len(b) || int(le.Uint32(b[n-4:])) != n {
			t.Fatalf("block %d of %d bytes in %d bytes", kind, n, len(b))
		}
		all = append(all, block{kind, b[8 : n-4]})
		b = b[n:]
	}
	return all
}

func read(t *testing.T, c *Capture) []byte {
	t.Helper()
	b, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b)
}

// option returns an option of a block whose options begin at an offset.
func (b *block) option(at int, kind uint16) []byte {
	for o := b.body[at:]; len(o) >= 4; {
		n := int(le.Uint16(o[2:]))
		if le.Uint16(o) == kind {
			return o[4 : 4+n]
		}
		o = o[4+(n+3)/4*4:]
	}
	return nil
}

// statistics returns the numbers of messages at the end of a capture: selected ones, and those that were left out.
func statistics(t *testing.T, b []byte) (received, dropped uint64) {
	t.Helper()
	all := blocksOf(t, b)
	if len(all) != 1 || all[0].kind != blockStatistics {
		t.Fatalf("no statistics: %v", all)
	}
	return le.Uint64(all[0].option(12, optReceived)), le.Uint64(all[0].option(12, optDropped))
}

// TestSlowReader: given a reader that does not read, when more messages are captured than there is room for, then the
// memory stays the same, and the next packet and the statistics say how many are missing.
func TestSlowReader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	from := new(fake)
	c, err := Start(ctx, from, Filter{Payload: 4096}, "test")
	if err != nil {
		t.Fatal(err)
	}
	m := message(node.CaptureSent, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp", make([]byte, 4096))
	const sent = 1000
	for range sent {
		from.see(m)
	}
	first := blocksOf(t, read(t, c))
	kept := 0
	for k := range first {
		if first[k].kind == blockPacket {
			kept++
		}
	}
	from.see(m)
	second := blocksOf(t, read(t, c))
	if len(second) != 1 {
		t.Fatalf("%d blocks", len(second))
	}
	length := int(le.Uint32(second[0].body[12:]))
	lost := second[0].option(20+(length+3)/4*4, optPacketDropCount)
	if kept < 200 || kept >= sent || lost == nil || le.Uint64(lost) != uint64(sent-kept) {
		t.Errorf("%d of %d are kept, and %v are reported as lost", kept, sent, lost)
	}
	c.end()
	if received, dropped := statistics(t, read(t, c)); received != sent+1 || dropped != uint64(sent-kept) {
		t.Errorf("statistics: %d, %d", received, dropped)
	}
	if _, err := c.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the request: %v", err)
	}
}

// TestInterrupted: given a capture whose request has ended, then the reader still gets its packets and the statistics.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	from := new(fake)
	c, err := Start(ctx, from, Filter{}, "test")
	if err != nil {
		t.Fatal(err)
	}
	from.see(message(node.CaptureSent, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp", nil))
	cancel()
	for _, want := range []uint32{blockSection, blockStatistics} {
		b, err := c.Next(ctx)
		if err != nil || le.Uint32(b) != want {
			t.Errorf("%x, %v; want block %x", b, err, want)
		}
	}
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: %v", err)
	}
}

// TestLimits: given a count and a duration, then the capture ends when the first of them is reached, and its source is
// not asked any more when the request is over.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := message(node.CaptureSent, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp", nil)
		ctx, cancel := context.WithCancel(t.Context())
		from := new(fake)
		c, err := Start(ctx, from, Filter{Count: 3, Duration: time.Minute}, "test")
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			from.see(m)
		}
		if n := len(blocksOf(t, read(t, c))); n != 3+3 {
			t.Errorf("%d blocks", n)
		}
		if received, dropped := statistics(t, read(t, c)); received != 3 || dropped != 0 {
			t.Errorf("statistics: %d, %d", received, dropped)
		}
		cancel()
		synctest.Wait()
		if !from.stopped {
			t.Error("the source goes on")
		}

		from, c = start(t, Filter{Count: 3, Duration: time.Minute})
		read(t, c)
		begin := time.Now()
		if received, dropped := statistics(t, read(t, c)); received != 0 || dropped != 0 || time.Since(begin) != time.Minute || !from.stopped {
			t.Errorf("after %v: %d, %d", time.Since(begin), received, dropped)
		}
	})
}

// TestFilter checks which messages filters select.
func TestFilter(t *testing.T) {
	put := message(node.CaptureSent, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp", nil)
	put.Header.Portal = 26
	ack := message(node.CaptureReceived, lnet.MsgAck, "10.0.0.2@tcp", "10.0.0.1@tcp", nil)
	routed := message(node.CaptureSent, lnet.MsgGet, "10.0.0.1@tcp", "7@gni", nil)
	routed.Neighbour = nid("10.0.0.7@tcp")
	large := message(node.CaptureDropped, lnet.MsgReply, "fd00::1@tcp", "fd00::2@tcp", nil)
	all := map[string]*node.Captured{"put": put, "ack": ack, "routed": routed, "large": large}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "ack large put routed"},
		{Options{NIDs: "10.0.0.2@tcp"}, "ack put"},
		{Options{NIDs: "10.0.0.7@tcp"}, "routed"},
		{Options{NIDs: "10.0.0.[2,7]@tcp,fd00::1@tcp"}, "ack large put routed"},
		{Options{NIDs: "10.0.0.[3-6]@tcp"}, ""},
		{Options{NIDs: "7@gni"}, "routed"},
		{Options{Nets: "gni"}, "routed"},
		{Options{Nets: "o2ib,tcp1"}, ""},
		{Options{Portals: "26"}, "put"},
		{Options{Portals: "0,26"}, "put routed"},
		{Options{Types: "PUT,ack"}, "ack put"},
		{Options{Types: "put", Portals: "0"}, ""},
	} {
		f, err := ParseFilter(tt.o)
		if err != nil {
			t.Errorf("%+v: %v", tt.o, err)
		}
		var got []string
		for _, name := range []string{"ack", "large", "put", "routed"} {
			if f.matches(all[name]) {
				got = append(got, name)
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%+v selects %q, want %q", tt.o, s, tt.want)
		}
	}
}

// TestInvalidFilters checks that each part of a filter is validated, and that the error names it.
func TestInvalidFilters(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{NIDs: "x"}, "nid"},
		{Options{NIDs: "10.0.0.1@tcp,"}, "nid"},
		{Options{NIDs: ","}, "nid"},
		{Options{NIDs: "10.0.0.1@tcp,,10.0.0.2@tcp"}, "nid"},
		{Options{NIDs: "10.0.0.[1,2]@tcp,10.0.0.3@tcp"}, ""},
		{Options{Nets: ","}, "net"},
		{Options{Portals: ",1"}, "portal"},
		{Options{Types: ","}, "type"},
		{Options{NIDs: "10.0.0.[1@tcp"}, "nid"},
		{Options{NIDs: "tcp"}, "nid"},
		{Options{NIDs: strings.Repeat("10.0.0.1@tcp,", 65)}, "nid"},
		{Options{Nets: "10.0.0.1@tcp"}, "net"},
		{Options{Portals: "64"}, "portal"},
		{Options{Portals: "-1"}, "portal"},
		{Options{Types: "hello"}, "type"},
		{Options{Types: "put;get"}, "type"},
		{Options{Payload: "65537"}, "payload"},
		{Options{Payload: "1e3"}, "payload"},
		{Options{Count: "0"}, "count"},
		{Options{Count: "99999999999999999999"}, "count"},
		{Options{Duration: "10"}, "duration"},
		{Options{Duration: "-1s"}, "duration"},
		{Options{NIDs: strings.Repeat("[", 5000)}, "nid"},
	} {
		_, err := ParseFilter(tt.o)
		var e *OptionError
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &e) || e.Option != tt.want) {
			t.Errorf("%+v: %v, want an error about %q", tt.o, err, tt.want)
		}
	}
}

// TestTsharkDecodes: given messages of all types between NIDs of all forms, whole and as headers only, then tshark
// decodes each packet with our dissector, and shows their NIDs, directions and reasons.
func TestTsharkDecodes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs tshark")
	}
	testenv.NeedCommand(t, "tshark", "tshark")
	for _, payload := range []int{0, 8, 4096} {
		var want []string
		from, c := start(t, Filter{Payload: payload})
		see := func(m *node.Captured, direction, comment string) {
			from.see(m)
			h := &m.Header
			want = append(want, fmt.Sprintf("%d\t%s\t%s\t%d\t%s\t%s", h.Type, h.Src, h.Dest, h.PayloadLength, direction, comment))
		}
		for _, pair := range [][2]string{
			{"10.0.0.1@tcp", "10.0.0.2@tcp"}, {"10.0.0.1@o2ib3", "10.0.0.2@o2ib3"}, {"5@gni", "7@gni2"},
			{"fd00::1@tcp", "fd00::2@tcp"}, {"10.0.0.1@tcp", "fd00::2@tcp1"}, {"0@lo", "0@lo"},
		} {
			for _, m := range []struct {
				typ    lnet.MsgType
				length int
			}{{lnet.MsgPut, 100}, {lnet.MsgAck, 0}, {lnet.MsgGet, 0}, {lnet.MsgReply, 4097}} {
				data := bytes.Repeat([]byte{0xc1}, m.length) // like the beginning of frames
				see(message(node.CaptureSent, m.typ, pair[0], pair[1], data), "0x00000002", "")
				see(message(node.CaptureReceived, m.typ, pair[1], pair[0], data), "0x00000001", "")
			}
		}
		drop := message(node.CaptureDropped, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp", nil)
		drop.Header.PayloadLength, drop.Reason = 1<<20, node.DropNoMatch
		see(drop, "", "dropped: no_match")
		failed := message(node.CaptureFailed, lnet.MsgGet, "10.0.0.1@tcp", "10.0.0.2@tcp", nil)
		failed.Err = errors.New("no route")
		see(failed, "0x00000002", "not sent: no route")
		forwarded := message(node.CaptureSent, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp1", nil)
		forwarded.Forwarded, forwarded.Neighbour = true, nid("10.0.0.7@tcp1")
		see(forwarded, "0x00000002", "forwarded, next hop 10.0.0.7@tcp1")
		arrived := message(node.CaptureReceived, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp1", nil)
		arrived.Forwarded, arrived.Neighbour = true, nid("10.0.0.8@tcp")
		see(arrived, "0x00000001", "to be forwarded, arrived from 10.0.0.8@tcp")
		c.end()
		file := read(t, c)
		file = append(file, read(t, c)...)
		got := tshark(t, file)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("payload %d: (-want +got):\n%s", payload, diff)
		}
	}
}

// tshark decodes a capture and returns one line of fields for each packet.
func tshark(t *testing.T, file []byte) []string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "c.pcapng")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	lua, err := filepath.Abs("../../../deploy/wireshark/lnet.lua")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-X", "lua_script:" + lua, "-r", path, "-T", "fields"}
	for _, f := range []string{"lnetmsg.type", "lnetmsg.src_nid", "lnetmsg.dest_nid", "lnetmsg.payload_length", "frame.packet_flags", "frame.comment", "lnetmsg.malformed", "socklnd.malformed"} {
		args = append(args, "-e", f)
	}
	var stderr bytes.Buffer
	cmd := exec.Command("tshark", args...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, &stderr)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\t\t"))
	}
	return lines
}

// BenchmarkSee measures what a captured message costs.
func BenchmarkSee(b *testing.B) {
	from := new(fake)
	c, err := Start(b.Context(), from, Filter{Payload: 128}, "test")
	if err != nil {
		b.Fatal(err)
	}
	m := message(node.CaptureSent, lnet.MsgPut, "10.0.0.1@tcp", "10.0.0.2@tcp", make([]byte, 4096))
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		if from.see(m); k%1000 == 0 {
			if _, err := c.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if binary.LittleEndian.Uint32(c.filled) == 0 {
		b.Error("nothing was recorded")
	}
}
