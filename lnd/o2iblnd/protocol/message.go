package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// Magic is the first field of messages and rejects (o2iblnd 4).
const Magic = 0x0be91b91

// Message is a message of any type. Fields that its type does not use are not encoded. After decoding they are
// zero, except that Sink.Fragments keeps its memory.
//
// The header (o2iblnd 4), in the sender's byte order. NIDs are nid4 (lnet-wire 2.2):
//
//	 0             4          6       7          8          12
//	+-------------+----------+-------+----------+----------+----------+
//	| magic       | version  | type  | credits  | nob      | cksum    |
//	+-------------+----------+-------+----------+----------+----------+
//	| 16 srcnid                      | 24 srcstamp                    |
//	+--------------------------------+--------------------------------+
//	| 32 dstnid                      | 40 dststamp                    |
//	+--------------------------------+--------------------------------+
//
// The header is followed by a body, by type (o2iblnd 5). An LNet header has 72 bytes and is always
// little-endian:
//
//	          48               56           64           120        128
//	CONNREQ   | depth | frags | max_msg_size |
//	IMMEDIATE | LNet header ...                          | payload
//	PUT_REQ   | LNet header ...                          | cookie   |
//	GET_REQ   | LNet header ...                          | cookie   | descriptor
//	PUT_ACK   | src_cookie    | dst_cookie   | descriptor
//	*_DONE    | cookie        | status (4)   |
type Message struct {
	Version Version
	Type    Type
	// Credits is the number of credits that are returned to the receiver.
	Credits uint8
	// Src and Dst are NIDs of o2ib. Dst may also be lnet.AnyNID.
	Src, Dst lnet.NID
	// SrcStamp and DstStamp are the incarnations of both NIs, as the sender knows them.
	SrcStamp, DstStamp uint64

	Params Params      // CONNREQ, CONNACK
	LNet   lnet.Header // IMMEDIATE, PUT_REQ, GET_REQ
	// Cookie is the cookie of the request, in the request and in answers to it. In a PUT_ACK it is src_cookie.
	Cookie Cookie
	// SinkCookie is dst_cookie of a PUT_ACK.
	SinkCookie Cookie
	Status     int32      // PUT_NAK, PUT_DONE, GET_DONE
	Sink       Descriptor // PUT_ACK, GET_REQ
	// Payload contains all bytes after the header of an IMMEDIATE. It refers to the decoded bytes. Its length
	// may differ from LNet.PayloadLength: see Content.
	Payload []byte
}

// Params are the parameters that both sides agree on when they connect (o2iblnd 5.1).
type Params struct {
	// Depth is the queue depth: the number of credits that each side has.
	Depth uint16
	// Fragments is the maximum number of RDMA WRITEs of one transfer.
	Fragments uint16
	// Size is the length of the largest message: MaxMessage.
	Size uint32
}

var (
	errAnySource  = errors.New("not the NID of a node")
	errReserved   = errors.New("reserved bits are set")
	errNob        = errors.New("more bytes than were received")
	errSmall      = errors.New("less than a message of this type has")
	errType       = errors.New("unknown")
	errSum        = errors.New("neither the signed nor the unsigned checksum of the message")
	errNotPut     = errors.New("a PUT_REQ must contain a PUT or REPLY")
	errNotGet     = errors.New("a GET_REQ must contain a GET")
	errLarge      = errors.New("16-byte address in a message for 4-byte addresses")
	errPayload    = fmt.Errorf("more than %d bytes in an IMMEDIATE", MaxPayload)
	errNotContent = errors.New("more bytes than were received")
)

// Append appends m without its payload and checksum. To send an IMMEDIATE, the caller then appends
// LNet.PayloadLength bytes. It may call Seal for the whole message. Append allocates nothing if b has room for
// MaxMessage bytes. If m cannot be encoded, Append returns b unchanged and a *lnet.FieldError.
func (m *Message) Append(b []byte, order binary.AppendByteOrder) ([]byte, error) {
	at := len(b)
	b, err := m.append(b, order)
	if err != nil {
		return b[:at], err
	}
	nob := len(b) - at
	if m.Type == Immediate {
		nob += int(m.LNet.PayloadLength)
	}
	putOrder(order).PutUint32(b[at+8:], uint32(nob))
	return b, nil
}

