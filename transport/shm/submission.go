package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of a submission (transport 9.4). Numbers are little endian. The NID has the wire format.
//
//	   0         1       2       4         8          12         16
//	  +--------+-------+-------+---------+----------+----------+------------+
//	  | opcode | flags | 0     | buffer  |generation| operation| match bits |
//	  +--------+-------+-------+---------+----------+----------+------------+
//	   24        28            32        36         40         60           64
//	  +--------+---------------+---------+----------+----------+------------+
//	  | length | min receive   | max msgs| 0        | peer NID | peer PID   |
//	  +--------+---------------+---------+----------+----------+------------+
//	   64        68            72                                           128
//	  +--------+---------------+--------------------------------------------+
//	  | portal | TM id         | 0                                          |
//	  +--------+---------------+--------------------------------------------+

// SubmissionSize is the size of a submission in the ring, in bytes.
const SubmissionSize = 128

// flagMore is the only flag of a submission.
const flagMore = 1

// Opcode is the type of a submission.
type Opcode uint8

// Opcodes: one for each of the six queues of a TM, one that cancels an op, and one without effect.
const (
	OpMsgRecv Opcode = 1 + iota
	OpMsgSend
	OpPassiveRecv
	OpPassiveSend
	OpActiveRecv
	OpActiveSend
	OpCancel
	OpNop
)

// opcodes holds the names used in the specification.
var opcodes = [...]string{
	OpMsgRecv: "MSG_RECV", OpMsgSend: "MSG_SEND", OpPassiveRecv: "PASSIVE_RECV", OpPassiveSend: "PASSIVE_SEND",
	OpActiveRecv: "ACTIVE_RECV", OpActiveSend: "ACTIVE_SEND", OpCancel: "CANCEL", OpNop: "NOP",
}

// String returns the name of the opcode, or its number if it is invalid.
func (o Opcode) String() string {
	if o.valid() {
		return opcodes[o]
	}
	return fmt.Sprintf("opcode(%d)", uint8(o))
}

func (o Opcode) valid() bool { return o >= OpMsgRecv && o <= OpNop }

// Submission is a request of a client to lnetd, for one op. Fields that the opcode does not use are 0 and
// ignored.
type Submission struct {
	// Opcode determines the operation.
	Opcode Opcode
	// More means that the client is about to add another submission. It is a hint for lnetd.
	More bool
	// Buffer and Generation identify a registered buffer. Operation is the number of the op on this buffer;
	// for OpCancel, it is the number of the op to cancel.
	Buffer, Generation, Operation uint32
	// MatchBits are the match bits of the passive buffer: of this one for passive bulk, of the peer's for
	// active bulk.
	MatchBits uint64
	// Length is the number of bytes to move, for active bulk and for queues that send.
	Length uint32
	// MinReceive, in bytes, and MaxMessages apply to OpMsgRecv; see transport.Buffer.
	MinReceive, MaxMessages uint32
	// Peer, PID, Portal and TMID are the destination of a message or of active bulk. Peer is the zero NID
	// if the op has no destination. It is never the wildcard.
	Peer         lnet.NID
	PID          lnet.PID
	Portal, TMID uint32
}

var (
	errOpcode   = errors.New("unknown opcode")
	errFlags    = errors.New("unknown flags")
	errReserved = errors.New("must be 0")
	errWildcard = errors.New("must not be a wildcard")
)

// Put encodes s into b. It overwrites all bytes of b.
func (s *Submission) Put(b *[SubmissionSize]byte) {
	clear(b[:])
	b[0] = byte(s.Opcode)
	if s.More {
		b[1] = flagMore
	}
	binary.LittleEndian.PutUint32(b[4:], s.Buffer)
	binary.LittleEndian.PutUint32(b[8:], s.Generation)
	binary.LittleEndian.PutUint32(b[12:], s.Operation)
	binary.LittleEndian.PutUint64(b[16:], s.MatchBits)
	binary.LittleEndian.PutUint32(b[24:], s.Length)
	binary.LittleEndian.PutUint32(b[28:], s.MinReceive)
	binary.LittleEndian.PutUint32(b[32:], s.MaxMessages)
	s.Peer.AppendLarge(b[40:40:60])
	binary.LittleEndian.PutUint32(b[60:], uint32(s.PID))
	binary.LittleEndian.PutUint32(b[64:], s.Portal)
	binary.LittleEndian.PutUint32(b[68:], s.TMID)
}

// Decode decodes b, which must be a private copy of the entry in the ring. If the entry is invalid, Decode
// returns a *lnet.FieldError that matches EPROTO, and leaves s unchanged. It allocates only errors.
func (s *Submission) Decode(b *[SubmissionSize]byte) error {
	op, flags := Opcode(b[0]), b[1]
	switch {
	case !op.valid():
		return submissionError("opcode", b[0], errOpcode)
	case flags&^flagMore != 0:
		return submissionError("flags", flags, errFlags)
	case b[2]|b[3] != 0:
		return submissionError("bytes 2 to 3", nil, errReserved)
	case binary.LittleEndian.Uint32(b[36:]) != 0:
		return submissionError("bytes 36 to 39", nil, errReserved)
	case !zero(b[72:]):
		return submissionError("bytes 72 to 127", nil, errReserved)
	}
	peer, err := lnet.DecodeLarge(b[40:60])
	if err != nil {
		return submissionError("peer NID", nil, err)
	}
	if peer.IsAny() {
		return submissionError("peer NID", nil, errWildcard)
	}
	*s = Submission{
		Opcode:      op,
		More:        flags&flagMore != 0,
		Buffer:      binary.LittleEndian.Uint32(b[4:]),
		Generation:  binary.LittleEndian.Uint32(b[8:]),
		Operation:   binary.LittleEndian.Uint32(b[12:]),
		MatchBits:   binary.LittleEndian.Uint64(b[16:]),
		Length:      binary.LittleEndian.Uint32(b[24:]),
		MinReceive:  binary.LittleEndian.Uint32(b[28:]),
		MaxMessages: binary.LittleEndian.Uint32(b[32:]),
		Peer:        peer,
		PID:         lnet.PID(binary.LittleEndian.Uint32(b[60:])),
		Portal:      binary.LittleEndian.Uint32(b[64:]),
		TMID:        binary.LittleEndian.Uint32(b[68:]),
	}
	return nil
}

func submissionError(field string, value any, err error) error {
	return &lnet.FieldError{What: "submission", Field: field, Value: value, Err: fmt.Errorf("%w: %w", err, syscall.EPROTO)}
}

// zero reports whether all bytes of b are 0. The length of b must be a multiple of 8.
func zero(b []byte) bool {
	var or uint64
	for ; len(b) >= 8; b = b[8:] {
		or |= binary.LittleEndian.Uint64(b)
	}
	return or == 0
}
