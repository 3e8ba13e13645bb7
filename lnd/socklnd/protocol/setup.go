package protocol

import (
	"encoding/binary"

	"github.com/lnetd/lnetd/lnet"
)

// Setup reads what comes in before a connection stands, as a machine without
// I/O: on the passive side an acceptor request and then a HELLO (lnet-wire
// 5.4, socklnd 5.1), on the active side the HELLO that answers. It asks for
// exactly the bytes that belong to the set-up, and holds them in a fixed
// amount of memory.
//
// The caller reads into Want, reports with Filled, and goes on until Filled
// returns GotRequest or GotHello. After GotRequest the same Setup reads the
// HELLO. After an error it is dead.
type Setup struct {
	buf     [MaxHelloSize]byte
	n       int
	need    int
	request bool // the request is still to come

	// Request is what the peer wants, after GotRequest.
	Request lnet.AcceptorRequest
	// Hello is the peer's HELLO and Order its byte order, after GotHello.
	Hello Hello
	Order binary.ByteOrder
}

// SetupStep is what Setup.Filled has completed.
type SetupStep uint8

const (
	// SetupMore means that more bytes are needed.
	SetupMore SetupStep = iota
	// GotRequest means that Request is complete.
	GotRequest
	// GotHello means that Hello is complete.
	GotHello
)

// NewPassiveSetup returns the machine of the accepting side.
func NewPassiveSetup() *Setup { return &Setup{request: true, need: 4} }

// NewActiveSetup returns the machine of the connecting side.
func NewActiveSetup() *Setup { return &Setup{need: 4} }

// Want is where the next bytes belong; any number of them may come at a time.
func (s *Setup) Want() []byte { return s.buf[s.n:s.need] }

// Filled reports that n bytes of Want are there. Errors are those of
// lnet.AcceptorRequestNeed, HelloNeed and DecodeHello; some of them are owed
// an answer (lnet-wire 5.4, socklnd 5.1).
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
