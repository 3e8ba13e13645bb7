package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

var frameExamples = []struct {
	name      string
	bigEndian bool
	frame     Frame
	dump      string
}{
	{"keepalive", false, Frame{Type: FrameNoop, Ack: 1},
		`c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00`},
	{"ACK 2", false, Frame{Type: FrameNoop, Ack: 2},
		`c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00`},
	{"ACK 7 and 5", false, Frame{Type: FrameNoop, Request: 7, Ack: 5},
		`c0 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00`},
	{"ACK 5 to 9", false, Frame{Type: FrameNoop, Request: 5, Ack: 9},
		`c0 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 09 00 00 00 00 00 00 00`},
	{"V2 with checksum, ACK 2", false, Frame{Type: FrameNoop, Checksum: 0x757e3d7d, Ack: 2},
		`c0 00 00 00 7d 3d 7e 75 00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00`},
	{"big-endian, request 16", true, Frame{Type: FrameLNet, Request: 16},
		`00 00 00 c1 00 00 00 00 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 00`},
}

// socklnd 8.1 (1), 21 (2)
func TestFrameExamplesEncodeAndDecode(t *testing.T) {
	for _, c := range frameExamples {
		t.Run(c.name, func(t *testing.T) {
			wire, order := unhex(t, c.dump), orderOf(c.bigEndian)
			if got := c.frame.Append(nil, order); !bytes.Equal(got, wire) {
				t.Errorf("Append: %x, want %x", got, wire)
			}
			b := bytes.Repeat([]byte{0xaa}, FrameSize+1)
			c.frame.Put(b, order)
			if !bytes.Equal(b[:FrameSize], wire) || b[FrameSize] != 0xaa {
				t.Errorf("Put: %x, want %x and one byte untouched", b, wire)
			}
			var f Frame
			if err := f.Decode(wire, order); err != nil {
				t.Fatal(err)
			}
			if f != c.frame {
				t.Errorf("decoded %+v, want %+v", f, c.frame)
			}
		})
	}
}

func TestFrameTruncatedAtEveryByte(t *testing.T) {
	wire := unhex(t, frameExamples[3].dump)
	for n := range wire {
		f := Frame{Type: FrameNoop, Ack: 99}
		if err := f.Decode(wire[:n], binary.LittleEndian); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v, want io.ErrUnexpectedEOF", n, err)
		}
		if want := (Frame{Type: FrameNoop, Ack: 99}); f != want {
			t.Errorf("%d bytes: changed to %+v", n, f)
		}
	}
}

// If one bit of the type is wrong, Decode returns an error that names the type, or decodes the
// other type.
//
// socklnd 8.1 (2)
func TestFrameWithOneBitOfTheTypeFlipped(t *testing.T) {
	wire := unhex(t, frameExamples[3].dump)
	for bit := range 32 {
		b := bytes.Clone(wire)
		b[bit/8] ^= 1 << (bit % 8)
		f := Frame{Type: FrameNoop, Ack: 99}
		err := f.Decode(b, binary.LittleEndian)
		if bit == 0 {
			if want := (Frame{Type: FrameLNet, Request: 5, Ack: 9}); err != nil || f != want {
				t.Errorf("bit 0: %+v, %v", f, err)
			}
			continue
		}
		var field *lnet.FieldError
		if !errors.Is(err, ErrFrameType) || !errors.As(err, &field) || field.Field != "type" {
			t.Errorf("bit %d: %v, want ErrFrameType", bit, err)
		}
		if want := (Frame{Type: FrameNoop, Ack: 99}); f != want {
			t.Errorf("bit %d: changed to %+v", bit, f)
		}
	}
}

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Frame{
			Type:     rapid.SampledFrom([]uint32{FrameNoop, FrameLNet}).Draw(t, "type"),
			Checksum: rapid.Uint32().Draw(t, "checksum"),
			Request:  rapid.Uint64().Draw(t, "request"),
			Ack:      rapid.Uint64().Draw(t, "ack"),
		}
		order := orderOf(rapid.Bool().Draw(t, "big-endian"))
		var got Frame
		if err := got.Decode(f.Append(nil, order), order); err != nil || got != f {
			t.Fatalf("%+v, %v, want %+v", got, err, f)
		}
	})
}

func TestFrameAllocatesNothing(t *testing.T) {
	f := Frame{Type: FrameLNet, Request: 7}
	b := make([]byte, FrameSize)
	for _, order := range []anyOrder{binary.LittleEndian, binary.BigEndian} {
		n := testing.AllocsPerRun(100, func() {
			f.Put(b, order)
			b = f.Append(b[:0], order)
			if err := f.Decode(b, order); err != nil {
				t.Error(err)
			}
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", order, n)
		}
	}
}

// The whole messages of the worked examples: frame, LNet header, payload.
//
// socklnd 8.1 (1), 8.2, 21 (2)
func TestMessageExamplesEncodeAndDecode(t *testing.T) {
	for _, c := range messageExamples {
		t.Run(c.name, func(t *testing.T) {
			wire := unhex(t, c.dump)
			var b []byte
			if c.version.Framed() {
				b = c.frame.Append(b, binary.LittleEndian)
			}
			b, err := c.version.AppendHeader(b, &c.header)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) != c.version.Overhead() {
				t.Errorf("Overhead() = %d, appended %d bytes", c.version.Overhead(), len(b))
			}
			b = append(b, c.payload...)
			if !bytes.Equal(b, wire) {
				t.Errorf("encoded\n%x\nwant\n%x", b, wire)
			}

			var f Frame
			if c.version.Framed() {
				if err := f.Decode(wire, binary.LittleEndian); err != nil {
					t.Fatal(err)
				}
			}
			if f != c.frame {
				t.Errorf("frame %+v, want %+v", f, c.frame)
			}
			at := c.version.Overhead() - c.version.HeaderSize()
			var h lnet.Header
			if err := c.version.DecodeHeader(wire[at:], &h); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.header, h, equalNIDs); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
		})
	}
}
