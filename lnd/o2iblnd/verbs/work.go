package verbs

import "fmt"

// The values below have the layout of the shim's C structures (o2iblnd 19.2): they are
// handed over as they are.

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

// Opcode is what a request does.
type Opcode uint8

// Requests.
const (
	Send      Opcode = 0
	RDMAWrite Opcode = 1
)

// Flags of a request.
type Flags uint8

const (
	// FlagSignalled asks for a completion.
	FlagSignalled Flags = 1
	// FlagInline has the bytes, QP.Inline at most, taken before Post returns: their memory
	// may be used again at once.
	FlagInline Flags = 2
)

// Request is a work request of the send queue. Its memory is Count pieces from First on,
// of those that Post is given.
type Request struct {
	WRID   uint64
	Remote uint64 // of RDMAWrite, with RKey
	RKey   uint32
	First  uint16
	Count  uint16
	Op     Opcode
	Flags  Flags
	_      [6]byte
}

// Status is how a work request ended; the numbers are libibverbs'.
type Status uint8

// Statuses (o2iblnd 11).
const (
	Success          Status = 0
	LocalLengthError Status = 1  // a message longer than the buffer
	LocalQPError     Status = 2  //
	LocalProtection  Status = 4  // a key that does not fit the local memory
	Flushed          Status = 5  // the queue pair was in the error state
	RemoteInvalid    Status = 9  // the peer could not take the message
	RemoteAccess     Status = 10 // the peer's key does not allow it
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

// CompletionOp is what has completed; of a failed one it says nothing.
type CompletionOp uint8

// What completes.
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
