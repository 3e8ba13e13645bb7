package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// A short message is one message of MPI with the tag ShortTag (mpilnd B.5):
//
//	 0        4    5      6         8      12    16         20    24       28
//	+--------+----+------+---------+------+-----+----------+-----+--------+--------+
//	| magic  | v  | type | credits | from | to  | sequence | tag | length | reason |
//	+--------+----+------+---------+------+-----+----------+-----+--------+--------+
//	32                                                     128
//	+------------------------------------------------------+-----------------------+
//	| LNet header, or block                                | payload               |
//	+------------------------------------------------------+-----------------------+
//
// Only Query, Reply and Bye have a block, and only Short, LargePut and GetOpt a header. Others end after the prefix.
const (
	Magic      = 0x4d50494c
	Version    = 1 // the only version
	PrefixSize = 32
	HeadSize   = PrefixSize + lnet.HeaderNID16Size // with the LNet header or the block

	ShortTag = 1
	// MaxTag is the largest tag of a payload, however large a tag MPI permits.
	MaxTag = 1 << 30
	// Unordered is the Sequence of messages that have no place in the order of a link.
	Unordered = 1<<32 - 1
)

// Type is the type of a message.
type Type uint8

// The types. Messages of the types Short, LargePut and GetOpt need a credit.
const (
	Query      Type = 1 + iota // VERSION_QUERY: requests a link
	Reply                      // VERSION_REPLY: the answer to Query, and to the first Reply of a link
	Short                      // a message with its payload
	LargePut                   // a PUT or REPLY whose payload was sent with Tag before
	GetOpt                     // a GET whose answer is sent with Tag, as a payload alone
	Nak                        // there will be no answer to the GetOpt with Tag
	Bye                        // ends a link, or refuses one
	Probe                      // requests a ProbeReply
	ProbeReply                 // the answer to Probe
	Credit                     // returns credits
)

var typeNames = [...]string{
	Query: "VERSION_QUERY", Reply: "VERSION_REPLY", Short: "SHORT", LargePut: "LARGE_PUT", GetOpt: "GET_OPT",
	Nak: "NAK", Bye: "BYE", Probe: "PROBE", ProbeReply: "PROBE_REPLY", Credit: "CREDIT",
}

