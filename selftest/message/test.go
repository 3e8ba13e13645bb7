package message

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Test requests and replies (selftest 2.3.1).
//
//	24         32        40        56      64        68     72          76       77
//	+----------+---------+---------+-------+---------+------+-----------+--------+------+
//	| reply ID | bulk ID | session | batch | service | loop | concurr.  | client | stop |
//	+----------+---------+---------+-------+---------+------+-----------+--------+------+
//	78             82           86              90
//	+--------------+------------+---------------+-----------+
//	| destinations | size       | flags         | -         | ping
//	|              | op         | pages         | flags     | brw without BulkLength
//	|              | op 2 flags 2 | length      | offset    | brw with it
//	+--------------+------------+---------------+-----------+
const (
	offTestSession      = 40
	offTestBatch        = 56
	offTestService      = 64
	offTestLoop         = 68
	offTestConcurrency  = 72
	offTestClient       = 76
	offTestStopOnError  = 77
	offTestDestinations = 78
	offTestParameters   = 82
)

// Limits of a test (selftest 4.8).
const (
	MaxConcurrency  = 1024
	MaxDestinations = 256 * DestinationsPerBlock
)

// TestRequest adds a test to a batch.
type TestRequest struct {
	Header
	ReplyID uint64
	BulkID  uint64 // match bits of the list of destinations, which the node GETs if Client is set
	Session SessionID
	Batch   uint64
	Tests   Service // ServiceBRW or ServicePing
	Loop    uint32  // number of RPCs of each unit; 2^31 or more means no end
	// Concurrency is the number of units for each destination.
	Concurrency  uint32
	Client       bool
	StopOnError  bool
	Destinations uint32
	// BRW or Ping contains the parameters, depending on Tests. The parameters of an unknown service are
	// decoded as those of a ping.
	BRW  BRWParameters
	Ping PingParameters
}

// BRWParameters are the parameters of a BRW client.
type BRWParameters struct {
	Op    uint32 // BRWRead or BRWWrite; 16 bits with BulkLength
	Flags uint32 // the Check of the bulk; 16 bits with BulkLength
	// Pages is the size in pages, used without BulkLength. Length and Offset, in bytes, are used with
	// BulkLength.
	Pages          uint32
	Length, Offset uint32
}

// Bytes returns the length of the bulk in bytes, given the features of the session. If the parameters are too
// large or not aligned, it returns a *lnet.FieldError. Such parameters can crash kernels, so no console and
// no client may use them (selftest 5).
func (p *BRWParameters) Bytes(f Features) (uint32, error) {
	wrong := func(field string, value any, format string, args ...any) (uint32, error) {
		return 0, &lnet.FieldError{What: "brw test", Field: field, Value: value, Err: fmt.Errorf(format, args...)}
	}
	length, field := p.Length, "length"
	if f&BulkLength == 0 {
		if p.Pages > MaxBulk/PageSize {
			return wrong("pages", p.Pages, "more than %d", MaxBulk/PageSize)
		}
		length, field = p.Pages*PageSize, "pages"
	}
	switch {
	case p.Op != BRWRead && p.Op != BRWWrite:
		return wrong("opc", p.Op, "neither read nor write")
	case !Check(p.Flags).Valid():
		return wrong("flags", p.Flags, "unknown check")
	case length < 8 || length > MaxBulk || length%8 != 0:
		return wrong(field, length, "not a multiple of 8 from 8 to %d", MaxBulk)
	case p.Offset%8 != 0:
		return wrong("offset", p.Offset, "not a multiple of 8")
	}
	pages := (length + PageSize - 1) / PageSize
	if p.Offset%PageSize+length > pages*PageSize {
		return wrong("offset", p.Offset, "%d bytes from there need more than %d pages", length, pages)
	}
	return length, nil
}

// PingParameters are the parameters of a ping test. Nodes do not use them.
type PingParameters struct{ Size, Flags uint32 }

// Service returns ServiceTest.
func (*TestRequest) Service() Service { return ServiceTest }

// Append appends the encoded message to b.
func (m *TestRequest) Append(b []byte) []byte {
	b, v := m.begin(b, TypeTestRequest)
	v.put64(offReplyID, m.ReplyID)
	v.put64(offBulkID, m.BulkID)
	v.putSessionID(offTestSession, m.Session)
	v.put64(offTestBatch, m.Batch)
	v.put32(offTestService, uint32(m.Tests))
	v.put32(offTestLoop, m.Loop)
	v.put32(offTestConcurrency, m.Concurrency)
	v.putBool(offTestClient, m.Client)
	v.putBool(offTestStopOnError, m.StopOnError)
	v.put32(offTestDestinations, m.Destinations)
	const p = offTestParameters
	switch {
	case m.Tests != ServiceBRW:
		v.put32(p, m.Ping.Size)
		v.put32(p+4, m.Ping.Flags)
	case m.Features&BulkLength == 0:
		v.put32(p, m.BRW.Op)
		v.put32(p+4, m.BRW.Pages)
		v.put32(p+8, m.BRW.Flags)
	default:
		v.put16(p, uint16(m.BRW.Op))
		v.put16(p+2, uint16(m.BRW.Flags))
		v.put32(p+4, m.BRW.Length)
		v.put32(p+8, m.BRW.Offset)
	}
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *TestRequest) Decode(b []byte) error {
	h, v, err := expect(b, TypeTestRequest)
	if err != nil {
		return err
	}
	*m = TestRequest{
		Header: h, ReplyID: v.u64(offReplyID), BulkID: v.u64(offBulkID), Session: v.sessionID(offTestSession),
		Batch: v.u64(offTestBatch), Tests: Service(v.u32(offTestService)), Loop: v.u32(offTestLoop),
		Concurrency: v.u32(offTestConcurrency), Client: v.u8(offTestClient) != 0,
		StopOnError: v.u8(offTestStopOnError) != 0, Destinations: v.u32(offTestDestinations),
	}
	const p = offTestParameters
	switch {
	case m.Tests != ServiceBRW:
		m.Ping = PingParameters{Size: v.u32(p), Flags: v.u32(p + 4)}
	case h.Features&BulkLength == 0:
		m.BRW = BRWParameters{Op: v.u32(p), Pages: v.u32(p + 4), Flags: v.u32(p + 8)}
	default:
		m.BRW = BRWParameters{
			Op: uint32(v.u16(p)), Flags: uint32(v.u16(p + 2)), Length: v.u32(p + 4), Offset: v.u32(p + 8),
		}
	}
	return nil
}

func (v view) putBool(off int, b bool) {
	if b {
		v.put8(off, 1)
	}
}

// TestReply answers a TestRequest.
type TestReply struct {
	Header
	Status  Status
	Session SessionID
}

// Append appends the encoded message to b.
func (m *TestReply) Append(b []byte) []byte {
	b, v := m.begin(b, TypeTestRequest.Reply())
	v.put32(offStatus, uint32(m.Status))
	v.putSessionID(offReplySession, m.Session)
	return b
}

// Decode decodes b into m. It returns ErrSize, ErrMagic or ErrType if b is not a message of this type.
func (m *TestReply) Decode(b []byte) error {
	h, v, err := expect(b, TypeTestRequest.Reply())
	if err != nil {
		return err
	}
	*m = TestReply{Header: h, Status: Status(v.u32(offStatus)), Session: v.sessionID(offReplySession)}
	return nil
}
