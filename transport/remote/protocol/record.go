package protocol

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Body is the part of a record after the header, except in failures. The comments of the Opcode constants
// name the types of this package that implement it. The bodies are pointers to these types.
type Body interface {
	// Append appends the encoded body to b. It does not limit the length; AppendRequest and AppendReply do.
	Append(b []byte) []byte
	// Decode decodes b, which is the whole body. It keeps no reference to b unless its comment states
	// otherwise. The error is a *lnet.FieldError that matches EINVAL. After an error the value is unchanged.
	Decode(b []byte) error
}

// Request is the body of a request.
type Request interface {
	Body
	// Opcode returns the opcode of the request.
	Opcode() Opcode
}

var (
	errOpcode = fmt.Errorf("unknown: %w", syscall.EOPNOTSUPP)
	errNotice = fmt.Errorf("only lnetd may send it: %w", syscall.EPROTO)
)

// AppendRequest appends a record with request r to b. It returns EMSGSIZE and b unchanged if the record is
// longer than MaxRecord.
func AppendRequest(b []byte, sequence uint32, r Request) ([]byte, error) {
	return appendRecord(b, Header{Opcode: r.Opcode(), Sequence: sequence}, r)
}

// AppendReply appends a successful reply to b. request is the header of the request. A reply without content
// has an Empty body. It returns EMSGSIZE and b unchanged if the record is longer than MaxRecord.
func AppendReply(b []byte, request Header, body Body) ([]byte, error) {
	request.Status = 0
	return appendRecord(b, request, body)
}

func appendRecord(b []byte, h Header, body interface{ Append(b []byte) []byte }) ([]byte, error) {
	start := len(b)
	b = body.Append(h.append(b))
	n := len(b) - start
	if n > MaxRecord {
		return b[:start], &lnet.FieldError{What: h.Opcode.String(), Field: "length", Value: n, Err: errTooLong}
	}
	binary.LittleEndian.PutUint32(b[start+8:], uint32(n))
	return b, nil
}

// DecodeRequest decodes a request from a client. record must be a whole datagram. EPROTO means that record is
// not a request; lnetd must then close the connection. After any other error h is valid, and lnetd can reply
// with AppendFailure: EOPNOTSUPP means an unknown opcode, and EINVAL an invalid body. Only a Nop keeps a
// reference to record.
func DecodeRequest(record []byte) (h Header, r Request, err error) {
	body, err := h.decode(record)
	if err != nil {
		return Header{}, nil, err
	}
	if h.Status != 0 {
		return Header{}, nil, headerError("status", -int32(h.Status), errHeadZero)
	}
	if h.Opcode == OpNotice {
		// The client would not accept a failure with this opcode as a reply, so do not send one.
		return Header{}, nil, headerError("opcode", uint16(h.Opcode), errNotice)
	}
	if r = newRequest(h.Opcode); r == nil {
		return h, nil, headerError("opcode", uint16(h.Opcode), errOpcode)
	}
	if err := r.Decode(body); err != nil {
		return h, nil, err
	}
	return h, r, nil
}

// newRequest returns an empty request for opcode o, or nil if no request has this opcode.
func newRequest(o Opcode) Request {
	switch o {
	case OpHello:
		return new(Hello)
	case OpNIDsGet:
		return new(NIDsGet)
	case OpAreaAdd:
		return new(AreaAdd)
	case OpAreaDel:
		return new(AreaDel)
	case OpBufRegister:
		return new(BufRegister)
	case OpBufDeregister:
		return new(BufDeregister)
	case OpTMStart:
		return new(TMStart)
	case OpTMStop:
		return new(TMStop)
	case OpStatsGet:
		return new(StatsGet)
	case OpNop:
		return new(Nop)
	}
	return nil
}

// DecodeReply decodes a record from lnetd, which must be a whole datagram. If h.Opcode is OpNotice, the
// record is a Notice, and otherwise a reply to the request with the same h.Sequence. The client must compare
// h.Opcode with that of the request, call h.Failure, and decode body with the type for the opcode. body is a
// part of record. DecodeReply returns EPROTO if the record is invalid.
func DecodeReply(record []byte) (h Header, body []byte, err error) {
	if body, err = h.decode(record); err != nil {
		return Header{}, nil, err
	}
	if h.Opcode == OpNotice && h.Status != 0 {
		return Header{}, nil, headerError("status", -int32(h.Status), errHeadZero)
	}
	if h.Opcode == OpNotice && h.Sequence != 0 {
		return Header{}, nil, headerError("sequence", h.Sequence, errHeadZero)
	}
	return h, body, nil
}

// Empty is the body of replies without content.
type Empty struct{}

// Append appends nothing.
func (*Empty) Append(b []byte) []byte { return b }

// Decode returns an error if b is not empty.
func (*Empty) Decode(b []byte) error { return checkLength("reply", b, 0) }

// Nop requests a reply with the same body, and is that reply. The body is Data, up to 16360 arbitrary bytes.
type Nop struct {
	// Data is arbitrary. After Decode it is a part of the decoded record.
	Data []byte
}

// Opcode returns OpNop.
func (*Nop) Opcode() Opcode { return OpNop }

// Append appends Data to b.
func (n *Nop) Append(b []byte) []byte { return append(b, n.Data...) }

// Decode sets Data to b without a copy. It never fails.
func (n *Nop) Decode(b []byte) error {
	n.Data = b
	return nil
}