// putOrder returns order as a binary.ByteOrder.
func putOrder(order binary.AppendByteOrder) binary.ByteOrder {
	if order == binary.AppendByteOrder(binary.BigEndian) {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (m *Message) append(b []byte, order binary.AppendByteOrder) ([]byte, error) {
	src, ok := m.Src.NID4()
	if !ok {
		return b, m.fieldError("srcnid", m.Src, errLarge)
	}
	dst, ok := m.Dst.NID4()
	if !ok {
		return b, m.fieldError("dstnid", m.Dst, errLarge)
	}
	if m.Type.size() == 0 {
		return b, m.fieldError("type", m.Type, errType)
	}
	b = slices.Grow(b, m.Type.size()+fragmentSize*len(m.Sink.Fragments))
	b = order.AppendUint32(b, Magic)
	b = order.AppendUint16(b, uint16(m.Version))
	b = append(b, uint8(m.Type), m.Credits)
	b = order.AppendUint64(b, 0) // nob and cksum
	b = order.AppendUint64(b, src)
	b = order.AppendUint64(b, m.SrcStamp)
	b = order.AppendUint64(b, dst)
	b = order.AppendUint64(b, m.DstStamp)
	switch m.Type {
	case ConnReq, ConnAck:
		return m.Params.append(b, order), nil
	case Immediate:
		if m.LNet.PayloadLength > MaxPayload {
			return b, m.fieldError("payload_length", m.LNet.PayloadLength, errPayload)
		}
		return m.LNet.AppendNID4(b)
	case PutReq:
		return m.appendRequest(b)
	case GetReq:
		if err := m.Sink.check(); err != nil {
			return b, err
		}
		b, err := m.appendRequest(b)
		return m.Sink.append(b, order), err
	case PutAck:
		if err := m.Sink.check(); err != nil {
			return b, err
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(m.Cookie))
		b = binary.LittleEndian.AppendUint64(b, uint64(m.SinkCookie))
		return m.Sink.append(b, order), nil
	case PutNak, PutDone, GetDone:
		b = binary.LittleEndian.AppendUint64(b, uint64(m.Cookie))
		return order.AppendUint32(b, uint32(m.Status)), nil
	case Noop:
	}
	return b, nil
}

// check returns an error if d has too few or too many fragments to be encoded.
func (d *Descriptor) check() error {
	if n := len(d.Fragments); n < 1 || n > MaxFragments {
		return &lnet.FieldError{What: "descriptor", Field: "nfrags", Value: n, Err: errFragments}
	}
	return nil
}

// appendRequest appends the fields with which PUT_REQ and GET_REQ begin.
func (m *Message) appendRequest(b []byte) ([]byte, error) {
	b, err := m.LNet.AppendNID4(b)
	return binary.LittleEndian.AppendUint64(b, uint64(m.Cookie)), err
}

func (p *Params) append(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint16(b, p.Depth)
	b = order.AppendUint16(b, p.Fragments)
	return order.AppendUint32(b, p.Size)
}

// Decode decodes a received message into m and checks it in the order of the rules (o2iblnd 4). It returns the
// sender's byte order. It ignores bytes after the end of the message.
//
// An error must end the connection. It is a *lnet.TruncatedError, a *lnet.MagicError, a *lnet.VersionError or a
// *lnet.FieldError. The contents of m are then undefined, except for Version.
//
// Decode allocates memory only if the message has more fragments than any that m has decoded before. It keeps
// no reference to b except in Payload.
func (m *Message) Decode(b []byte, c Checking) (binary.ByteOrder, error) {
	order, err := m.peek(b)
	if err != nil {
		return nil, err
	}
	if len(b) < headerSize {
		return nil, &lnet.TruncatedError{What: "message", Need: headerSize, Have: len(b)}
	}
	nob := order.Uint32(b[8:])
	if uint64(nob) > uint64(len(b)) {
		return nil, m.fieldError("nob", nob, errNob)
	}
	if sum := order.Uint32(b[checksumAt:]); sum != 0 && c == Check &&
		sum != Checksum(b[:nob], Signed) && sum != Checksum(b[:nob], Unsigned) {
		return nil, m.fieldError("cksum", inHex(sum), errSum)
	}
	if err := m.decodeHeader(b, order); err != nil {
		return nil, err
	}
	switch least := m.Type.size(); {
	case least == 0:
		return nil, m.fieldError("type", uint8(m.Type), errType)
	case int(nob) < least:
		return nil, m.fieldError("nob", nob, errSmall)
	}
	m.clear()
	if err := m.decodeBody(b, int(nob), order); err != nil {
		return nil, err
	}
	return order, nil
}

// peek decodes the version, and returns the byte order that the magic shows.
func (m *Message) peek(b []byte) (binary.ByteOrder, error) {
	if len(b) < 6 {
		return nil, &lnet.TruncatedError{What: "message", Need: 6, Have: len(b)}
	}
	var order binary.ByteOrder
	switch uint32(Magic) {
	case binary.LittleEndian.Uint32(b):
		order = binary.LittleEndian
	case binary.BigEndian.Uint32(b):
		order = binary.BigEndian
	default:
		return nil, &lnet.MagicError{What: "message", Magic: binary.LittleEndian.Uint32(b)}
	}
	m.Version = Version(order.Uint16(b[4:]))
	if !m.Version.Known() {
		return nil, &lnet.VersionError{What: "message", Version: uint32(m.Version)}
	}
	return order, nil
}

func (m *Message) decodeHeader(b []byte, order binary.ByteOrder) error {
	m.Type, m.Credits = Type(b[6]), b[7]
	src, dst := order.Uint64(b[16:]), order.Uint64(b[32:])
	m.Src, m.Dst = lnet.NIDFrom4(src), lnet.NIDFrom4(dst)
	m.SrcStamp, m.DstStamp = order.Uint64(b[24:]), order.Uint64(b[40:])
	if m.Src.IsAny() {
		return m.fieldError("srcnid", inHex(src), errAnySource)
	}
	if v, _ := m.Src.NID4(); v != src {
		return m.fieldError("srcnid", inHex(src), errReserved)
	}
	if v, _ := m.Dst.NID4(); v != dst {
		return m.fieldError("dstnid", inHex(dst), errReserved)
	}
	return nil
}

// clear clears the fields that the body of the previous message has set.
func (m *Message) clear() {
	m.Params, m.LNet = Params{}, lnet.Header{}
	m.Cookie, m.SinkCookie, m.Status = 0, 0, 0
	m.Sink.Key, m.Sink.Fragments = 0, m.Sink.Fragments[:0]
	m.Payload = nil
}

// decodeBody decodes the body of a message. b begins with the message, which has nob bytes.
func (m *Message) decodeBody(b []byte, nob int, order binary.ByteOrder) error {
	body := b[headerSize:nob]
	switch m.Type {
	case ConnReq, ConnAck:
		m.Params = Params{Depth: order.Uint16(body), Fragments: order.Uint16(body[2:]), Size: order.Uint32(body[4:])}
	case Immediate:
		m.Payload = b[immediateSize:]
		return m.LNet.DecodeNID4(body)
	case PutReq:
		if err := m.decodeRequest(body); err != nil {
			return err
		}
		if m.LNet.Type != lnet.MsgPut && m.LNet.Type != lnet.MsgReply {
			return m.fieldError("type", m.LNet.Type, errNotPut)
		}
	case GetReq:
		if err := m.decodeRequest(body); err != nil {
			return err
		}
		if m.LNet.Type != lnet.MsgGet {
			return m.fieldError("type", m.LNet.Type, errNotGet)
		}
		return m.Sink.decode(body[lnetSize+cookieSize:], order)
	case PutAck:
		m.Cookie, m.SinkCookie = cookie(body), cookie(body[cookieSize:])
		return m.Sink.decode(body[2*cookieSize:], order)
	case PutNak, PutDone, GetDone:
		m.Cookie, m.Status = cookie(body), int32(order.Uint32(body[cookieSize:]))
	case Noop:
	}
	return nil
}

func (m *Message) decodeRequest(body []byte) error {
	m.Cookie = cookie(body[lnetSize:])
	return m.LNet.DecodeNID4(body)
}

func cookie(b []byte) Cookie { return Cookie(binary.LittleEndian.Uint64(b)) }

// Content returns the payload of an IMMEDIATE. It returns a *lnet.FieldError if the LNet header announces more
// bytes than were received. In this case the message must be dropped, but the connection stays (o2iblnd 5.3).
func (m *Message) Content() ([]byte, error) {
	if uint64(m.LNet.PayloadLength) > uint64(len(m.Payload)) {
		return nil, m.fieldError("payload_length", m.LNet.PayloadLength, errNotContent)
	}
	return m.Payload[:m.LNet.PayloadLength], nil
}

// fieldError returns a *lnet.FieldError of a message. It is a separate function to keep its callers small.
func (m *Message) fieldError(field string, value any, err error) error {
	return &lnet.FieldError{What: "message", Field: field, Value: value, Err: err}
}

// inHex is a number that errors show in hexadecimal.
type inHex uint64

func (v inHex) String() string { return fmt.Sprintf("%#x", uint64(v)) }
