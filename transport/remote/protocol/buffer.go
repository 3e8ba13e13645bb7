package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
)

// Layouts of the bodies of BUF_REGISTER, its reply and BUF_DEREGISTER (transport 9.2).
//
//	BUF_REGISTER                 reply                  BUF_DEREGISTER
//	 0 count u32, 1 to 1022      0 index u32            0 index u32
//	 4 0 u32                     4 generation u32       4 generation u32
//	 then, count times:          8                      8
//	 0 area u32
//	 4 length u32, 1 or more
//	 8 offset u64
//	16
const (
	registerHead = 8
	rangeSize    = 16
	bufferSize   = 8
	// MaxRanges is the maximum number of ranges in one BUF_REGISTER.
	MaxRanges = (maxBody - registerHead) / rangeSize
)

// Range is a part of an area.
type Range struct {
	Area uint32
	// Length is in bytes, more than 0. Offset + Length is less than 2^64. lnetd checks that the range is
	// within the area.
	Length uint32
	Offset uint64
}

// BufRegister registers a buffer whose memory consists of the given ranges, in this order.
type BufRegister struct {
	// Ranges has 1 to MaxRanges elements. They may overlap.
	Ranges []Range
}

var (
	errNoRange  = fmt.Errorf("there is no range: %w", syscall.EINVAL)
	errOverflow = fmt.Errorf("range ends beyond 64 bits: %w", syscall.EINVAL)
)

// Opcode returns OpBufRegister.
func (*BufRegister) Opcode() Opcode { return OpBufRegister }

// Append implements Body. It appends the encoded body to b.
func (r *BufRegister) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Ranges)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, part := range r.Ranges {
		b = binary.LittleEndian.AppendUint32(b, part.Area)
		b = binary.LittleEndian.AppendUint32(b, part.Length)
		b = binary.LittleEndian.AppendUint64(b, part.Offset)
	}
	return b
}

// Decode implements Body. It decodes b, which is the whole body.
func (r *BufRegister) Decode(b []byte) error {
	n, err := decodeCount("buffer", b, registerHead, rangeSize, MaxRanges)
	if err != nil {
		return err
	}
	if n == 0 {
		return fieldError("buffer", "count", n, errNoRange)
	}
	if err := zero32("buffer", b, 4); err != nil {
		return err
	}
	ranges := make([]Range, n)
	for i := range ranges {
		at := b[registerHead+i*rangeSize:]
		part := Range{
			Area:   binary.LittleEndian.Uint32(at),
			Length: binary.LittleEndian.Uint32(at[4:]),
			Offset: binary.LittleEndian.Uint64(at[8:]),
		}
		if part.Length == 0 {
			return fieldError("buffer", fmt.Sprintf("range %d: length", i), part.Length, errIsZero)
		}
		if part.Offset > math.MaxUint64-uint64(part.Length) {
			return fieldError("buffer", fmt.Sprintf("range %d: offset", i), part.Offset, errOverflow)
		}
		ranges[i] = part
	}
	r.Ranges = ranges
	return nil
}

// BufRegisterReply identifies the new buffer in later requests and in ring entries. When lnetd reuses an
// index for another buffer, Generation is different.
type BufRegisterReply struct {
	Index, Generation uint32
}

// Append implements Body. It appends the encoded body to b.
func (r *BufRegisterReply) Append(b []byte) []byte { return appendBuffer(b, r.Index, r.Generation) }

// Decode implements Body. It decodes b, which is the whole body.
func (r *BufRegisterReply) Decode(b []byte) error {
	if err := checkLength("buffer reply", b, bufferSize); err != nil {
		return err
	}
	r.Index, r.Generation = decodeBuffer(b)
	return nil
}

// BufDeregister deregisters a buffer. The request fails with EBUSY while an operation on the buffer is in
// progress. The reply is Empty.
type BufDeregister struct {
	Index, Generation uint32
}

// Opcode returns OpBufDeregister.
func (*BufDeregister) Opcode() Opcode { return OpBufDeregister }

// Append implements Body. It appends the encoded body to b.
func (d *BufDeregister) Append(b []byte) []byte { return appendBuffer(b, d.Index, d.Generation) }

// Decode implements Body. It decodes b, which is the whole body.
func (d *BufDeregister) Decode(b []byte) error {
	if err := checkLength("buffer to deregister", b, bufferSize); err != nil {
		return err
	}
	d.Index, d.Generation = decodeBuffer(b)
	return nil
}

func appendBuffer(b []byte, index, generation uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, index)
	return binary.LittleEndian.AppendUint32(b, generation)
}

func decodeBuffer(b []byte) (index, generation uint32) {
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
}
