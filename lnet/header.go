package lnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Layout of the two headers (lnet-wire 4.2, 4.3). All numbers are little-endian, a 20-byte
// NID is a byte string, and handles are opaque.
//
//	nid4   nid16                       size  nid4, nid16
//	  0      0   dest_nid              8, 20
//	  8     20   src_nid               8, 20
//	 16     40   dest_pid              4
//	 20     44   src_pid               4
//	 24     48   type                  4
//	 28     52   payload_length        4
//	 32     56   variant part          40
//
// The variant part by type (lnet-wire 4.5), with offsets into it. Bytes that a type does
// not use are sent as zero and ignored on receipt:
//
//	       0           16           24          28           32            36       40
//	ACK    | dst_wmd    | match_bits | mlength   |
//	PUT    | ack_wmd    | match_bits | hdr_data (8 bytes)     | ptl_index   | offset |
//	GET    | return_wmd | match_bits | ptl_index | src_offset | sink_length |
//	REPLY  | dst_wmd    |
//
//	       0             8      12
//	HELLO  | incarnation | type |
const (
	// HeaderNID4Size is the size of a header with 4-byte addresses.
	HeaderNID4Size = nid4Body + bodySize
	// HeaderNID16Size is the size of a header with room for 16-byte addresses.
	HeaderNID16Size = nid16Body + bodySize

	nid4Fixed  = 2 * nid4Size     // offset of dest_pid in a nid4 header
	nid16Fixed = 2 * LargeNIDSize // and in a nid16 header
	fixedSize  = 16               // dest_pid to payload_length
	nid4Body   = nid4Fixed + fixedSize
	nid16Body  = nid16Fixed + fixedSize
	bodySize   = 40
)

// MsgType is the type of a message (lnet-wire 4.4).
type MsgType uint32

const (
	// MsgAck reports to the sender of a PUT how many bytes the target accepted.
	MsgAck MsgType = 0
	// MsgPut carries data to the target.
	MsgPut MsgType = 1
	// MsgGet requests data.
	MsgGet MsgType = 2
	// MsgReply carries the data that a GET requested.
	MsgReply MsgType = 3
	// MsgHello is part of the socklnd V1 handshake. It is not an LNet message.
	MsgHello MsgType = 4
)

