package protocol

import "fmt"

// Type is the type of a protocol message (o2iblnd 4).
type Type uint8

// The types. The source is the side that has the payload of a transfer; the sink is the side that receives it.
const (
	ConnReq   Type = 0xc0 // the caller's offer, in the private data of a connection request
	ConnAck   Type = 0xc1 // the answer, in the private data of the acceptance
	Noop      Type = 0xd0 // returns credits, shows that the sender is alive
	Immediate Type = 0xd1 // an LNet message with its payload
	PutReq    Type = 0xd2 // a PUT or REPLY without its payload: the source asks for the sink's buffer
	PutNak    Type = 0xd3 // the sink does not want the payload
	PutAck    Type = 0xd4 // the sink describes its buffer
	PutDone   Type = 0xd5 // the source has written the payload, after a PUT_ACK
	GetReq    Type = 0xd6 // a GET, in which the sink describes its buffer
	GetDone   Type = 0xd7 // the source has written the answer to a GET_REQ
)

// String returns a name such as "PUT_REQ".
func (t Type) String() string {
	switch t {
	case ConnReq:
		return "CONNREQ"
	case ConnAck:
		return "CONNACK"
	case Noop:
		return "NOOP"
	case Immediate:
		return "IMMEDIATE"
	case PutReq:
		return "PUT_REQ"
	case PutNak:
		return "PUT_NAK"
	case PutAck:
		return "PUT_ACK"
	case PutDone:
		return "PUT_DONE"
	case GetReq:
		return "GET_REQ"
	case GetDone:
		return "GET_DONE"
	}
	return fmt.Sprintf("type %#02x", uint8(t))
}

// Sizes of messages, without payload and fragments (o2iblnd 4).
const (
	headerSize     = 48
	connSize       = headerSize + paramsSize     // 56
	immediateSize  = headerSize + lnetSize       // 120
	putReqSize     = immediateSize + cookieSize  // 128
	completionSize = headerSize + cookieSize + 4 // 60
	putAckSize     = headerSize + 2*cookieSize + descriptorSize
	getReqSize     = putReqSize + descriptorSize
	paramsSize     = 8
	lnetSize       = 72
	cookieSize     = 8
	descriptorSize = 8
	fragmentSize   = 12
)

// size returns the size of the smallest message of the type, in bytes. It returns 0 if the type is unknown.
func (t Type) size() int {
	switch t {
	case ConnReq, ConnAck:
		return connSize
	case Noop:
		return headerSize
	case Immediate:
		return immediateSize
	case PutReq:
		return putReqSize
	case PutNak, PutDone, GetDone:
		return completionSize
	case PutAck:
		return putAckSize
	case GetReq:
		return getReqSize
	}
	return 0
}

// Credit reports whether a message of the type consumes a credit in the given version (o2iblnd 4,
// 8).
func (t Type) Credit(v Version) bool {
	switch t {
	case Immediate, PutReq, GetReq:
		return true
	case Noop:
		return v == V1
	}
	return false
}

// reserves reports whether a message of the type is a request, for whose answer a receive buffer is reserved
// (o2iblnd 9.3).
func (t Type) reserves() bool { return t == PutReq || t == GetReq }

// wrap adds the type of the message to an error.
func (t Type) wrap(err error) error { return fmt.Errorf("%v: %w", t, err) }
