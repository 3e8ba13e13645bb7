package protocol

import (
	"encoding/binary"

	"github.com/lnetd/lnetd/lnet"
)

// Setup reads what the peer sends before a connection is established, without I/O. On the passive
// side that is an acceptor request and then a HELLO (lnet-wire 5.4, socklnd 5.1); on the active
// side it is the HELLO that answers ours. It asks for exactly the bytes of the set-up, and needs a
// fixed amount of memory.
//
// The caller reads into Want, reports the number of bytes with Filled, and repeats this until
// Filled returns GotRequest or GotHello. After GotRequest the same Setup reads the HELLO. After an
// error it must not be used again.
type Setup struct {
	buf     [MaxHelloSize]byte
	n       int
	need    int
	request bool // the request has not been read yet

	// Request is the peer's acceptor request, after GotRequest.
	Request lnet.AcceptorRequest
	// Hello is the peer's HELLO, and Order its byte order, after GotHello.
	Hello Hello
	Order binary.ByteOrder
}

// SetupStep is the result of Setup.Filled.
type SetupStep uint8

const (
	// SetupMore means that more bytes are needed.
	SetupMore SetupStep = iota
	// GotRequest means that Request is complete.
	GotRequest
	// GotHello means that Hello is complete.
	GotHello
)

// NewPassiveSetup returns a Setup for the accepting side.
func NewPassiveSetup() *Setup { return &Setup{request: true, need: 4} }

// NewActiveSetup returns a Setup for the connecting side.
func NewActiveSetup() *Setup { return &Setup{need: 4} }

// Want returns where to store the next bytes. The caller may fill any part of it, from its start.
func (s *Setup) Want() []byte { return s.buf[s.n:s.need] }

// Filled reports that the first n bytes of Want have been filled. The errors are those of
// lnet.AcceptorRequestNeed, HelloNeed and DecodeHello. Some of them must be answered (lnet-wire
// 5.4, socklnd 5.1).
func (s *Setup) Filled(n int) (SetupStep, error) {
	s.n += n
	if s.n < s.need {
		return SetupMore, nil
	}
	if s.request {
		return s.filledRequest()
	}
	return s.filledHello()
}

func (s *Setup) filledRequest() (SetupStep, error) {
	need, err := lnet.AcceptorRequestNeed(s.buf[:s.n])
	if err != nil {
		return SetupMore, err
	}
	if need > s.n {
		s.need = need
		return SetupMore, nil
	}
	if s.Request, _, err = lnet.DecodeAcceptorRequest(s.buf[:s.n]); err != nil {
		return SetupMore, err
	}
	s.request = false
	s.n, s.need = 0, 4
	return GotRequest, nil
}

func (s *Setup) filledHello() (SetupStep, error) {
	need, err := HelloNeed(s.buf[:s.n])
	if err != nil {
		return SetupMore, err
	}
	if need > s.n {
		s.need = need
		return SetupMore, nil
	}
	if s.Hello, s.Order, err = DecodeHello(s.buf[:s.n]); err != nil {
		return SetupMore, err
	}
	return GotHello, nil
}
