package protocol

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Body is what follows the header of a record that is no failure. All of this package's
// are pointers to the types that Opcode's constants name.
type Body interface {
	// Append appends it. A list too long for a record is what the functions refuse that
	// append the whole of it.
	Append(b []byte) []byte
	// Decode reads it from b, which it has to itself, and keeps nothing of b unless it says
	// so. The error is a *lnet.FieldError and an EINVAL; then the value is as it was.
	Decode(b []byte) error
}

// Request is the body of a request.
type Request interface {
	Body
	// Opcode is that of its records.
	Opcode() Opcode
}

var (
	errOpcode = fmt.Errorf("unknown: %w", syscall.EOPNOTSUPP)
	errNotice = fmt.Errorf("lnetd's alone: %w", syscall.EPROTO)
)

// AppendRequest appends a request. EMSGSIZE: it is longer than MaxRecord; b is returned as
// it was.
func AppendRequest(b []byte, sequence uint32, r Request) ([]byte, error) {
	return appendRecord(b, Header{Opcode: r.Opcode(), Sequence: sequence}, r)
}

// AppendReply appends the reply to a request that all has gone well with; what has no body
// to answer with is an Empty. Errors are those of AppendRequest.
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

// DecodeRequest reads what a client sent, all of one datagram. EPROTO: it is no request,
// and what follows on the connection cannot be trusted. Any other error is the request's:
// h is good, and AppendFailure makes the answer; EOPNOTSUPP: an opcode that is not known
// here; EINVAL: the body. Nop alone keeps a part of record.
func DecodeRequest(record []byte) (h Header, r Request, err error) {
	body, err := h.decode(record)
	if err != nil {
		return Header{}, nil, err
	}
	if h.Status != 0 {
		return Header{}, nil, headerError("status", -int32(h.Status), errHeadZero)
	}
	if h.Opcode == OpNotice {
		// A failure with this opcode would be no reply to the client.
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

// newRequest is an empty body for an opcode, nil if no request has that.
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

// DecodeReply reads what lnetd sent, all of one datagram: a reply, or, if h.Opcode is
// OpNotice, a Notice. Body is a part of record. Whose reply it is h.Sequence tells; the
// client compares h.Opcode with its request's, asks h.Failure, and has the body decoded by
// the type that belongs to the opcode. EPROTO: it is neither.
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

// Empty is the body of replies that say no more than that it is done.
type Empty struct{}

// Append appends nothing.
func (*Empty) Append(b []byte) []byte { return b }

// Decode refuses any byte.
func (*Empty) Decode(b []byte) error { return exactly("reply", b, 0) }

// Nop asks for an echo, and is the echo. Its body is Data, up to 16360 bytes of anything.
type Nop struct {
	// Data is a part of the record, if it was decoded.
	Data []byte
}

// Opcode is OpNop.
func (*Nop) Opcode() Opcode { return OpNop }

// Append appends the data.
func (n *Nop) Append(b []byte) []byte { return append(b, n.Data...) }

// Decode takes all of b, which it keeps. It never fails.
func (n *Nop) Decode(b []byte) error {
	n.Data = b
	return nil
}
