package protocol

import "github.com/lnetd/lnetd/lnet"

// Rx is a message that has arrived for LNet. It belongs to the connection. The caller may use it from when it
// is in Batch.Arrivals until it has been in Batch.Placed. It then calls Conn.Release.
type Rx struct {
	// Owner is for use by the caller.
	Owner any
	// Type is Immediate, PutReq or GetReq.
	Type   Type
	Header lnet.Header
	// Payload is the payload of an IMMEDIATE. It is in the receive buffer, and is valid until
	// Consumed is called.
	Payload []byte

	buffer int // number of the receive buffer; -1 after it has been posted again
	state  rxState
	cookie Cookie     // the peer's cookie, for a PUT_REQ or GET_REQ
	sink   Descriptor // where the peer wants the answer, for a GET_REQ
	answer Tx         // the answer to a PUT_REQ or GET_REQ
}

type rxState uint8

const (
	rxFree     rxState = iota
	rxArrived          // passed to LNet, which has not answered yet
	rxAnswered         // PUT_ACK, PUT_NAK or GET_DONE is being sent, or this node waits for the PUT_DONE
	rxPlaced           // in Batch.Placed; the caller has to call Release
)

// RDMA reports whether the payload is transferred by RDMA.
func (r *Rx) RDMA() bool { return r.Type != Immediate }

// Room returns how many bytes of an answer to a GET fit into its sink.
func (r *Rx) Room() int { return min(int(r.Header.Length), r.sink.Length()) }
