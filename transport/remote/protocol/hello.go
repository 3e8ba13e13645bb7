package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
)

// Layout of the body of a HELLO (transport 9.2).
//
//	 0 lowest version u16      1 or more
//	 2 highest version u16     lowest or more
//	 4 0 u32
//	 8 features wanted u64     unknown ones are not granted
//	16 features required u64   unknown ones are EOPNOTSUPP
//	24 program [32]            text, NUL terminated, NULs to the end
//	56
const (
	helloSize = 56
	// MaxProgram is the maximum length of a program's name, in bytes.
	MaxProgram  = programSize - 1
	programSize = 32
)

// Hello is the first request on a connection. It must be sent exactly once.
type Hello struct {
	// Lowest and Highest are the range of versions that the client supports.
	Lowest, Highest uint16
	// Wanted are features that lnetd grants if it can. Required are features without which the request fails.
	Wanted, Required Features
	// Program is the name of the client that lnetd shows to its administrator. It is truncated to MaxProgram
	// bytes, and bytes other than printable ASCII become "?".
	Program string
}

var (
	errVersions   = fmt.Errorf("below the lowest version: %w", syscall.EINVAL)
	errProgram    = fmt.Errorf("must be a name followed only by NUL bytes: %w", syscall.EINVAL)
	errNoVersion  = fmt.Errorf("this side only supports version %d: %w", Version, syscall.EPROTO)
	errNotOffered = fmt.Errorf("was not requested: %w", syscall.EPROTO)
	errFeature    = fmt.Errorf("not supported by lnetd: %w", syscall.EOPNOTSUPP)
)

// Opcode returns OpHello.
func (*Hello) Opcode() Opcode { return OpHello }

// Append implements Body. It appends the encoded body to b.
func (h *Hello) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, h.Lowest)
	b = binary.LittleEndian.AppendUint16(b, h.Highest)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Wanted))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Required))
	end := len(b) + programSize
	b = appendText(b, h.Program, MaxProgram)
	return append(b, make([]byte, end-len(b))...)
}

// Decode implements Body. It accepts unknown features.
func (h *Hello) Decode(b []byte) error {
	if err := checkLength("hello", b, helloSize); err != nil {
		return err
	}
	lowest, highest := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])
	if lowest == 0 {
		return fieldError("hello", "lowest version", lowest, errIsZero)
	}
	if highest < lowest {
		return fieldError("hello", "highest version", highest, errVersions)
	}
	if err := zero32("hello", b, 4); err != nil {
		return err
	}
	program := b[24:helloSize]
	name := bytes.TrimRight(program, "\x00")
	if len(name) == programSize || bytes.IndexByte(name, 0) >= 0 {
		return fieldError("hello", "program", shownText(program, programSize), errProgram)
	}
	*h = Hello{
		Lowest: lowest, Highest: highest,
		Wanted:   Features(binary.LittleEndian.Uint64(b[8:])),
		Required: Features(binary.LittleEndian.Uint64(b[16:])),
		Program:  shownText(name, MaxProgram),
	}
	return nil
}

// Negotiate returns the version and features that lnetd grants, given the features that it offers. It returns
// EPROTO if the client does not support lnetd's version, and EOPNOTSUPP if lnetd does not offer a required
// feature. The errors can be passed to AppendFailure.
func (h *Hello) Negotiate(offered Features) (version uint16, granted Features, err error) {
	switch missing := h.Required &^ offered; {
	case h.Lowest > Version:
		return 0, 0, fieldError("hello", "lowest version", h.Lowest, errNoVersion)
	case h.Highest < Version:
		return 0, 0, fieldError("hello", "highest version", h.Highest, errNoVersion)
	case missing != 0:
		return 0, 0, fieldError("hello", "features required", missing, errFeature)
	}
	return Version, (h.Wanted | h.Required) & offered, nil
}

// Check validates lnetd's reply to h; the client calls it. It returns EPROTO if the reply grants a version or
// feature that h has not requested, and EOPNOTSUPP if a required feature is missing.
func (h *Hello) Check(r *HelloReply) error {
	if r.Version < h.Lowest || r.Version > h.Highest {
		return fieldError("hello reply", "version", r.Version, errNotOffered)
	}
	if extra := r.Features &^ (h.Wanted | h.Required); extra != 0 {
		return fieldError("hello reply", "features", extra, errNotOffered)
	}
	if missing := h.Required &^ r.Features; missing != 0 {
		return fieldError("hello reply", "features", missing, errFeature)
	}
	return nil
}

// Layout of the body of the reply to a HELLO (transport 9.2).
//
//	 0 version u16
//	 2 0 u16
//	 4 0 u32
//	 8 features u64
//	16 buffer size u64        limits: 1 to 2^32-1 bytes
//	24 segment size u64       1 to 2^32-1 bytes
//	32 segments u32           1 to 1022
//	36 descriptor size u32    1 or more bytes
//	40 TMs u32                quotas
//	44 buffers u32
//	48 areas u32
//	52 ring entries u32       of all completion rings
//	56 bytes u64              of all areas
//	64 incarnation u64
//	72 now u64                lnetd's CLOCK_MONOTONIC, in ns
//	80 connection u64         1 or more
//	88
const helloReplySize = 88

