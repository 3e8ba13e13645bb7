package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Layout of an entry of either ring. The header of a message and a text use the same bytes.
//
//	  0       1       2        3       4          8                16           24
//	+-------+-------+--------+-------+----------+----------------+------------+
//	| op u8 | flags | status | cause | length   | handle u64     | offset u64 |
//	+-------+-------+--------+-------+----------+----------------+------------+
//	  24               32           52         56       64                 160     256
//	+----------------+------------+----------+--------+------------------+--------+
//	| time u64       | peer NID   | PID u32  | 0      | header           | 0      |
//	|                |            |          |        | text, to the end          |
//	+----------------+------------+----------+--------+------------------+--------+
const (
	// EntrySize is the size of an entry in bytes.
	EntrySize = 256

	offHeader = 64
	endHeader = offHeader + lnet.HeaderNID16Size
	// MaxText is the maximum length of a text in bytes: printable ASCII, with zeros to the end.
	MaxText = EntrySize - offHeader
)

// Op says what an entry means.
type Op uint8

// Orders: what lnetd puts into its ring.
const (
	// Send asks the proxy to send a message: Handle, Peer, Header, Length and Offset of the payload, Urgent,
	// More, Vouched. The payload does not change until the proxy has answered with Sent.
	Send Op = 1 + iota
	// Recall asks it not to send the message Handle, unless it has begun to. Sent answers the Send in any case.
	Recall
	// Take asks for the payload of the arrival Handle: its first Length bytes. Payload answers it.
	Take
	// Done ends the arrival Handle. The proxy may use its memory and its handle again. It discards the payload
	// if it still has it.
	Done
	// Wait says that the arrival Handle, whose payload is in the area, waits for a place. Done follows later.
	Wait
	// Refuse ends the arrival Handle, because its header breaks LNet's protocol. The proxy closes the
	// connections to its peer.
	Refuse
	// Disconnect, LinkBack and Probe are the calls of lnd.Interface for Peer. Probe has no answer.
	Disconnect
	LinkBack
	Probe
	// PID answers AllocatePID and RegisterPID: PID, and Cause if it is refused.
	PID
	// Timeout sets the LND timeout to Time nanoseconds.
	Timeout
	endOrders
)

// Reports: what the proxy puts into its ring.
const (
	// Sent says that the proxy needs the message Handle no more: Status, and if that is not OK, Cause and Text.
	Sent Op = 65 + iota
	// Arrived announces a message: Handle, which the proxy chooses, Peer, from which it came, and Header. With
	// HasPayload its payload is in the area at Offset, and remains there until Done or Refuse. Otherwise the
	// proxy waits for Take or Done.
	Arrived
	// Payload says that the payload that Take has asked for is in the area at Offset, with Length bytes, or,
	// with another Status than OK, that it will not come.
	Payload
	// Withdrawn says that the connection of the arrival Handle is lost, and its payload will not come. The
	// arrival has neither a payload nor was it taken.
	Withdrawn
	// PeerDown, Lost, Restarted and Stalled are the upcalls of lnd.Upper for Peer. PeerDown has Time (the last
	// sign of life, or 0), Status, Cause and Text; Stalled has Time (the beginning of the stall, or 0).
	PeerDown
	Lost
	Restarted
	Stalled
	// Link reports in Up whether the proxy can carry traffic. lnetd assumes that it cannot before the first Link.
	Link
	// AllocatePID asks for an unused PID. RegisterPID asks for PID. The proxy then gets the messages
	// to processes with this PID.
	AllocatePID
	RegisterPID
	endReports
)

var opNames = map[Op]string{
	Send: "SEND", Recall: "RECALL", Take: "TAKE", Done: "DONE", Wait: "WAIT", Refuse: "REFUSE", Disconnect: "DISCONNECT",
	LinkBack: "LINK_BACK", Probe: "PROBE", PID: "PID", Timeout: "TIMEOUT",
	Sent: "SENT", Arrived: "ARRIVED", Payload: "PAYLOAD", Withdrawn: "WITHDRAWN", PeerDown: "PEER_DOWN", Lost: "LOST",
	Restarted: "RESTARTED", Stalled: "STALLED", Link: "LINK", AllocatePID: "ALLOCATE_PID", RegisterPID: "REGISTER_PID",
}

