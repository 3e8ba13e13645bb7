package protocol

import "github.com/lnetd/lnetd/lnet"

// Rx is a message that has arrived for LNet. It belongs to the connection. The caller uses it from
// Batch.Arrivals until it is in Batch.Placed, and then calls Release.
type Rx struct {
	// Owner is for use by the caller.
	Owner any
	// Type is Immediate, PutReq or GetReq.
	Type   Type
	Header lnet.Header
	// Payload is the payload of an IMMEDIATE. It is in the receive buffer, and is valid until
	// Consumed is called.
	Payload []byte

	buffer int // -1: reposted
	state  rxState
	cookie Cookie
	sink   Descriptor // of a GET
	answer Tx
}

type rxState uint8

const (
	rxFree     rxState = iota
	rxArrived          // passed to LNet
	rxAnswered         // PUT_ACK, PUT_NAK or GET_DONE is being sent, or PUT_DONE is awaited
	rxPlaced           // Release must be called
)

// RDMA reports whether the payload is transferred by RDMA.
func (r *Rx) RDMA() bool { return r.Type != Immediate }

// Room returns how many bytes of an answer to a GET fit into its sink.
func (r *Rx) Room() int { return min(int(r.Header.Length), r.sink.Length()) }
