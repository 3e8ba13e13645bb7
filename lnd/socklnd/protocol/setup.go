package protocol

import (
	"encoding/binary"

	"github.com/lnetd/lnetd/lnet"
)

// Setup decodes what the peer sends before a connection is established, without I/O. On the passive side, which
// accepts the connection, this is an acceptor request and then a HELLO (lnet-wire 5.4, socklnd 5.1). On the
// active side, which has opened it, this is the HELLO that answers ours. Setup never asks for bytes that follow
// the HELLO, and uses a fixed amount of memory.
//
// The caller reads into Want and reports the number of bytes with Filled, until Filled returns GotRequest or
// GotHello. After GotRequest, the same Setup decodes the HELLO. After an error it must not be used again.
type Setup struct {
	buf     [MaxHelloSize]byte
	n       int  // bytes of buf that are filled
	need    int  // bytes of buf that are needed for the next step
	request bool // an acceptor request is still to be decoded

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
	// GotRequest means that Setup.Request is set.
	GotRequest
	// GotHello means that Setup.Hello and Setup.Order are set.
	GotHello
)

// NewPassiveSetup returns a Setup for the side that accepts the connection.
func NewPassiveSetup() *Setup { return &Setup{request: true, need: 4} }

// NewActiveSetup returns a Setup for the side that has opened the connection.
func NewActiveSetup() *Setup { return &Setup{need: 4} }

// Want returns the memory into which the caller reads the next bytes. The caller may fill any number of bytes
// from the beginning.
func (s *Setup) Want() []byte { return s.buf[s.n:s.need] }

// Filled reports that the caller has stored n bytes in Want. It returns the errors of lnet.AcceptorRequestNeed,
// HelloNeed and DecodeHello. Some of them must be answered (lnet-wire 5.4, socklnd 5.1).
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
