package protocol

import "fmt"

// Type says what a message is (o2iblnd 4).
type Type uint8

// The types, and what each is for.
const (
	ConnReq   Type = 0xc0 // CM private data of a caller
	ConnAck   Type = 0xc1 // CM private data of the answer
	Noop      Type = 0xd0 // returns credits, keeps alive
	Immediate Type = 0xd1 // an LNet message with its payload
	PutReq    Type = 0xd2 // the source asks the sink for a buffer
	PutNak    Type = 0xd3 // the sink wants nothing
	PutAck    Type = 0xd4 // the sink's buffer
	PutDone   Type = 0xd5 // the source has written
	GetReq    Type = 0xd6 // the sink's buffer, and a GET
	GetDone   Type = 0xd7 // the source has written
)

// String is "PUT_REQ".
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

// size is the smallest size of a message of the type; 0: there is no such type.
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

// Credit tells whether a message of the type consumes a credit in a version
// (o2iblnd 4, 8).
func (t Type) Credit(v Version) bool {
	switch t {
	case Immediate, PutReq, GetReq:
		return true
	case Noop:
		return v == V1
	}
	return false
}

// reserves tells whether a message of the type asks for an answer, for which a
// receive buffer is kept (o2iblnd 9.3).
func (t Type) reserves() bool { return t == PutReq || t == GetReq }

// wrap says which message an error is about.
func (t Type) wrap(err error) error { return fmt.Errorf("%v: %w", t, err) }