func (o Op) String() string {
	if name, known := opNames[o]; known {
		return name
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// hasHeader reports whether entries of this kind have a header. Others may have a text.
func (o Op) hasHeader() bool { return o == Send || o == Arrived }

// Cause is the cause of a failure, for programs.
type Cause uint8

// Causes. All but the first and the last are errors of package lnd.
const (
	CauseOther Cause = iota // the text says more
	CauseClosed
	CauseUnreachable
	CauseRecalled
	CauseTimeout
	CauseProtocol
	CauseDisconnected
	CauseRestarted
	CauseLargeNID
	CauseBusy // the PID belongs to another proxy
	endCauses
)

var causes = [endCauses]error{
	CauseClosed: lnd.ErrClosed, CauseUnreachable: lnd.ErrUnreachable, CauseRecalled: lnd.ErrRecalled, CauseTimeout: lnd.ErrTimeout,
	CauseProtocol: lnd.ErrProtocol, CauseDisconnected: lnd.ErrDisconnected, CauseRestarted: lnd.ErrRestarted, CauseLargeNID: lnd.ErrLargeNID,
	CauseBusy: errors.New("the PID belongs to another proxy"),
}

// CauseOf returns the cause of an error of a driver.
func CauseOf(err error) Cause {
	for c, e := range causes {
		if e != nil && errors.Is(err, e) {
			return Cause(c)
		}
	}
	return CauseOther
}

// Err returns the error with a cause and a text, which may be empty. The error's text is never empty.
func (c Cause) Err(text string) error {
	switch err := causes[c]; {
	case err == nil && text == "":
		return errNoReason
	case err == nil:
		return errors.New(text)
	case text == "" || text == err.Error():
		return err
	default:
		return &causedError{text, err}
	}
}

var errNoReason = errors.New("no reason given")

// causedError is an error of another process: its text, and its cause for errors.Is.
type causedError struct {
	text  string
	cause error
}

func (e *causedError) Error() string { return e.text }
func (e *causedError) Unwrap() error { return e.cause }

// Entry is an order or a report. The comments of the Op constants say which fields are used; the others are
// zero.
type Entry struct {
	Op     Op
	Status lnd.Status
	Cause  Cause
	// Urgent and More are those of lnd.Tx. Vouched is the result of lnd.Upper.Vouched. HasPayload and Up
	// belong to Arrived and Link.
	Urgent, More, Vouched, HasPayload, Up bool
	// Handle identifies a message: lnetd's for messages to be sent, the proxy's for arrivals.
	Handle uint64
	// Length is a number of bytes, Offset their position in the area.
	Length uint32
	Offset uint64
	// Time is in nanoseconds, of CLOCK_MONOTONIC for points in time. It is below 2^63.
	Time   uint64
	Peer   lnet.ProcessID
	Header lnet.Header
	Text   string
}

const (
	flagUrgent = 1 << iota
	flagMore
	flagVouched
	flagPayload
	flagUp
	flagsEnd
)

// Put encodes e into b and sets all its bytes. A text that is too long is cut, and bytes that are not printable
// become "?".
func (e *Entry) Put(b *[EntrySize]byte) {
	clear(b[:])
	b[0], b[1], b[2], b[3] = byte(e.Op), e.flags(), byte(e.Status), byte(e.Cause)
	binary.LittleEndian.PutUint32(b[4:], e.Length)
	binary.LittleEndian.PutUint64(b[8:], e.Handle)
	binary.LittleEndian.PutUint64(b[16:], e.Offset)
	binary.LittleEndian.PutUint64(b[24:], e.Time)
	e.Peer.NID.AppendLarge(b[32:32:52])
	binary.LittleEndian.PutUint32(b[52:], uint32(e.Peer.PID))
	if e.Op.hasHeader() {
		e.Header.AppendNID16(b[offHeader:offHeader:EntrySize])
	} else {
		n := copy(b[offHeader:], e.Text)
		maskUnprintable(b[offHeader:][:n])
	}
}

func (e *Entry) flags() (f byte) {
	for k, set := range []bool{e.Urgent, e.More, e.Vouched, e.HasPayload, e.Up} {
		if set {
			f |= 1 << k
		}
	}
	return f
}

var (
	errOrder   = errors.New("not an order")
	errReport  = errors.New("not a report")
	errFlags   = fmt.Errorf("not below %#x", flagsEnd)
	errStatus  = fmt.Errorf("not 0 to %d", lnd.StatusNetworkTimeout)
	errCause   = fmt.Errorf("not 0 to %d", endCauses-1)
	errTime    = errors.New("not below 2^63")
	errNotZero = errors.New("must be 0")
	errText    = errors.New("not printable ASCII with zeros to the end")
)

// afterHeader are the bytes of an entry after a header.
type afterHeader [EntrySize - endHeader]byte

// DecodeOrder decodes an entry that lnetd has put. b must be a private copy. After an error e is undefined.
func (e *Entry) DecodeOrder(b *[EntrySize]byte) error {
	if o := Op(b[0]); o < Send || o >= endOrders {
		return fieldError("op", uint8(o), errOrder)
	}
	return e.decode(b)
}

// DecodeReport decodes an entry that a proxy has put. b must be a private copy. After an error e is undefined.
// It does not compare the fields with what lnetd knows.
func (e *Entry) DecodeReport(b *[EntrySize]byte) error {
	if o := Op(b[0]); o < Sent || o >= endReports {
		return fieldError("op", uint8(o), errReport)
	}
	return e.decode(b)
}

func (e *Entry) decode(b *[EntrySize]byte) error {
	*e = Entry{
		Op: Op(b[0]), Status: lnd.Status(b[2]), Cause: Cause(b[3]),
		Length: binary.LittleEndian.Uint32(b[4:]), Handle: binary.LittleEndian.Uint64(b[8:]),
		Offset: binary.LittleEndian.Uint64(b[16:]), Time: binary.LittleEndian.Uint64(b[24:]),
	}
	f := b[1]
	e.Urgent, e.More, e.Vouched = f&flagUrgent != 0, f&flagMore != 0, f&flagVouched != 0
	e.HasPayload, e.Up = f&flagPayload != 0, f&flagUp != 0
	switch {
	case f >= flagsEnd:
		return fieldError("flags", f, errFlags)
	case e.Status > lnd.StatusNetworkTimeout:
		return fieldError("status", uint8(e.Status), errStatus)
	case e.Cause >= endCauses:
		return fieldError("cause", uint8(e.Cause), errCause)
	case e.Time > math.MaxInt64:
		return fieldError("time", e.Time, errTime)
	case binary.LittleEndian.Uint64(b[56:]) != 0, e.Op.hasHeader() && afterHeader(b[endHeader:]) != afterHeader{}:
		return fieldError("reserved bytes", nil, errNotZero)
	}
	nid, err := lnet.DecodeLarge(b[32:52])
	if err != nil {
		return err
	}
	e.Peer.NID = nid
	e.Peer.PID = lnet.PID(binary.LittleEndian.Uint32(b[52:]))
	if !e.Op.hasHeader() {
		return e.decodeText(b[offHeader:])
	}
	if err := e.Header.DecodeNID16(b[offHeader:]); err != nil {
		return err
	}
	return e.Header.Validate()
}

func (e *Entry) decodeText(b []byte) error {
	n := 0
	for n < len(b) && printable(b[n]) {
		n++
	}
	for _, c := range b[n:] {
		if c != 0 {
			return fieldError("text", nil, errText)
		}
	}
	e.Text = string(b[:n])
	return nil
}

func printable(c byte) bool { return c >= ' ' && c <= '~' }

// maskUnprintable replaces the bytes of a text that are not printable by "?".
func maskUnprintable(text []byte) {
	for k, c := range text {
		if !printable(c) {
			text[k] = '?'
		}
	}
}

func fieldError(field string, value any, err error) error {
	return &lnet.FieldError{What: "entry", Field: field, Value: value, Err: err}
}

// SetError sets Status, Cause and Text for the result of an operation. err may be nil.
func (e *Entry) SetError(err error) {
	e.Status, e.Cause, e.Text = lnd.StatusOf(err), CauseOf(err), ""
	if err == nil {
		return
	}
	var failed *lnd.Error
	if errors.As(err, &failed) {
		err = failed.Err // lnetd adds the rest
	}
	e.Text = err.Error()
}
