package protocol

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Body is the part of a record after the header, except in failures. The bodies of this package are
// pointers to the types named in the comments of the Opcode constants.
type Body interface {
	// Append appends the body. It does not limit the length; the functions that append whole records do.
	Append(b []byte) []byte
	// Decode decodes b, the whole body. It keeps no reference to b unless its comment states otherwise. The
	// error is a *lnet.FieldError that matches EINVAL; then the value is unchanged.
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
	errNotice = fmt.Errorf("lnetd's alone: %w", syscall.EPROTO)
)

// AppendRequest appends a request. It returns EMSGSIZE and b unchanged if the request is longer than
// MaxRecord.
func AppendRequest(b []byte, sequence uint32, r Request) ([]byte, error) {
	return appendRecord(b, Header{Opcode: r.Opcode(), Sequence: sequence}, r)
}

// AppendReply appends a successful reply to a request. A reply without content has an Empty body. Errors
// are those of AppendRequest.
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

// DecodeRequest decodes a request from a client, one whole datagram. EPROTO means that it is not a request,
// and the connection cannot be trusted any more. After any other error h is valid, and AppendFailure
// creates the reply: EOPNOTSUPP means an unknown opcode, and EINVAL an invalid body. Only Nop keeps a
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
		// The client would not accept a failure with this opcode as a reply.
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

// newRequest returns an empty request body for an opcode, or nil if no request has that opcode.
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

// DecodeReply decodes a record from lnetd, one whole datagram: a Notice if h.Opcode is OpNotice, otherwise
// a reply. Body is a part of record. h.Sequence identifies the request. The client must compare h.Opcode
// with the request's, call h.Failure, and decode the body with the type for the opcode. DecodeReply returns
// EPROTO if the record is invalid.
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

// Nop requests an echo, and is the echo. Its body is Data, up to 16360 arbitrary bytes.
type Nop struct {
	// Data is a part of the record if it was decoded.
	Data []byte
}

// Opcode returns OpNop.
func (*Nop) Opcode() Opcode { return OpNop }

// Append appends the data.
func (n *Nop) Append(b []byte) []byte { return append(b, n.Data...) }

// Decode stores b as Data. It never fails.
func (n *Nop) Decode(b []byte) error {
	n.Data = b
	return nil
}
