package protocol

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of the header of each record (transport 9.1).
//
//	 0 magic u32        bytes 4c 54 4e 44, "LTND"
//	 4 version u16      1
//	 6 opcode u16
//	 8 length u32       of the record, header included
//	12 sequence u32     a reply repeats its request's; 0 in a NOTICE
//	16 status i32       of a reply 0 or -errno, otherwise 0
//	20 flags u32        0
//
// HELLO and its reply always have version 1 here. This header and their bodies are the same in every
// version. Later records have the granted version.
const (
	// HeaderSize is the size of a Header in bytes.
	HeaderSize = 24
	// MaxRecord is the size of the longest record, in bytes.
	MaxRecord = 16 << 10
	// Version is the only version.
	Version = 1
	// MaxOutstanding is the maximum number of requests on one connection that lnetd has not answered yet.
	// Replies may arrive in any order, but lnetd carries out the requests for one transfer machine in order.
	MaxOutstanding = 16

	magic    = 0x444e544c
	maxErrno = 4095
	maxBody  = MaxRecord - HeaderSize
)

var (
	errMagic    = fmt.Errorf("must be %#x: %w", uint32(magic), syscall.EPROTO)
	errVersion  = fmt.Errorf("must be %d: %w", Version, syscall.EPROTO)
	errLength   = fmt.Errorf("differs from the number of bytes received: %w", syscall.EPROTO)
	errShort    = fmt.Errorf("not within %d to %d bytes: %w", HeaderSize, MaxRecord, syscall.EPROTO)
	errStatus   = fmt.Errorf("neither 0 nor the negative of an errno, -1 to -%d: %w", maxErrno, syscall.EPROTO)
	errHeadZero = fmt.Errorf("must be 0: %w", syscall.EPROTO)
	errTooLong  = fmt.Errorf("longer than %d bytes: %w", MaxRecord, syscall.EMSGSIZE)
)

// Header is the start of each record.
type Header struct {
	// Opcode may be unknown to this package.
	Opcode Opcode
	// Sequence is chosen by the client, and is repeated in the reply. Requests that are unanswered at the
	// same time must have different values.
	Sequence uint32
	// Status is 0 in a request and in a successful reply. If it is not 0, the request has failed and the body
	// is a text; see Failure.
	Status syscall.Errno
}

func (h *Header) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = binary.LittleEndian.AppendUint16(b, uint16(h.Opcode))
	b = binary.LittleEndian.AppendUint32(b, HeaderSize)
	b = binary.LittleEndian.AppendUint32(b, h.Sequence)
	b = binary.LittleEndian.AppendUint32(b, uint32(-int32(h.Status)))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// decode decodes the header of record, which must be a whole datagram, and returns the body.
func (h *Header) decode(record []byte) (body []byte, err error) {
	if len(record) < HeaderSize || len(record) > MaxRecord {
		return nil, headerError("record", len(record), errShort)
	}
	if v := binary.LittleEndian.Uint32(record); v != magic {
		return nil, headerError("magic", fmt.Sprintf("%#x", v), errMagic)
	}
	if v := binary.LittleEndian.Uint16(record[4:]); v != Version {
		return nil, headerError("version", v, errVersion)
	}
	if v := binary.LittleEndian.Uint32(record[8:]); v != uint32(len(record)) {
		return nil, headerError("length", v, errLength)
	}
	status := int32(binary.LittleEndian.Uint32(record[16:]))
	if status > 0 || status < -maxErrno {
		return nil, headerError("status", status, errStatus)
	}
	if v := binary.LittleEndian.Uint32(record[20:]); v != 0 {
		return nil, headerError("flags", v, errHeadZero)
	}
	*h = Header{
		Opcode:   Opcode(binary.LittleEndian.Uint16(record[6:])),
		Sequence: binary.LittleEndian.Uint32(record[12:]),
		Status:   syscall.Errno(-status),
	}
	return record[HeaderSize:], nil
}

func headerError(field string, value any, err error) error {
	return &lnet.FieldError{What: "header", Field: field, Value: value, Err: err}
}
