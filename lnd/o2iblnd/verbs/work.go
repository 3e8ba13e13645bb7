package verbs

import "fmt"

// The values below have the layout of the shim's C structures (o2iblnd 19.2), which get them without
// conversion.

// Recv is a buffer for one message.
type Recv struct {
	WRID uint64
	Addr uint64
	Len  uint32
	LKey uint32
}

// Piece is contiguous registered memory.
type Piece struct {
	Addr uint64
	Len  uint32
	LKey uint32
}

// Opcode is the operation of a request.
type Opcode uint8

// Operations.
const (
	Send      Opcode = 0
	RDMAWrite Opcode = 1
)

// Flags of a request.
type Flags uint8

const (
	// FlagSignalled asks for a completion.
	FlagSignalled Flags = 1
	// FlagInline copies the bytes, at most QP.Inline, before Post returns. Their memory can then be
	// reused at once.
	FlagInline Flags = 2
)

// Request is a work request of the send queue. Its memory is Count pieces, from index First on, of the
// pieces passed to Post.
type Request struct {
	WRID   uint64
	Remote uint64 // for RDMAWrite, with RKey
	RKey   uint32
	First  uint16
	Count  uint16
	Op     Opcode
	Flags  Flags
	_      [6]byte
}

// Status is the result of a work request. The numbers are those of libibverbs.
type Status uint8

// Statuses (o2iblnd 11).
const (
	Success          Status = 0
	LocalLengthError Status = 1  // a message longer than the buffer
	LocalQPError     Status = 2  //
	LocalProtection  Status = 4  // a key does not match the local memory
	Flushed          Status = 5  // the queue pair was in the error state
	RemoteInvalid    Status = 9  // the peer could not receive the message
	RemoteAccess     Status = 10 // the peer's key does not allow the access
	RemoteOperation  Status = 11 // the peer's own queue pair failed
	RetryExceeded    Status = 12 // the peer does not acknowledge
	RNRExceeded      Status = 13 // the peer has no buffer posted
	GeneralError     Status = 21
)

var statusNames = map[Status]string{
	Success: "success", LocalLengthError: "local length error", LocalQPError: "local queue pair error",
	LocalProtection: "local protection error", Flushed: "flushed", RemoteInvalid: "remote invalid request",
	RemoteAccess: "remote access error", RemoteOperation: "remote operation error",
	RetryExceeded: "transport retries exceeded", RNRExceeded: "receiver not ready, retries exceeded",
	GeneralError: "general error",
}

func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprint("status ", uint8(s))
}

// CompletionOp is the operation that completed. It is undefined if that failed.
type CompletionOp uint8

// Completed operations.
const (
	CompletedSend  CompletionOp = 0
	CompletedWrite CompletionOp = 1
	CompletedRecv  CompletionOp = 128
)

// Completion is the end of a work request. With a Status other than Success, only WRID,
// QPN and Vendor are meaningful.
type Completion struct {
	WRID   uint64
	QPN    uint32
	Bytes  uint32 // received
	Status Status
	Op     CompletionOp
	_      [2]byte
	Vendor uint32
}
