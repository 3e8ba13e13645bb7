package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// stream returns the bytes that an active side of the given version and byte order sends: an acceptor
// request, a HELLO, a NOOP (not in V1) and a PUT of 5 bytes.
func stream(t testing.TB, v protocol.Version, order anyOrder) []byte {
	t.Helper()
	src, dst := nid(t, "10.0.0.1@tcp"), nid(t, "10.0.0.2@tcp")
	b := lnet.AcceptorRequest{NID: dst}.Append(nil, order)
	hello := protocol.Hello{Version: v, Src: src, Dst: dst, SrcPID: lnet.PIDLustre, Type: protocol.Control}
	b, err := hello.Append(b, order)
	if err != nil {
		t.Fatal(err)
	}
	if v.Framed() {
		noop := protocol.Frame{Type: protocol.FrameNoop, Ack: 2}
		b = noop.Append(b, order)
		message := protocol.Frame{Type: protocol.FrameLNet, Request: 9}
		b = message.Append(b, order)
	}
	put := lnet.Header{Dest: dst, Src: src, Type: lnet.MsgPut, PayloadLength: 5, Handle: lnet.NoHandle, Portal: 3}
	if b, err = v.AppendHeader(b, &put); err != nil {
		t.Fatal(err)
	}
	return append(b, "hello"...)
}

func names(units []Unit) []string {
	var s []string
	for i := range units {
		s = append(s, units[i].Name())
	}
	return s
}

func TestParseEveryVersionAndOrder(t *testing.T) {
	for _, v := range []protocol.Version{protocol.V1, protocol.V2, protocol.V3, protocol.V4} {
		for _, order := range []anyOrder{binary.LittleEndian, binary.BigEndian} {
			t.Run(v.String()+" "+order.String(), func(t *testing.T) {
				units, err := Parse(stream(t, v, order))
				if err != nil {
					t.Fatal(err)
				}
				want := []string{"CONNREQ", "HELLO", "NOOP", "PUT"}
				if v == protocol.V1 {
					want = []string{"CONNREQ", "HELLO", "PUT"}
				}
				if diff := cmp.Diff(want, names(units)); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
				last := units[len(units)-1]
				if string(last.Payload) != "hello" || last.Header.Portal != 3 || last.Version != v {
					t.Errorf("PUT %+v", last)
				}
			})
		}
	}
}

func TestParseWithoutWhatPrecedes(t *testing.T) {
	whole := stream(t, protocol.V3, binary.LittleEndian)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  []string
	}{
		{"nothing", nil, nil},
		{"HELLO first", whole[16:], []string{"HELLO", "NOOP", "PUT"}},
		{"frame first", whole[16+56:], []string{"NOOP", "PUT"}},
		{"big-endian frame first", stream(t, protocol.V3, binary.BigEndian)[16+56:], []string{"NOOP", "PUT"}},
		{"refusal of a request", lnet.AppendAcceptorRefusal(nil, binary.LittleEndian), []string{"CONNREQ"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			units, err := Parse(c.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(units)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// If a stream is cut, Parse returns the units before the cut, and an error unless the cut is between two
// units.
func TestParseCutAtEveryByte(t *testing.T) {
	for _, v := range []protocol.Version{protocol.V1, protocol.V3, protocol.V4} {
		whole := stream(t, v, binary.LittleEndian)
		all, err := Parse(whole)
		if err != nil {
			t.Fatal(err)
		}
		boundary, n := 0, 0
		for end := range whole {
			if n < len(all) && end == all[n].Offset+len(all[n].Raw) {
				boundary, n = end, n+1
			}
			units, err := Parse(whole[:end])
			if len(units) != n {
				t.Errorf("%v cut at %d: %d units, want %d", v, end, len(units), n)
			}
			if end == boundary && err != nil || end != boundary && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v cut at %d: error %v", v, end, err)
			}
		}
	}
}

func TestParseRejects(t *testing.T) {
	whole := stream(t, protocol.V3, binary.LittleEndian)
	put := func(at int, with ...byte) []byte {
		b := bytes.Clone(whole)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		units int
	}{
		{"garbage", []byte("GET / HTTP/1.1"), 0},
		{"request of version 3", put(4, 3), 0},
		{"frame behind the request", append(bytes.Clone(whole[:16]), whole[72:]...), 1},
		{"HELLO of version 9", put(20, 9), 1},
		{"HELLO from the wildcard", put(24, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), 1},
		{"frame of type 0xc2", put(72, 0xc2), 2},
		{"message of type 7", put(72+24+24+24, 7), 3},
		{"payload of 2 GiB", put(72+24+24+28, 0, 0, 0, 0x80), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			units, err := Parse(c.bytes)
			if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("error %v", err)
			}
			if len(units) != c.units {
				t.Errorf("%d units, want %d", len(units), c.units)
			}
		})
	}
}
