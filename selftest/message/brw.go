package message

import "fmt"

// Requests and replies of the BRW (bulk read/write) test (selftest 2.3, 5).
//
//	24          32        40   44       48
//	+-----------+---------+----+--------+-------+
//	| reply ID  | bulk ID | op | length | flags |
//	+-----------+---------+----+--------+-------+
const (
	offBRWOp     = 40
	offBRWLength = 44
	offBRWFlags  = 48
)

// Limits of a bulk in bytes.
const (
	MaxBulk  = 1 << 20
	PageSize = 4096 // unit of sizes without BulkLength
)

// Operations of a BRW, from the client's point of view.
const (
	BRWRead  = 1
	BRWWrite = 2
)

// Check selects which words of a bulk the receiver checks.
type Check uint32

// The checks.
const (
	CheckNone    Check = 1
	CheckSimple  Check = 2
	CheckFull    Check = 3
	CheckDiscard Check = 4 // checks no words, and lets the receiver discard the data
)

// Valid reports whether c is one of the checks.
func (c Check) Valid() bool { return c >= CheckNone && c <= CheckDiscard }

// Looks reports whether c checks any words.
func (c Check) Looks() bool { return c == CheckSimple || c == CheckFull }

func (c Check) String() string {
	switch c {
	case CheckNone:
		return "none"
	case CheckSimple:
		return "simple"
	case CheckFull:
		return "full"
	case CheckDiscard:
		return "discard"
	}
	return fmt.Sprintf("check %d", uint32(c))
}

// BRWRequest requests a server to PUT a bulk into the client's memory, or to GET one from it.
type BRWRequest struct {
	Header
	ReplyID uint64
	BulkID  uint64
	Op      uint32 // BRWRead or BRWWrite
	Length  uint32 // bytes
	Check   Check
}

// Service returns ServiceBRW.
func (*BRWRequest) Service() Service { return ServiceBRW }

// Append appends the encoded message to b.
func (m *BRWRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeBRWRequest)
	v.put64(offReplyID, m.ReplyID)
	v.put64(offBulkID, m.BulkID)
	v.put32(offBRWOp, m.Op)
	v.put32(offBRWLength, m.Length)
	v.put32(offBRWFlags, uint32(m.Check))
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *BRWRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeBRWRequest)
	if err != nil {
		return err
	}
	*m = BRWRequest{
		Header: h, ReplyID: v.u64(offReplyID), BulkID: v.u64(offBulkID), Op: v.u32(offBRWOp),
		Length: v.u32(offBRWLength), Check: Check(v.u32(offBRWFlags)),
	}
	return nil
}

// BRWReply answers a BRWRequest.
type BRWReply struct {
	Header
	Status Status
}

// Append appends the encoded message to b.
func (m *BRWReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeBRWRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *BRWReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeBRWRequest.Reply())
	if err != nil {
		return err
	}
	*m = BRWReply{Header: h, Status: Status(v.u32(offStatus))}
	return nil
}
