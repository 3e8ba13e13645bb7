package verbs

import "fmt"

// The types below have the layout of structures of the C shim in package rdmacore (o2iblnd 19.2), so that they
// are passed to it without conversion.

// Recv is a receive: a buffer for one message. WRID is the ID of the work request, which its completion
// contains.
type Recv struct {
	WRID uint64
	Addr uint64
	Len  uint32
	LKey uint32
}

// Piece is a contiguous part of registered memory.
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
	// FlagInline makes Post copy the bytes of the request, at most QP.Inline. Their memory can be reused as
	// soon as Post returns.
	FlagInline Flags = 2
)

// Request is a work request of the send queue. WRID is its ID, which its completion contains. Its memory is
// Count of the pieces passed to Post, from the index First on.
type Request struct {
	WRID   uint64
	Remote uint64 // the address at the peer, for RDMAWrite, with the key RKey
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
	LocalLengthError Status = 1  // a message was longer than its receive
	LocalQPError     Status = 2  // the queue pair does not permit the request
	LocalProtection  Status = 4  // a key does not match the local memory
	Flushed          Status = 5  // the queue pair was in the error state
	RemoteInvalid    Status = 9  // the peer could not receive the message
	RemoteAccess     Status = 10 // the key does not allow the access at the peer
	RemoteOperation  Status = 11 // the peer's queue pair has failed
	RetryExceeded    Status = 12 // the peer does not acknowledge
	RNRExceeded      Status = 13 // the peer has posted no receive
	GeneralError     Status = 21 // any other error
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

// CompletionOp is the operation of a completed work request. It is undefined if the work request has failed.
type CompletionOp uint8

// The operations.
const (
	CompletedSend  CompletionOp = 0
	CompletedWrite CompletionOp = 1
	CompletedRecv  CompletionOp = 128
)

// Completion is the result of a work request. If Status is not Success, only WRID, QPN, Status and Vendor are
// valid.
type Completion struct {
	WRID   uint64
	QPN    uint32
	Bytes  uint32 // length of a received message
	Status Status
	Op     CompletionOp
	_      [2]byte
	Vendor uint32 // the device's own error code
}
