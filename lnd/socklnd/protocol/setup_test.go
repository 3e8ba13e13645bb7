package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// setUp passes bytes to a Setup, at most chunk at a time. It returns the completed steps and the
// number of bytes that were used.
func setUp(s *Setup, b []byte, chunk int) (steps []SetupStep, took int, err error) {
	for took < len(b) {
		n := copy(s.Want()[:min(chunk, len(s.Want()))], b[took:])
		took += n
		step, err := s.Filled(n)
		if err != nil {
			return steps, took, err
		}
		if step != SetupMore {
			steps = append(steps, step)
		}
		if step == GotHello {
			return steps, took, nil
		}
	}
	return steps, took, nil
}

// socklnd 3 (1)
func TestSetupReadsRequestAndHelloAndNothingMore(t *testing.T) {
	for _, version := range []uint32{1, 2} {
		for _, example := range helloExamples {
			for _, chunk := range []int{1, 3, 1000} {
				t.Run(fmt.Sprintf("request %d, %s, by %d", version, example.name, chunk), func(t *testing.T) {
					order := orderOf(example.bigEndian)
					request := lnet.AcceptorRequest{Version: version, NID: nidB}
					b := request.Append(nil, order)
					b = append(b, unhex(t, example.dump)...)
					size := len(b)
					b = append(b, "the first message"...)

					s := NewPassiveSetup()
					steps, took, err := setUp(s, b, chunk)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff([]SetupStep{GotRequest, GotHello}, steps); diff != "" {
						t.Error(diff)
					}
					if took != size {
						t.Errorf("took %d bytes, request and HELLO have %d", took, size)
					}
					if s.Request.NID != nidB || s.Request.Version != version {
						t.Errorf("request %+v", s.Request)
					}
					if diff := cmp.Diff(example.hello, s.Hello, equalNIDs, equalAddrs); diff != "" {
						t.Error(diff)
					}
					if v1 := example.hello.Version == V1; !v1 && s.Order != binary.ByteOrder(order) {
						t.Errorf("order %s, want %s", s.Order, order)
					}
				})
			}
		}
	}
}

func TestSetupOfTheActiveSideReadsAHelloAtOnce(t *testing.T) {
	for _, example := range helloExamples {
		s := NewActiveSetup()
		steps, _, err := setUp(s, unhex(t, example.dump), 1)
		if err != nil || len(steps) != 1 || steps[0] != GotHello {
			t.Errorf("%s: steps %v, error %v", example.name, steps, err)
		}
		if diff := cmp.Diff(example.hello, s.Hello, equalNIDs, equalAddrs); diff != "" {
			t.Error(diff)
		}
	}
}

// TestSetupErrorsComeEarly shows which errors must be answered, and that the error comes before the
// peer has sent all of its message.
func TestSetupErrorsComeEarly(t *testing.T) {
	hello := func(v uint32, order anyOrder) []byte {
		return order.AppendUint32(order.AppendUint32(nil, lnet.MagicProto), v)
	}
	request := lnet.AcceptorRequest{NID: nidB}.Append(nil, binary.LittleEndian)
	answer := func(t *testing.T, err error) {
		var e *lnet.AcceptorError
		if !errors.As(err, &e) || !e.Answer {
			t.Errorf("error %v is owed no answer", err)
		}
	}
	silence := func(t *testing.T, err error) {
		var e *lnet.AcceptorError
		if !errors.As(err, &e) || e.Answer {
			t.Errorf("error %v: want one without an answer", err)
		}
	}
	none := func(t *testing.T, err error) {
		var e *UnknownVersionError
		if !errors.As(err, &e) {
			t.Errorf("error %v: want an unknown version", err)
		}
	}
	closed := func(t *testing.T, err error) {
		var e *MagicError
		if !errors.As(err, &e) {
			t.Errorf("error %v: want an unknown magic", err)
		}
	}
	le, be := binary.LittleEndian, binary.BigEndian
	for _, test := range []struct {
		name   string
		active bool
		bytes  []byte
		took   int
		check  func(*testing.T, error)
	}{
		{"request of version 9", false, le.AppendUint32(le.AppendUint32(nil, lnet.MagicAcceptor), 9), 8, answer},
		{"big-endian request of version 9", false, be.AppendUint32(be.AppendUint32(nil, lnet.MagicAcceptor), 9), 8, answer},
		{"unified protocol query", false, le.AppendUint32(nil, lnet.MagicProto), 4, answer},
		{"swapped unified protocol query", false, be.AppendUint32(nil, lnet.MagicProto), 4, answer},
		{"very old socknal", false, le.AppendUint32(nil, lnet.MagicTCP), 4, silence},
		{"http", false, []byte("GET / HTTP/1.1"), 4, silence},
		{"hello of version 5", false, append(request[:len(request):len(request)], hello(5, le)...), len(request) + 8, none},
		{"big-endian hello of version 5", false, append(request[:len(request):len(request)], hello(5, be)...), len(request) + 8, none},
		{"hello of version 0", false, append(request[:len(request):len(request)], hello(0, le)...), len(request) + 8, none},
		{"http instead of a hello", false, append(request[:len(request):len(request)], "GET /"...), len(request) + 4, closed},
		{"acceptor's refusal instead of a hello", true, lnet.AppendAcceptorRefusal(nil, le), 4, closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewPassiveSetup()
			if test.active {
				s = NewActiveSetup()
			}
			_, took, err := setUp(s, append(test.bytes[:len(test.bytes):len(test.bytes)], make([]byte, 200)...), 1)
			test.check(t, err)
			if took != test.took {
				t.Errorf("took %d bytes, want %d", took, test.took)
			}
		})
	}
}

func TestSetupOfAnyBytesIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewPassiveSetup()
		b := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "with a request") {
			b = append(lnet.AcceptorRequest{NID: nidB}.Append(nil, binary.LittleEndian), b...)
		}
		_, took, err := setUp(s, b, rapid.IntRange(1, 200).Draw(t, "chunk"))
		if most := lnet.MaxAcceptorRequestSize + MaxHelloSize; took > most {
			t.Errorf("took %d bytes, a request and a HELLO have at most %d", took, most)
		}
		if err == nil && s.n >= s.need && s.Hello.Version == 0 {
			t.Error("neither satisfied nor hungry")
		}
	})
}
