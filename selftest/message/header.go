package message

import (
	"errors"
	"fmt"
	"math/bits"
)

// Size is the length of all messages in bytes.
const Size = 160

// Version is the only protocol version.
const Version = 1

// Magic is the first word of every message, in its sender's byte order.
const Magic = 0xeeb0f00d

// Layout of the header (selftest 2.1). In a request, the match bits of the reply follow it. In a
// reply, the status follows.
//
//	0         4         8         12        16        20        24
//	+---------+---------+---------+---------+---------+---------+---------+
//	| magic   | version | type    |    0    |    0    | features| body ...
//	+---------+---------+---------+---------+---------+---------+---------+
const (
	offMagic    = 0
	offVersion  = 4
	offType     = 8
	offFeatures = 20

	offReplyID = 24 // of requests
	offBulkID  = 32 // of requests with bulk
	offStatus  = 24 // of replies
)

// Order is the byte order of a message's sender.
type Order uint8

// The byte orders. This implementation sends little endian.
const (
	LittleEndian Order = iota
	BigEndian
)

func (o Order) String() string {
	if o == BigEndian {
		return "big endian"
	}
	return "little endian"
}

// Features are extensions to the first version of the protocol (selftest 2.4).
type Features uint32

// BulkLength means that the parameters of a BRW test contain an offset and a size in bytes instead of a
// number of pages.
const BulkLength Features = 1

// Supported is the set of all known features.
const Supported = BulkLength

// Header contains the fields that all messages have. It does not contain the type, because the struct of the
// message determines it.
type Header struct {
	Order    Order
	Version  uint32 // 1, the constant Version; tests use other values
	Features Features
}

// NewHeader returns the header of a message that this implementation sends.
func NewHeader(f Features) Header { return Header{Version: Version, Features: f} }

// Errors of Decode and Peek. The returned errors wrap these and contain the value found.
var (
	// ErrSize means that a message does not have 160 bytes.
	ErrSize = errors.New("must be 160 bytes")
	// ErrMagic means that a message does not begin with Magic.
	ErrMagic = errors.New("unknown magic")
	// ErrType means that a message has another type than expected.
	ErrType = errors.New("wrong message type")
)

// view reads and writes the fields of a message in the message's byte order.
type view struct {
	b   *[Size]byte
	big bool
}

func (v view) u8(off int) uint8 { return v.b[off] }

func (v view) u16(off int) uint16 {
	n := uint16(v.b[off]) | uint16(v.b[off+1])<<8
	if v.big {
		n = bits.ReverseBytes16(n)
	}
	return n
}

func (v view) u32(off int) uint32 {
	b := v.b[off : off+4 : off+4]
	n := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	if v.big {
		n = bits.ReverseBytes32(n)
	}
	return n
}

func (v view) u64(off int) uint64 {
	b := v.b[off : off+8 : off+8]
	n := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	if v.big {
		n = bits.ReverseBytes64(n)
	}
	return n
}

func (v view) put8(off int, n uint8) { v.b[off] = n }

func (v view) put16(off int, n uint16) {
	if v.big {
		n = bits.ReverseBytes16(n)
	}
	v.b[off], v.b[off+1] = byte(n), byte(n>>8)
}

func (v view) put32(off int, n uint32) {
	if v.big {
		n = bits.ReverseBytes32(n)
	}
	b := v.b[off : off+4 : off+4]
	b[0], b[1], b[2], b[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
}

func (v view) put64(off int, n uint64) {
	if v.big {
		n = bits.ReverseBytes64(n)
	}
	b := v.b[off : off+8 : off+8]
	b[0], b[1], b[2], b[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
	b[4], b[5], b[6], b[7] = byte(n>>32), byte(n>>40), byte(n>>48), byte(n>>56)
}

// begin appends a message to dst that consists of the header, for type t, and zeros. The view is for the
// fields of the body.
func (h *Header) begin(dst []byte, t Type) ([]byte, view) {
	dst = append(dst, make([]byte, Size)...) // allocates only if dst has no room
	v := view{(*[Size]byte)(dst[len(dst)-Size:]), h.Order == BigEndian}
	v.put32(offMagic, Magic)
	v.put32(offVersion, h.Version)
	v.put32(offType, uint32(t))
	v.put32(offFeatures, uint32(h.Features))
	return dst, v
}

// look decodes the header of a message of any type.
func look(b []byte) (h Header, t Type, v view, err error) {
	if len(b) != Size {
		return h, 0, v, fmt.Errorf("message of %d bytes: %w", len(b), ErrSize)
	}
	v.b = (*[Size]byte)(b)
	switch m := v.u32(offMagic); m {
	case Magic:
	case bits.ReverseBytes32(Magic):
		v.big = true
		h.Order = BigEndian
	default:
		return Header{}, 0, v, fmt.Errorf("magic %#x: %w", m, ErrMagic)
	}
	h.Version = v.u32(offVersion)
	h.Features = Features(v.u32(offFeatures))
	return h, Type(v.u32(offType)), v, nil
}

// expect decodes the header of a message that must have type t.
func expect(b []byte, t Type) (Header, view, error) {
	h, got, v, err := look(b)
	if err == nil && got != t {
		err = fmt.Errorf("received %s, but expected %s: %w", got, t, ErrType)
	}
	return h, v, err
}

// Peek decodes the header of a message of any type. It returns the header and the type, which may be unknown.
func Peek(b []byte) (Header, Type, error) {
	h, t, _, err := look(b)
	return h, t, err
}

// ReplyID returns the match bits for the reply to an encoded request. It accepts any type and version. It
// returns 0 if b is not a message.
func ReplyID(b []byte) uint64 {
	_, _, v, err := look(b)
	if err != nil {
		return 0
	}
	return v.u64(offReplyID)
}

// SetIDs sets two fields in an encoded request: the match bits of the reply and, if bulk is not 0, those of
// the bulk. It panics if b is not a message.
func SetIDs(b []byte, reply, bulk uint64) {
	_, _, v, err := look(b)
	if err != nil {
		panic("message: set IDs: " + err.Error())
	}
	v.put64(offReplyID, reply)
	if bulk != 0 {
		v.put64(offBulkID, bulk)
	}
}

// AppendRefusal appends to b a reply of the service named by of. The reply contains only status s and session
// id; replies of test services contain no session. h is the header of the request.
func AppendRefusal(b []byte, h Header, of Service, s Status, id SessionID) []byte {
	t, _ := of.Request()
	b, v := h.begin(b, t.Reply())
	v.put32(offStatus, uint32(s))
	if !of.IsTest() {
		v.putSessionID(offReplySession, id)
	}
	return b
}

// ReplyStatus decodes the header and status of a reply. It returns ErrSize, ErrMagic or ErrType if b is
// not a reply of type t.
func ReplyStatus(b []byte, t Type) (Header, Status, error) {
	h, v, err := expect(b, t)
	if err != nil {
		return Header{}, 0, err
	}
	return h, Status(v.u32(offStatus)), nil
}
