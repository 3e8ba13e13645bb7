package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Kind is the kind of a Unit.
type Kind uint8

// Kinds of units. A stream starts with an acceptor request or a HELLO, followed by frames.
const (
	KindRequest Kind = iota // an acceptor request
	KindHello
	KindNoop
	KindMessage // a frame with an LNet message
)

func (k Kind) String() string {
	switch k {
	case KindRequest:
		return "CONNREQ"
	case KindHello:
		return "HELLO"
	case KindNoop:
		return "NOOP"
	}
	return "LNET"
}

// Unit is one element of a stream: an acceptor request, a HELLO, a NOOP or an LNet message. The first
// four fields are always set. The others are set for the kinds that their comments name.
type Unit struct {
	Kind Kind
	// Offset is the unit's offset in its stream.
	Offset int
	// Raw has the bytes of the unit. It is a slice of the stream.
	Raw []byte
	// Order is the byte order of the sender.
	Order binary.ByteOrder

	Request lnet.AcceptorRequest // KindRequest
	Hello   protocol.Hello       // KindHello

	// Version and Frame are set for KindNoop and KindMessage. Version is the version in the sender's HELLO.
	// Frame is zero in V1, which has no frames. Header and Payload are set for KindMessage.
	Version protocol.Version
	Frame   protocol.Frame
	Header  lnet.Header
	Payload []byte // a slice of the stream
}

// Name returns the name of the LNet message type for KindMessage, and the name of the kind for other
// kinds.
func (u *Unit) Name() string {
	if u.Kind != KindMessage {
		return u.Kind.String()
	}
	return u.Header.Type.String()
}

// IsPing reports whether the unit is a ping: a GET of ping info.
func (u *Unit) IsPing() bool {
	return u.Kind == KindMessage && u.Header.Type == lnet.MsgGet &&
		u.Header.Portal == lnet.ReservedPortal && u.Header.MatchBits == lnet.PingMatchBits
}

// IsPush reports whether the unit is a push: a PUT of ping info.
func (u *Unit) IsPush() bool {
	return u.Kind == KindMessage && u.Header.Type == lnet.MsgPut &&
		u.Header.Portal == lnet.ReservedPortal && u.Header.MatchBits == lnet.PingMatchBits
}

var errNoHello = errors.New("neither an acceptor request nor a HELLO nor a frame")

// Parse parses the bytes that one side of a TCP connection sent: an acceptor request (from the active
// side only), a HELLO, and frames with messages. If the stream starts with a frame, Parse assumes V3.
//
// If the stream is malformed or ends within a unit, Parse returns the units before that place and an
// error. The error is io.ErrUnexpectedEOF if the stream ends within a unit.
func Parse(stream []byte) ([]Unit, error) {
	p := parser{stream: stream}
	var err error
	for err == nil && p.at < len(stream) {
		err = p.unit()
	}
	if err != nil {
		return p.units, fmt.Errorf("at byte %d: %w", p.at, err)
	}
	return p.units, nil
}

// parser is the state of a call of Parse.
type parser struct {
	stream  []byte
	at      int
	units   []Unit
	version protocol.Version // 0 until the HELLO
	order   binary.ByteOrder
}

// addUnit adds u with the next n bytes of the stream as its bytes, and advances by n bytes.
func (p *parser) addUnit(u Unit, n int) {
	u.Offset, u.Raw = p.at, p.stream[p.at:p.at+n]
	p.units = append(p.units, u)
	p.at += n
}

func (p *parser) unit() error {
	rest := p.stream[p.at:]
	switch {
	case p.version == protocol.V1:
		return p.message(rest)
	case p.version != 0:
		return p.frame(rest)
	case len(rest) < 4:
		return io.ErrUnexpectedEOF
	}
	le, be := binary.LittleEndian.Uint32(rest), binary.BigEndian.Uint32(rest)
	switch {
	case le == lnet.MagicAcceptor || be == lnet.MagicAcceptor:
		return p.request(rest)
	case le == lnet.MagicProto || be == lnet.MagicProto || le == lnet.MagicTCP:
		return p.hello(rest)
	case len(p.units) > 0:
		return errNoHello
	case le == protocol.FrameLNet || le == protocol.FrameNoop:
		p.version, p.order = protocol.V3, binary.LittleEndian
	case be == protocol.FrameLNet || be == protocol.FrameNoop:
		p.version, p.order = protocol.V3, binary.BigEndian
	default:
		return errNoHello
	}
	return nil
}

func (p *parser) request(rest []byte) error {
	size, err := lnet.AcceptorRequestNeed(rest)
	if err != nil {
		return err
	}
	r, order, err := lnet.DecodeAcceptorRequest(rest)
	if err != nil {
		return err
	}
	p.addUnit(Unit{Kind: KindRequest, Request: r, Order: order}, size)
	return nil
}

func (p *parser) hello(rest []byte) error {
	need, err := protocol.HelloNeed(rest)
	if err != nil {
		return err
	}
	h, order, err := protocol.DecodeHello(rest[:min(need, len(rest))])
	if err != nil {
		return err
	}
	p.version, p.order = h.Version, order
	p.addUnit(Unit{Kind: KindHello, Hello: h, Order: order}, need)
	return nil
}

func (p *parser) frame(rest []byte) error {
	var f protocol.Frame
	if err := f.Decode(rest, p.order); err != nil {
		return err
	}
	if f.Type == protocol.FrameNoop {
		p.addUnit(Unit{Kind: KindNoop, Order: p.order, Version: p.version, Frame: f}, protocol.FrameSize)
		return nil
	}
	return p.messageAfter(f, rest)
}

// message parses a message of V1, which has no frame before it.
func (p *parser) message(rest []byte) error {
	return p.messageAfter(protocol.Frame{}, rest)
}

func (p *parser) messageAfter(f protocol.Frame, rest []byte) error {
	u := Unit{Kind: KindMessage, Order: p.order, Version: p.version, Frame: f}
	overhead := p.version.Overhead()
	if len(rest) < overhead {
		return fmt.Errorf("message header: %w", io.ErrUnexpectedEOF)
	}
	if err := p.version.DecodeHeader(rest[overhead-p.version.HeaderSize():], &u.Header); err != nil {
		return err
	}
	if err := u.Header.Validate(); err != nil {
		return err
	}
	size := overhead + int(u.Header.PayloadLength)
	if len(rest) < size {
		return fmt.Errorf("payload: %w", io.ErrUnexpectedEOF)
	}
	u.Payload = rest[overhead:size]
	p.addUnit(u, size)
	return nil
}
