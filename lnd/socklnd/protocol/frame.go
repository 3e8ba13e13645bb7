package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of the frame before each message in V2 to V4, in the byte order of the sender's HELLO
// (socklnd 8.1).
//
//	 0 type u32         0xc0 NOOP, 0xc1 LNET
//	 4 csum u32         0: none
//	 8 zc_cookies[0] u64
//	16 zc_cookies[1] u64
const (
	// FrameSize is the size of a Frame in bytes.
	FrameSize = 24

	// FrameNoop is the type of a frame without an LNet message.
	FrameNoop uint32 = 0xc0
	// FrameLNet is the type of a frame that is followed by an LNet header and payload.
	FrameLNet uint32 = 0xc1
)

// ErrFrameType is wrapped by the error for a frame of unknown type.
var ErrFrameType = errors.New("neither NOOP (0xc0) nor LNET (0xc1)")

// Frame is the header of the driver, which precedes each message.
type Frame struct {
	// Type is FrameNoop or FrameLNet.
	Type uint32
	// Checksum is 0 in a frame without a checksum (socklnd 9).
	Checksum uint32
	// Request is zc_cookies[0]. In an LNET frame it is the cookie of a zero-copy request, or 0. In a NOOP it is
	// the first value of an acknowledgement of several cookies, or 0. Ack is zc_cookies[1]: an acknowledged
	// cookie, or 0. See Acknowledged.
	Request, Ack uint64
}

// Append appends the encoded frame, which has FrameSize bytes.
func (f *Frame) Append(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint32(b, f.Type)
	b = order.AppendUint32(b, f.Checksum)
	b = order.AppendUint64(b, f.Request)
	return order.AppendUint64(b, f.Ack)
}

// Put encodes f into the first FrameSize bytes of b.
func (f *Frame) Put(b []byte, order binary.ByteOrder) {
	_ = b[FrameSize-1]
	order.PutUint32(b, f.Type)
	order.PutUint32(b[4:], f.Checksum)
	order.PutUint64(b[8:], f.Request)
	order.PutUint64(b[16:], f.Ack)
}

// Decode decodes the first FrameSize bytes of b into f. It returns io.ErrUnexpectedEOF if b is too short, and a
// *lnet.FieldError with ErrFrameType if the type is unknown. On an error f is unchanged.
func (f *Frame) Decode(b []byte, order binary.ByteOrder) error {
	if len(b) < FrameSize {
		return fmt.Errorf("frame: %d of %d bytes: %w", len(b), FrameSize, io.ErrUnexpectedEOF)
	}
	t := order.Uint32(b)
	if t != FrameNoop && t != FrameLNet {
		return &lnet.FieldError{What: "frame", Field: "type", Value: t, Err: ErrFrameType}
	}
	f.Type = t
	f.Checksum = order.Uint32(b[4:])
	f.Request = order.Uint64(b[8:])
	f.Ack = order.Uint64(b[16:])
	return nil
}
