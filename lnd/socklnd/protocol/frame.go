package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of the frame before each message of V2 to V4, in the byte order of
// the sender's HELLO (socklnd 8.1).
//
//	 0 type u32         0xc0 NOOP, 0xc1 LNET
//	 4 csum u32         0: none
//	 8 zc_cookies[0] u64
//	16 zc_cookies[1] u64
const (
	// FrameSize is the size of a Frame in bytes.
	FrameSize = 24

	// FrameNoop is the type of a frame that stands alone.
	FrameNoop uint32 = 0xc0
	// FrameLNet is the type of a frame that an LNet header and payload
	// follow.
	FrameLNet uint32 = 0xc1
)

// ErrFrameType is in the chain of errors about a frame of unknown type.
var ErrFrameType = errors.New("neither NOOP (0xc0) nor LNET (0xc1)")

// Frame is the header that the driver puts before each message.
type Frame struct {
	// Type is FrameNoop or FrameLNet.
	Type uint32
	// Checksum is 0 when there is none. We send 0 (socklnd 9).
	Checksum uint32
	// Request is zc_cookies[0]: in an LNET frame the cookie of a zero-copy
	// request, 0 for none; in a NOOP the first value of an acknowledgement.
	// Ack is zc_cookies[1]: an acknowledged cookie, 0 for none. See
	// Acknowledged.
	Request, Ack uint64
}

// Append appends the FrameSize bytes of f.
func (f *Frame) Append(b []byte, order binary.AppendByteOrder) []byte {
	b = order.AppendUint32(b, f.Type)
	b = order.AppendUint32(b, f.Checksum)
	b = order.AppendUint64(b, f.Request)
	return order.AppendUint64(b, f.Ack)
}

// Put writes f into the first FrameSize bytes of b.
func (f *Frame) Put(b []byte, order binary.ByteOrder) {
	_ = b[FrameSize-1]
	order.PutUint32(b, f.Type)
	order.PutUint32(b[4:], f.Checksum)
	order.PutUint64(b[8:], f.Request)
	order.PutUint64(b[16:], f.Ack)
}

// Decode reads f from the first FrameSize bytes of b. A short b is
// io.ErrUnexpectedEOF, an unknown type a *lnet.FieldError with ErrFrameType;
// f is then unchanged.
func (f *Frame) Decode(b []byte, order binary.ByteOrder) error {
	if len(b) < FrameSize {
		return fmt.Errorf("frame: %d bytes of %d: %w", len(b), FrameSize, io.ErrUnexpectedEOF)
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