// String returns "ACK", "PUT", "GET", "REPLY", "HELLO", or "type 9".
func (t MsgType) String() string {
	switch t {
	case MsgAck:
		return "ACK"
	case MsgPut:
		return "PUT"
	case MsgGet:
		return "GET"
	case MsgReply:
		return "REPLY"
	case MsgHello:
		return "HELLO"
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// ParseMsgType parses the name of an LNet message type, in any case. HELLO is not one of
// them. The error is a *FieldError.
func ParseMsgType(s string) (MsgType, error) {
	for t := MsgAck; t <= MsgReply; t++ {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
	}
	return 0, &FieldError{What: "message type", Value: s, Err: errMsgType}
}

var errMsgType = errors.New("not put, ack, get or reply")

// Header is the header of a message of any type. Fields that the type does not use are
// zero and are not encoded. Which of the two layouts is used depends on the connection
// (lnet-wire 4.9).
type Header struct {
	// Dest is the final destination, even if the message is sent through a router. Src is the
	// node that created the message.
	Dest, Src NID
	// DestPID and SrcPID are normally PIDLustre.
	DestPID, SrcPID PID
	// Type is the message type. It determines which of the fields below are valid.
	Type MsgType
	// PayloadLength is the number of bytes after the header.
	PayloadLength uint32
	// Handle identifies the sender's descriptor in a PUT or GET. In a PUT it is NoHandle if
	// the sender requests no ACK. An ACK or REPLY contains the handle of its PUT or GET.
	Handle Handle
	// MatchBits select a match entry for a PUT or GET. An ACK contains those of its PUT.
	MatchBits uint64
	// HdrData of a PUT is passed to the target in its event.
	HdrData uint64
	// Portal is the target's portal in a PUT or GET, 0 to Portals-1.
	Portal uint32
	// Offset is the offset in the target's descriptor in bytes, if that has ManageRemote: the
	// PUT's offset or the GET's src_offset.
	Offset uint32
	// Length is, in an ACK, the number of bytes that were accepted from the PUT (mlength). In
	// a GET it is the size of the memory for the REPLY (sink_length).
	Length uint32
	// Incarnation is that of the sender, in a HELLO.
	Incarnation uint64
	// ConnType is the connection type, in a HELLO.
	ConnType uint32
}

var (
	errLarge      = errors.New("16-byte address in a header for 4-byte addresses")
	errOverMTU    = fmt.Errorf("more than %d bytes", MTU)
	errNotMessage = errors.New("not ACK, PUT, GET or REPLY")
)

// AppendNID4 appends the 72 bytes of the header with 4-byte addresses. If Dest or Src is a
// large NID, it returns b unchanged and a *FieldError.
func (h *Header) AppendNID4(b []byte) ([]byte, error) {
	if h.Dest.IsLarge() {
		return b, h.fieldError("dest_nid", h.Dest, errLarge)
	}
	if h.Src.IsLarge() {
		return b, h.fieldError("src_nid", h.Src, errLarge)
	}
	n := len(b)
	b = slices.Grow(b, HeaderNID4Size)[:n+HeaderNID4Size]
	m := (*[HeaderNID4Size]byte)(b[n:])
	binary.LittleEndian.PutUint64(m[0:8], h.Dest.head)
	binary.LittleEndian.PutUint64(m[8:16], h.Src.head)
	h.putFixed((*[fixedSize]byte)(m[nid4Fixed:]))
	h.putBody((*[bodySize]byte)(m[nid4Body:]))
	return b, nil
}

// AppendNID16 appends the 96 bytes of the header with room for 16-byte addresses. It can
// encode any NID.
func (h *Header) AppendNID16(b []byte) []byte {
	n := len(b)
	b = slices.Grow(b, HeaderNID16Size)[:n+HeaderNID16Size]
	m := (*[HeaderNID16Size]byte)(b[n:])
	h.Dest.putLarge((*[LargeNIDSize]byte)(m[0:]))
	h.Src.putLarge((*[LargeNIDSize]byte)(m[LargeNIDSize:]))
	h.putFixed((*[fixedSize]byte)(m[nid16Fixed:]))
	h.putBody((*[bodySize]byte)(m[nid16Body:]))
	return b
}

func (h *Header) putFixed(m *[fixedSize]byte) {
	binary.LittleEndian.PutUint32(m[0:4], uint32(h.DestPID))
	binary.LittleEndian.PutUint32(m[4:8], uint32(h.SrcPID))
	binary.LittleEndian.PutUint32(m[8:12], uint32(h.Type))
	binary.LittleEndian.PutUint32(m[12:16], h.PayloadLength)
}

func (h *Header) putBody(m *[bodySize]byte) {
	*m = [bodySize]byte{}
	switch h.Type {
	case MsgAck:
		h.Handle.put((*[HandleSize]byte)(m[0:]))
		binary.LittleEndian.PutUint64(m[16:24], h.MatchBits)
		binary.LittleEndian.PutUint32(m[24:28], h.Length)
	case MsgPut:
		h.Handle.put((*[HandleSize]byte)(m[0:]))
		binary.LittleEndian.PutUint64(m[16:24], h.MatchBits)
		binary.LittleEndian.PutUint64(m[24:32], h.HdrData)
		binary.LittleEndian.PutUint32(m[32:36], h.Portal)
		binary.LittleEndian.PutUint32(m[36:40], h.Offset)
	case MsgGet:
		h.Handle.put((*[HandleSize]byte)(m[0:]))
		binary.LittleEndian.PutUint64(m[16:24], h.MatchBits)
		binary.LittleEndian.PutUint32(m[24:28], h.Portal)
		binary.LittleEndian.PutUint32(m[28:32], h.Offset)
		binary.LittleEndian.PutUint32(m[32:36], h.Length)
	case MsgReply:
		h.Handle.put((*[HandleSize]byte)(m[0:]))
	case MsgHello:
		binary.LittleEndian.PutUint64(m[0:8], h.Incarnation)
		binary.LittleEndian.PutUint32(m[8:12], h.ConnType)
	}
}

func (h Handle) put(b *[HandleSize]byte) {
	binary.LittleEndian.PutUint64(b[0:8], h.Interface)
	binary.LittleEndian.PutUint64(b[8:16], h.Object)
}

// DecodeNID4 decodes a header with 4-byte addresses from the start of b. It accepts any
// type and length; call Validate to check them. It returns a *FieldError if a NID has
// reserved bits set, and a *TruncatedError if b is too short. On an error h is unchanged.
func (h *Header) DecodeNID4(b []byte) error {
	if len(b) < HeaderNID4Size {
		return &TruncatedError{What: "header", Need: HeaderNID4Size, Have: len(b)}
	}
	m := (*[HeaderNID4Size]byte)(b)
	dest4, src4 := binary.LittleEndian.Uint64(m[0:8]), binary.LittleEndian.Uint64(m[8:16])
	dest, ok := parseNID4(dest4)
	if !ok {
		return h.fieldError("dest_nid", hexNID4(dest4), errNIDReserved)
	}
	src, ok := parseNID4(src4)
	if !ok {
		return h.fieldError("src_nid", hexNID4(src4), errNIDReserved)
	}
	h.Dest, h.Src = dest, src
	h.getFixed((*[fixedSize]byte)(m[nid4Fixed:]))
	h.getBody((*[bodySize]byte)(m[nid4Body:]))
	return nil
}

// DecodeNID16 is like DecodeNID4, but for a header with room for 16-byte addresses. It
// returns a *FieldError if it contains a NID that DecodeLarge rejects.
func (h *Header) DecodeNID16(b []byte) error {
	if len(b) < HeaderNID16Size {
		return &TruncatedError{What: "header", Need: HeaderNID16Size, Have: len(b)}
	}
	m := (*[HeaderNID16Size]byte)(b)
	dest, ok := getLarge((*[LargeNIDSize]byte)(m[0:]))
	if !ok {
		return dest.largeError("header", "dest_nid")
	}
	src, ok := getLarge((*[LargeNIDSize]byte)(m[LargeNIDSize:]))
	if !ok {
		return src.largeError("header", "src_nid")
	}
	h.Dest, h.Src = dest, src
	h.getFixed((*[fixedSize]byte)(m[nid16Fixed:]))
	h.getBody((*[bodySize]byte)(m[nid16Body:]))
	return nil
}

func (h *Header) getFixed(m *[fixedSize]byte) {
	h.DestPID = PID(binary.LittleEndian.Uint32(m[0:4]))
	h.SrcPID = PID(binary.LittleEndian.Uint32(m[4:8]))
	h.Type = MsgType(binary.LittleEndian.Uint32(m[8:12]))
	h.PayloadLength = binary.LittleEndian.Uint32(m[12:16])
}

func (h *Header) getBody(m *[bodySize]byte) {
	h.Handle, h.MatchBits, h.HdrData = Handle{}, 0, 0
	h.Portal, h.Offset, h.Length = 0, 0, 0
	h.Incarnation, h.ConnType = 0, 0
	switch h.Type {
	case MsgAck:
		h.Handle = getHandle((*[HandleSize]byte)(m[0:]))
		h.MatchBits = binary.LittleEndian.Uint64(m[16:24])
		h.Length = binary.LittleEndian.Uint32(m[24:28])
	case MsgPut:
		h.Handle = getHandle((*[HandleSize]byte)(m[0:]))
		h.MatchBits = binary.LittleEndian.Uint64(m[16:24])
		h.HdrData = binary.LittleEndian.Uint64(m[24:32])
		h.Portal = binary.LittleEndian.Uint32(m[32:36])
		h.Offset = binary.LittleEndian.Uint32(m[36:40])
	case MsgGet:
		h.Handle = getHandle((*[HandleSize]byte)(m[0:]))
		h.MatchBits = binary.LittleEndian.Uint64(m[16:24])
		h.Portal = binary.LittleEndian.Uint32(m[24:28])
		h.Offset = binary.LittleEndian.Uint32(m[28:32])
		h.Length = binary.LittleEndian.Uint32(m[32:36])
	case MsgReply:
		h.Handle = getHandle((*[HandleSize]byte)(m[0:]))
	case MsgHello:
		h.Incarnation = binary.LittleEndian.Uint64(m[0:8])
		h.ConnType = binary.LittleEndian.Uint32(m[8:12])
	}
}

func getHandle(b *[HandleSize]byte) Handle {
	return Handle{
		Interface: binary.LittleEndian.Uint64(b[0:8]),
		Object:    binary.LittleEndian.Uint64(b[8:16]),
	}
}

// Validate checks the message type, and whether the payload length is valid for it
// (lnet-wire 4.7, rows 1 to 3). A receiver must call it before it uses the addresses. If
// it returns a *FieldError, the peer has violated the protocol, and the receiver must
// close the connection.
func (h *Header) Validate() error {
	switch h.Type {
	case MsgAck, MsgGet:
		if h.PayloadLength != 0 {
			return h.fieldError("payload_length", h.PayloadLength, fmt.Errorf("must be 0 in a message of type %v", h.Type))
		}
	case MsgPut, MsgReply:
		if h.PayloadLength > MTU {
			return h.fieldError("payload_length", h.PayloadLength, errOverMTU)
		}
	default:
		return h.fieldError("type", uint32(h.Type), errNotMessage)
	}
	return nil
}

// fieldError returns a *FieldError for a field of the header. It is a separate function so
// that its callers remain small enough to be fast.
func (h *Header) fieldError(field string, value any, err error) error {
	return &FieldError{What: "header", Field: field, Value: value, Err: err}
}
