package lnet

import (
	"encoding/binary"
	"errors"
)

// Layout of an acceptor request (lnet-wire 5.1, 5.2), the first bytes on every
// TCP connection. Magic, version and a nid4 are in the sender's byte order; a
// 20-byte NID is never swapped.
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

// AcceptorRequest says which NID the initiator of a connection wants to talk
// to. There is no reply to a good one: the driver's handshake follows.
type AcceptorRequest struct {
	// Version is 1 for a NID of 4 address bytes, 2 for one of 16. Append
	// chooses if it is 0.
	Version uint32
	// NID is the one that the acceptor should have.
	NID NID
}

// AcceptorError says why bytes are no request that an acceptor serves.
type AcceptorError struct {
	// Answer tells that the initiator gets AppendAcceptorRefusal before the
	// connection is closed; else it is closed without a word (lnet-wire 5.4).
	Answer bool
	// Err is a *MagicError, ErrProtocolQuery, a *VersionError or a
	// *FieldError.
	Err error
}

func (e *AcceptorError) Error() string { return e.Err.Error() }

// Unwrap is Err.
func (e *AcceptorError) Unwrap() error { return e.Err }

// ErrProtocolQuery says that instead of a request there is a question for the
// protocols spoken.
var ErrProtocolQuery = errors.New("acceptor request: unified protocol query")

// Append appends the request in that byte order. Version 2 is used for a NID
// that does not fit into version 1, whatever r.Version says.
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

// AppendAcceptorRefusal appends the 16 bytes by which an acceptor answers a
// version that it does not know, and a protocol query: a request of version 1
// for no NID.
func AppendAcceptorRefusal(b []byte, order binary.AppendByteOrder) []byte {
	return AcceptorRequest{Version: 1}.Append(b, order)
}

// AcceptorRequestSize is the size of a request of that version in bytes, 0 for
// a version that is not known.
func AcceptorRequestSize(version uint32) int {
	switch version {
	case 1:
		return acceptorSize1
	case 2:
		return acceptorSize2
	}
	return 0
}

// AcceptorRequestNeed tells how many bytes of a request are needed, given its
// first bytes b: 4 for the magic, then 8 with the version, then all. The
// request is complete when the result is not more than len(b); what follows
// it is not looked at. The error is an *AcceptorError.
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

// acceptorOrder finds the sender's byte order from the magic.
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

// DecodeAcceptorRequest reads a request from the start of b, and the byte
// order of its sender. The error is a *TruncatedError if more bytes are
// needed, else an *AcceptorError; then r is zero and order nil.
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
	if r.NID, err = decodeRequested(b[acceptorPrefix:need], order); err != nil {
		return AcceptorRequest{}, nil, &AcceptorError{Err: err}
	}
	return r, order, nil
}

// decodeRequested reads acr_nid, whose version shows in its length.
func decodeRequested(b []byte, order binary.ByteOrder) (NID, error) {
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
