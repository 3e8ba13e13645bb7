package fuzz

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzSocklndSetup passes a new peer's bytes to the handshake machines of both sides, at once and in
// chunks, and expects the same outcome from the same bytes.
func FuzzSocklndSetup(f *testing.F) {
	nid, err := lnet.ParseNID("192.168.1.20@tcp")
	if err != nil {
		f.Fatal(err)
	}
	request := lnet.AcceptorRequest{NID: nid}.Append(nil, binary.LittleEndian)
	eachRecorded(f, func(u *recording.Unit) {
		if u.Kind == recording.KindHello {
			f.Add(u.Raw, byte(3))
			f.Add(append(request[:len(request):len(request)], u.Raw...), byte(5))
		}
	})
	for _, b := range madeHellos(f) {
		f.Add(append(request[:len(request):len(request)], b...), byte(1))
	}
	f.Add(lnet.AcceptorRequest{NID: nid, Version: 2}.Append(nil, binary.BigEndian), byte(1))
	f.Fuzz(func(t *testing.T, b []byte, chunk byte) {
		for side, machine := range map[string]func() *protocol.Setup{
			"passive": protocol.NewPassiveSetup, "active": protocol.NewActiveSetup,
		} {
			whole, took := setUp(t, machine(), b, len(b))
			parts, tookParts := setUp(t, machine(), b, 1+int(chunk))
			if whole != parts || took != tookParts {
				t.Fatalf("%s: %s after %d bytes, in chunks %s after %d", side, whole, took, parts, tookParts)
			}
			if took > lnet.MaxAcceptorRequestSize+protocol.MaxHelloSize {
				t.Fatalf("%s: took %d bytes", side, took)
			}
		}
	})
}

// setUp returns the outcome of a machine for the bytes, and how many of them it consumed.
func setUp(t *testing.T, s *protocol.Setup, b []byte, chunk int) (outcome string, took int) {
	t.Helper()
	for took < len(b) {
		want := s.Want()
		if len(want) == 0 {
			t.Fatal("wants nothing and has nothing")
		}
		n := copy(want[:min(chunk, len(want))], b[took:])
		took += n
		step, err := s.Filled(n)
		if err != nil {
			var acceptor *lnet.AcceptorError
			if !errors.As(err, &acceptor) {
				checkNamed(t, err)
			}
			return err.Error(), took
		}
		switch step {
		case protocol.GotRequest:
			outcome += fmt.Sprintf("request %+v ", s.Request)
		case protocol.GotHello:
			return outcome + fmt.Sprintf("hello %+v %s", s.Hello, s.Order), took
		}
	}
	return outcome + "more", took
}
