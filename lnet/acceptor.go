package lnet

import (
	"encoding/binary"
	"errors"
)

// Layout of an acceptor request (lnet-wire 5.1, 5.2), the first bytes on every TCP
// connection. The magic, the version and a nid4 are numbers in the sender's byte order. A
// 20-byte NID is a byte string, and does not depend on the byte order.
//
//	version 1                          version 2
//	 0     4        8         16        0     4        8               28
//	+-----+--------+---------+         +-----+--------+----------------+
//	|magic|version | acr_nid |         |magic|version | acr_nid        |
//	+-----+--------+---------+         +-----+--------+----------------+
const (
	acceptorPrefix = 8 // magic and version
	acceptorSize1  = acceptorPrefix + nid4Size
	acceptorSize2  = acceptorPrefix + LargeNIDSize

	// MaxAcceptorRequestSize is the size of the longest request, in bytes.
	MaxAcceptorRequestSize = acceptorSize2
)

// AcceptorRequest is the message with which a node that opens a TCP connection says which
// NID it wants to reach. An acceptor does not reply to a valid request; the driver's
// handshake follows.
type AcceptorRequest struct {
	// Version is 1 for a NID with a 4-byte address and 2 for one with a 16-byte address. If
	// it is 0, Append chooses the version.
	Version uint32
	// NID is the NID, of the node with the acceptor, that the connection is for.
	NID NID
}

// AcceptorError reports why an acceptor rejects a request.
type AcceptorError struct {
	// Answer reports whether the acceptor must send the bytes of AppendAcceptorRefusal before
	// it closes the connection. If Answer is false, it must close the connection without a
	// reply (lnet-wire 5.4).
	Answer bool
	// Err is a *MagicError, ErrProtocolQuery, a *VersionError or a *FieldError.
	Err error
}

func (e *AcceptorError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *AcceptorError) Unwrap() error { return e.Err }

// ErrProtocolQuery means that the peer has sent no request but a query that asks which
// protocols the acceptor supports.
var ErrProtocolQuery = errors.New("acceptor request: the peer sent a protocol query instead of a request")

// Append appends the request in the given byte order. It uses version 2 if r.NID does not
// fit into version 1, whatever r.Version is.
func (r AcceptorRequest) Append(b []byte, order binary.AppendByteOrder) []byte {
	nid4, ok := r.NID.NID4()
	if !ok || r.Version == 2 {
		b = order.AppendUint32(b, MagicAcceptor)
		b = order.AppendUint32(b, 2)
		return r.NID.AppendLarge(b)
	}
	b = order.AppendUint32(b, MagicAcceptor)
	b = order.AppendUint32(b, 1)
	return order.AppendUint64(b, nid4)
}

// AppendAcceptorRefusal appends the 16 bytes with which an acceptor answers an unknown
// version or a protocol query. They are a version 1 request for the zero NID.
func AppendAcceptorRefusal(b []byte, order binary.AppendByteOrder) []byte {
	return AcceptorRequest{Version: 1}.Append(b, order)
}

// AcceptorRequestSize returns the size of a request of the given version in bytes, or 0 if
// the version is unknown.
func AcceptorRequestSize(version uint32) int {
	switch version {
	case 1:
		return acceptorSize1
	case 2:
		return acceptorSize2
	}
	return 0
}

// AcceptorRequestNeed returns how many bytes of a request must be read, if b is the
// beginning of the request: 4 to include the magic, then 8 to include the version, then
// the size of the whole request. The request is complete if the result is at most len(b).
// Bytes after the request are ignored. Any error is an *AcceptorError.
func AcceptorRequestNeed(b []byte) (int, error) {
	if len(b) < 4 {
		return 4, nil
	}
	order, err := acceptorOrder(b)
	if err != nil {
		return 0, err
	}
	if len(b) < acceptorPrefix {
		return acceptorPrefix, nil
	}
	version := order.Uint32(b[4:])
	size := AcceptorRequestSize(version)
	if size == 0 {
		return 0, &AcceptorError{Answer: true, Err: &VersionError{What: "acceptor request", Version: version}}
	}
	return size, nil
}

// acceptorOrder determines the sender's byte order from the magic at the start of b. The
// error is an *AcceptorError if the magic is not that of a request.
func acceptorOrder(b []byte) (binary.ByteOrder, error) {
	if order, ok := MagicOrder(b, MagicAcceptor); ok {
		return order, nil
	}
	if _, ok := MagicOrder(b, MagicProto); ok {
		return nil, &AcceptorError{Answer: true, Err: ErrProtocolQuery}
	}
	magic := binary.LittleEndian.Uint32(b)
	return nil, &AcceptorError{Err: &MagicError{What: "acceptor request", Magic: magic}}
}

// DecodeAcceptorRequest decodes the request at the start of b and returns it with the
// sender's byte order. The error is a *TruncatedError if more bytes are needed, otherwise
// an *AcceptorError. On an error r is zero and order is nil.
func DecodeAcceptorRequest(b []byte) (r AcceptorRequest, order binary.ByteOrder, err error) {
	need, err := AcceptorRequestNeed(b)
	if err != nil {
		return AcceptorRequest{}, nil, err
	}
	if len(b) < need {
		return AcceptorRequest{}, nil, &TruncatedError{What: "acceptor request", Need: need, Have: len(b)}
	}
	if order, err = acceptorOrder(b); err != nil {
		return AcceptorRequest{}, nil, err
	}
	r.Version = order.Uint32(b[4:])
	if r.NID, err = decodeRequestedNID(b[acceptorPrefix:need], order); err != nil {
		return AcceptorRequest{}, nil, &AcceptorError{Err: err}
	}
	return r, order, nil
}

// decodeRequestedNID decodes acr_nid. The length of b determines whether it is a nid4 or a
// 20-byte NID.
func decodeRequestedNID(b []byte, order binary.ByteOrder) (NID, error) {
	if len(b) == LargeNIDSize {
		n, ok := getLarge((*[LargeNIDSize]byte)(b))
		if !ok {
			return NID{}, n.largeError("acceptor request", "acr_nid")
		}
		return n, nil
	}
	v := order.Uint64(b)
	n, ok := parseNID4(v)
	if !ok {
		return NID{}, &FieldError{What: "acceptor request", Field: "acr_nid", Value: hexNID4(v), Err: errNIDReserved}
	}
	return n, nil
}
