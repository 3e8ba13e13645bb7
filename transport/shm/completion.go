package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of a completion (transport 9.4). Numbers are little endian. The NID has the wire format.
//
//	   0        4           8          12        16        20        24
//	  +--------+-----------+----------+---------+---------+---------+--------------+
//	  | buffer | generation| operation| status  | length  | offset  | time         |
//	  +--------+-----------+----------+---------+---------+---------+--------------+
//	   32                              52        56        58   60    61           64
//	  +-------------------------------+---------+---------+----+-----+-------------+
//	  | sender NID                    | PID     | portal  |TMid|flags| 0           |
//	  +-------------------------------+---------+---------+----+-----+-------------+

// CompletionSize is the size of a completion in the ring, in bytes.
const CompletionSize = 64

// Flags of a completion.
const (
	flagFinal = 1 << iota
	flagRejected
	flagTM
)

// maxErrno is the largest errno of the kernel.
const maxErrno = 4095

// Completion reports the progress of an op, or a change of the TM, to a client.
type Completion struct {
	// Buffer, Generation and Operation are copied from the submission of the op. They are 0 if TM is set.
	Buffer, Generation, Operation uint32
	// Errno is 0 on success, and at most 4095.
	Errno syscall.Errno
	// Length is the number of bytes moved, and Offset is their position in the buffer.
	Length, Offset uint32
	// Time is when lnetd received the event, in nanoseconds of CLOCK_MONOTONIC.
	Time uint64
	// Sender, PID, Portal and TMID are the address of the sender of a message. Sender is the zero NID if the
	// sender is unknown. It is never the wildcard.
	Sender       lnet.NID
	PID          lnet.PID
	Portal, TMID uint16
	// Final means that this is the last completion of the op. Rejected means that lnetd did not begin the op.
	// TM means that the completion concerns the TM, not an op.
	Final, Rejected, TM bool
}

var (
	errStatus = errors.New("neither 0 nor the negative of an errno")
	errNoOp   = errors.New("must be 0 in a completion about the TM")
)

// Put encodes c into b. It overwrites all bytes of b.
func (c *Completion) Put(b *[CompletionSize]byte) {
	binary.LittleEndian.PutUint32(b[0:], c.Buffer)
	binary.LittleEndian.PutUint32(b[4:], c.Generation)
	binary.LittleEndian.PutUint32(b[8:], c.Operation)
	binary.LittleEndian.PutUint32(b[12:], -uint32(c.Errno))
	binary.LittleEndian.PutUint32(b[16:], c.Length)
	binary.LittleEndian.PutUint32(b[20:], c.Offset)
	binary.LittleEndian.PutUint64(b[24:], c.Time)
	c.Sender.AppendLarge(b[32:32:52])
	binary.LittleEndian.PutUint32(b[52:], uint32(c.PID))
	binary.LittleEndian.PutUint16(b[56:], c.Portal)
	binary.LittleEndian.PutUint16(b[58:], c.TMID)
	b[60], b[61], b[62], b[63] = c.flags(), 0, 0, 0
}

func (c *Completion) flags() (f byte) {
	if c.Final {
		f |= flagFinal
	}
	if c.Rejected {
		f |= flagRejected
	}
	if c.TM {
		f |= flagTM
	}
	return f
}

// Decode decodes b, which must be a private copy of the entry in the ring. If lnetd cannot have written it,
// Decode returns a *lnet.FieldError that matches EPROTO, and leaves c unchanged. It allocates only errors.
func (c *Completion) Decode(b *[CompletionSize]byte) error {
	flags := b[60]
	status := int32(binary.LittleEndian.Uint32(b[12:]))
	switch {
	case flags&^(flagFinal|flagRejected|flagTM) != 0:
		return completionError("flags", flags, errFlags)
	case b[61]|b[62]|b[63] != 0:
		return completionError("bytes 61 to 63", nil, errReserved)
	case status > 0 || status < -maxErrno:
		return completionError("status", status, errStatus)
	case flags&flagTM != 0 && (!zero(b[0:8]) || binary.LittleEndian.Uint32(b[8:]) != 0):
		return completionError("bytes 0 to 11", nil, errNoOp)
	}
	sender, err := lnet.DecodeLarge(b[32:52])
	if err != nil {
		return completionError("sender NID", nil, err)
	}
	if sender.IsAny() {
		return completionError("sender NID", nil, errWildcard)
	}
	*c = Completion{
		Buffer:     binary.LittleEndian.Uint32(b[0:]),
		Generation: binary.LittleEndian.Uint32(b[4:]),
		Operation:  binary.LittleEndian.Uint32(b[8:]),
		Errno:      syscall.Errno(-status),
		Length:     binary.LittleEndian.Uint32(b[16:]),
		Offset:     binary.LittleEndian.Uint32(b[20:]),
		Time:       binary.LittleEndian.Uint64(b[24:]),
		Sender:     sender,
		PID:        lnet.PID(binary.LittleEndian.Uint32(b[52:])),
		Portal:     binary.LittleEndian.Uint16(b[56:]),
		TMID:       binary.LittleEndian.Uint16(b[58:]),
		Final:      flags&flagFinal != 0,
		Rejected:   flags&flagRejected != 0,
		TM:         flags&flagTM != 0,
	}
	return nil
}

func completionError(field string, value any, err error) error {
	return &lnet.FieldError{What: "completion", Field: field, Value: value, Err: fmt.Errorf("%w: %w", err, syscall.EPROTO)}
}
