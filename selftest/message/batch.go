package message

import "fmt"

// Batch requests and replies (selftest 2.3).
//
//	24          32          48         56        60        64
//	+-----------+-----------+----------+---------+---------+-----+
//	| reply ID  | session   | batch    | op      | test    | arg |
//	+-----------+-----------+----------+---------+---------+-----+
//	24       28        44        48
//	+--------+---------+---------+------+
//	| status | session | active  | time |
//	+--------+---------+---------+------+
const (
	offBatchID   = 48
	offBatchOp   = 56
	offBatchTest = 60
	offBatchArg  = 64

	offBatchActive = 44
	offBatchTime   = 48
)

// BatchOp is an operation on a batch.
type BatchOp uint32

// The operations.
const (
	BatchRun   BatchOp = 1
	BatchStop  BatchOp = 2
	BatchQuery BatchOp = 3
)

func (o BatchOp) String() string {
	switch o {
	case BatchRun:
		return "run"
	case BatchStop:
		return "stop"
	case BatchQuery:
		return "query"
	}
	return fmt.Sprintf("batch operation %d", uint32(o))
}

// BatchRequest starts, stops or queries a batch.
type BatchRequest struct {
	Header
	ReplyID uint64
	Session SessionID
	Batch   uint64
	Op      BatchOp
	Test    uint32 // for BatchQuery: index of a test from 1, or 0 for the batch
	Arg     uint32 // for BatchRun: a timeout, which nodes ignore; for BatchStop: not 0 if RPCs are to be aborted
}

// Service returns ServiceBatch.
func (*BatchRequest) Service() Service { return ServiceBatch }

// Append appends the encoded message to b.
func (m *BatchRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeBatchRequest)
	v.put64(offReplyID, m.ReplyID)
	v.putSessionID(offSession, m.Session)
	v.put64(offBatchID, m.Batch)
	v.put32(offBatchOp, uint32(m.Op))
	v.put32(offBatchTest, m.Test)
	v.put32(offBatchArg, m.Arg)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *BatchRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeBatchRequest)
	if err != nil {
		return err
	}
	*m = BatchRequest{
		Header: h, ReplyID: v.u64(offReplyID), Session: v.sessionID(offSession), Batch: v.u64(offBatchID),
		Op: BatchOp(v.u32(offBatchOp)), Test: v.u32(offBatchTest), Arg: v.u32(offBatchArg),
	}
	return nil
}

// BatchReply answers a BatchRequest. A kernel misreads Active if its byte order is not that of the sender
// (selftest 1.1).
type BatchReply struct {
	Header
	Status  Status
	Session SessionID
	Active  uint32 // for BatchQuery: number of active tests of the batch, or of active units of the test
	Time    uint32 // unused
}

// Append appends the encoded message to b.
func (m *BatchReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeBatchRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.putSessionID(offReplySession, m.Session)
	v.put32(offBatchActive, m.Active)
	v.put32(offBatchTime, m.Time)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *BatchReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeBatchRequest.Reply())
	if err != nil {
		return err
	}
	*m = BatchReply{
		Header: h, Status: Status(v.u32(offStatus)), Session: v.sessionID(offReplySession),
		Active: v.u32(offBatchActive), Time: v.u32(offBatchTime),
	}
	return nil
}
