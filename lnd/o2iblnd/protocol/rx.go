package protocol

import "github.com/lnetd/lnetd/lnet"

// Rx is a message that has arrived for LNet. It is the connection's: the caller uses
// it from Batch.Arrivals until it is in Batch.Placed, and then gives it back.
type Rx struct {
	// Owner is the caller's.
	Owner any
	// Type is Immediate, PutReq or GetReq.
	Type   Type
	Header lnet.Header
	// Payload is that of an IMMEDIATE, in its receive buffer, until Consumed.
	Payload []byte

	buffer int // -1: posted again
	state  rxState
	cookie Cookie
	sink   Descriptor // of a GET
	answer Tx
}

type rxState uint8

const (
	rxFree     rxState = iota
	rxArrived          // LNet has it
	rxAnswered         // PUT_ACK, PUT_NAK or GET_DONE is under way, or PUT_DONE awaited
	rxPlaced           // Release is due
)

// RDMA tells whether the payload is moved by RDMA.
func (r *Rx) RDMA() bool { return r.Type != Immediate }

// Room is how many bytes of an answer to a GET its sink takes.
func (r *Rx) Room() int { return min(int(r.Header.Length), r.sink.Length()) }