// String returns the type's name in the specification.
func (t Type) String() string {
	if t.known() {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

func (t Type) known() bool     { return t >= Query && int(t) < len(typeNames) }
func (t Type) hasBlock() bool  { return t == Query || t == Reply || t == Bye }
func (t Type) hasHeader() bool { return t == Short || t == LargePut || t == GetOpt }

// Reason is why a Bye ends or refuses a link.
type Reason uint32

// The reasons.
const (
	Disconnected  Reason = 1 + iota // the interface was asked to disconnect, or its messages have timed out
	Closing                         // the interface is closing or closed
	BadProtocol                     // the peer broke the protocol
	Stale                           // the sender does not have the link
	BadVersion                      // there is no common version
	WrongIdentity                   // the NID or the PID in the block is not the one that belongs to the rank
	Failed                          // a request of MPI has failed
	reasonsEnd
)

var reasonNames = [...]string{
	Disconnected: "disconnected", Closing: "interface closed", BadProtocol: "protocol error", Stale: "link unknown",
	BadVersion: "no common version", WrongIdentity: "wrong NID or PID", Failed: "MPI failed",
}

// String returns a short text for errors.
func (r Reason) String() string {
	if r > 0 && r < reasonsEnd {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

// Message is a short message.
type Message struct {
	Type Type
	// Credits is the number of credits that the message returns.
	Credits uint16
	// From and To are the numbers of the link at the sender and at the receiver. To is 0 if the sender does not
	// know it. In a Bye for a link that the sender does not have, From is 0 or the number that the receiver used.
	From, To uint32
	// Sequence is the number of messages of the link From before this one, or Unordered.
	Sequence uint32
	// Tag is the tag of the payload (LargePut, GetOpt, Nak).
	Tag uint32
	// Length is that of the payload (Short, LargePut), or of the memory for the answer (GetOpt), in bytes.
	Length uint32
	// Reason is set in a Bye.
	Reason Reason
	// Header is set in the types Short, LargePut and GetOpt, and Block in Query, Reply and Bye.
	Header lnet.Header
	Block  Block
	// Payload is the payload of Short. A decoded one is a part of the bytes that were decoded.
	Payload []byte
}

// Append appends the encoded message to b, except for the payload.
func (m *Message) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, Magic)
	b = append(b, Version, byte(m.Type))
	b = le.AppendUint16(b, m.Credits)
	for _, v := range [...]uint32{m.From, m.To, m.Sequence, m.Tag, m.Length, uint32(m.Reason)} {
		b = le.AppendUint32(b, v)
	}
	switch {
	case m.Type.hasBlock():
		b = m.Block.Append(b)
	case m.Type.hasHeader():
		b = m.Header.AppendNID16(b)
	}
	return b
}

// Decode decodes a message, which must be all of b. After an error, m is undefined. Messages with a block are decoded
// whatever their version is; Block.Agree checks it.
func (m *Message) Decode(b []byte) error {
	if len(b) < PrefixSize {
		return &lnet.TruncatedError{What: "message", Need: PrefixSize, Have: len(b)}
	}
	le := binary.LittleEndian
	if magic := le.Uint32(b); magic != Magic {
		return &lnet.MagicError{What: "message", Magic: magic}
	}
	*m = Message{
		Type: Type(b[5]), Credits: le.Uint16(b[6:]),
		From: le.Uint32(b[8:]), To: le.Uint32(b[12:]), Sequence: le.Uint32(b[16:]),
		Tag: le.Uint32(b[20:]), Length: le.Uint32(b[24:]), Reason: Reason(le.Uint32(b[28:])),
	}
	if !m.Type.known() {
		return fieldError("type", uint8(m.Type), errUnknown)
	}
	if b[4] != Version && !m.Type.hasBlock() {
		return &lnet.VersionError{What: "message", Version: uint32(b[4])}
	}
	if err := m.decodeBody(b[PrefixSize:]); err != nil {
		return err
	}
	return m.validate()
}

// decodeBody decodes what follows the prefix.
func (m *Message) decodeBody(b []byte) error {
	var err error
	switch {
	case !m.Type.hasBlock() && !m.Type.hasHeader():
		m.Payload = b
		return nil
	case len(b) < HeadSize-PrefixSize:
		return &lnet.TruncatedError{What: "message", Need: HeadSize, Have: PrefixSize + len(b)}
	case m.Type.hasBlock():
		err = m.Block.decode(b)
	default:
		if err = m.Header.DecodeNID16(b); err == nil {
			err = m.Header.Validate()
		}
	}
	m.Payload = b[HeadSize-PrefixSize:]
	return err
}

var (
	errUnknown = errors.New("unknown")
	errNotZero = errors.New("not 0")
	errParity  = errors.New("not a tag of this type")
	errLength  = errors.New("not the length of the payload")
)

// validate checks the fields that depend on the type.
func (m *Message) validate() error {
	payload, tag, length := 0, m.Tag == 0, m.Length == 0
	switch m.Type {
	case Short:
		payload, length = int(m.Length), m.Length == m.Header.PayloadLength
	case LargePut:
		put := m.Header.Type == lnet.MsgPut || m.Header.Type == lnet.MsgReply
		tag, length = tagIn(m.Tag, firstPut), put && m.Length == m.Header.PayloadLength && m.Length > 0
	case GetOpt:
		tag, length = tagIn(m.Tag, firstGet), m.Header.Type == lnet.MsgGet && m.Header.PayloadLength == 0 && m.Length <= lnet.MTU
	case Nak:
		tag = tagIn(m.Tag, firstGet)
	}
	switch {
	case !tag:
		return fieldError("tag", m.Tag, errParity)
	case !length, len(m.Payload) != payload:
		return fieldError("length", m.Length, errLength)
	case m.Type == Bye && (m.Reason == 0 || m.Reason >= reasonsEnd):
		return fieldError("reason", uint32(m.Reason), errUnknown)
	case m.Type != Bye && m.Reason != 0:
		return fieldError("reason", uint32(m.Reason), errNotZero)
	}
	return nil
}

func fieldError(field string, value any, err error) error {
	return &lnet.FieldError{What: "message", Field: field, Value: value, Err: err}
}