// HelloReply is the reply to Hello. It contains the parameters of the connection.
type HelloReply struct {
	// Version is the version of all later records.
	Version uint16
	// Features are the features that lnetd has granted.
	Features Features
	Limits   Limits
	Quotas   Quotas
	// Incarnation is different after each start of lnetd.
	Incarnation uint64
	// Now is lnetd's CLOCK_MONOTONIC at the time of the reply, in nanoseconds. The times in completions are
	// times of this clock.
	Now uint64
	// Connection is the number of the connection in lnetd's logs and commands. It is unique during a run of
	// lnetd.
	Connection uint64
}

// Limits are the limits of buffers (transport 3.4). The sizes are in bytes. Segments is the maximum number of
// segments of a buffer, at most MaxRanges.
type Limits struct {
	BufferSize, SegmentSize  uint64
	Segments, DescriptorSize uint32
}

// Quotas limit the resources of a connection (transport 9.8). RingEntries limits the total number of
// completion entries of its TMs, and Bytes the total size of its areas.
type Quotas struct {
	TMs, Buffers, Areas, RingEntries uint32
	Bytes                            uint64
}

// Append implements Body. It appends the encoded body to b.
func (r *HelloReply) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, r.Version)
	b = append(b, make([]byte, 6)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Features))
	b = binary.LittleEndian.AppendUint64(b, r.Limits.BufferSize)
	b = binary.LittleEndian.AppendUint64(b, r.Limits.SegmentSize)
	b = binary.LittleEndian.AppendUint32(b, r.Limits.Segments)
	b = binary.LittleEndian.AppendUint32(b, r.Limits.DescriptorSize)
	b = binary.LittleEndian.AppendUint32(b, r.Quotas.TMs)
	b = binary.LittleEndian.AppendUint32(b, r.Quotas.Buffers)
	b = binary.LittleEndian.AppendUint32(b, r.Quotas.Areas)
	b = binary.LittleEndian.AppendUint32(b, r.Quotas.RingEntries)
	b = binary.LittleEndian.AppendUint64(b, r.Quotas.Bytes)
	b = binary.LittleEndian.AppendUint64(b, r.Incarnation)
	b = binary.LittleEndian.AppendUint64(b, r.Now)
	return binary.LittleEndian.AppendUint64(b, r.Connection)
}

// Decode implements Body. It decodes b, which is the whole body.
func (r *HelloReply) Decode(b []byte) error {
	if err := checkLength("hello reply", b, helloReplySize); err != nil {
		return err
	}
	v := HelloReply{
		Version:  binary.LittleEndian.Uint16(b),
		Features: Features(binary.LittleEndian.Uint64(b[8:])),
		Limits: Limits{
			BufferSize:     binary.LittleEndian.Uint64(b[16:]),
			SegmentSize:    binary.LittleEndian.Uint64(b[24:]),
			Segments:       binary.LittleEndian.Uint32(b[32:]),
			DescriptorSize: binary.LittleEndian.Uint32(b[36:]),
		},
		Quotas: Quotas{
			TMs:         binary.LittleEndian.Uint32(b[40:]),
			Buffers:     binary.LittleEndian.Uint32(b[44:]),
			Areas:       binary.LittleEndian.Uint32(b[48:]),
			RingEntries: binary.LittleEndian.Uint32(b[52:]),
			Bytes:       binary.LittleEndian.Uint64(b[56:]),
		},
		Incarnation: binary.LittleEndian.Uint64(b[64:]),
		Now:         binary.LittleEndian.Uint64(b[72:]),
		Connection:  binary.LittleEndian.Uint64(b[80:]),
	}
	if v.Version == 0 {
		return fieldError("hello reply", "version", v.Version, errIsZero)
	}
	if v.Connection == 0 {
		return fieldError("hello reply", "connection", v.Connection, errIsZero)
	}
	if zero := binary.LittleEndian.Uint16(b[2:]); zero != 0 {
		return fieldError("hello reply", "reserved half word at 2", zero, errZero)
	}
	if err := zero32("hello reply", b, 4); err != nil {
		return err
	}
	if err := v.Limits.check(); err != nil {
		return err
	}
	*r = v
	return nil
}

// check returns an error if a limit is invalid. Lengths must fit in the 32 bits of ring entries, and a list
// of Segments ranges in a record.
func (l *Limits) check() error {
	switch {
	case l.BufferSize == 0 || l.BufferSize > math.MaxUint32:
		return errOutsideRange("hello reply", "buffer size", l.BufferSize, 1, math.MaxUint32)
	case l.SegmentSize == 0 || l.SegmentSize > math.MaxUint32:
		return errOutsideRange("hello reply", "segment size", l.SegmentSize, 1, math.MaxUint32)
	case l.Segments == 0 || l.Segments > MaxRanges:
		return errOutsideRange("hello reply", "segments", uint64(l.Segments), 1, MaxRanges)
	case l.DescriptorSize == 0:
		return fieldError("hello reply", "descriptor size", l.DescriptorSize, errIsZero)
	}
	return nil
}
