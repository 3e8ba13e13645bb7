package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// EventType is the kind of an event (lnet-core 3.1).
type EventType uint8

// The values are those of lnet-core 3.1.
const (
	EventGet    EventType = iota + 1 // a remote GET was served
	EventPut                         // the data of a remote PUT is in the MD
	EventReply                       // the reply to a GET of this node has arrived
	EventAck                         // the acknowledgement of a PUT of this node has arrived
	EventSend                        // a PUT or GET of this node was sent, or failed and will not be sent again
	EventUnlink                      // Unlink was called for an MD with no operation under way
)

var eventNames = [...]string{"", "GET", "PUT", "REPLY", "ACK", "SEND", "UNLINK"}

func (t EventType) String() string {
	if t > 0 && int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// Event describes one operation on an MD (lnet-core 3.2). Fields that a type does not use
// are zero, with these exceptions:
//
//   - Fields that the owner of the operation has set, and that are unknown to the table, keep
//     their values.
//   - In an EventSend, the NIDs of Initiator and Source, and Sender, are AnyNID. Target,
//     Portal, MatchBits, HdrData and Offset are those that the caller of the request
//     passed.
//   - MD, Memory or Bytes, Options and UserPtr are set for every type, including
//     EventUnlink.
type Event struct {
	Type EventType
	// MsgType is the type of the message that caused the event. For an EventReply it is
	// MsgGet if the reply came by RDMA.
	MsgType lnet.MsgType
	// Unlinked reports whether this is the last event of the MD.
	Unlinked bool
	// Portal is the portal in the request.
	Portal uint32
	// Target is the destination in the header. For an EventSend it is the destination that
	// the caller passed.
	Target lnet.ProcessID
	// Initiator is the process that sent the message, with the primary NID of its node. For
	// an EventSend its NID is AnyNID.
	Initiator lnet.ProcessID
	// Source is the process that sent the message, with the NID in the header.
	Source lnet.ProcessID
	// Sender is the neighbour from which the message arrived.
	Sender lnet.NID
	// MatchBits and HdrData are those of the request.
	MatchBits uint64
	HdrData   uint64
	// Requested (rlength) is the number of bytes that the request has or asks for. Length
	// (mlength) is the number of bytes that were accepted.
	Requested int
	Length    int
	// Offset is where the bytes begin in the MD. For an EventSend it is the remote offset
	// that the caller passed. If Length is 0, Offset may lie beyond the MD's memory, because
	// with ManageRemote an empty request may have any offset. Use Data, which takes this into
	// account, instead of slicing Bytes.
	Offset int
	// MD, Memory, Bytes, Options and UserPtr are those of the MD. Bytes is set if the MD was
	// created with Bytes, and Memory if it was created with Memory.
	MD      lnet.Handle
	Memory  memory.Vector
	Bytes   []byte
	Options MDOptions
	UserPtr any
	// Err is nil if the operation succeeded. See ErrTimedOut, ErrCanceled and lnd.StatusOf.
	Err error
}

// hasData reports whether the event transferred bytes into or out of the MD.
func (e *Event) hasData() bool {
	return e.Length > 0 && (e.Type == EventPut || e.Type == EventGet || e.Type == EventReply)
}

// Data returns the bytes in the MD that a PUT or REPLY filled or that a GET read: Length
// bytes from Offset. It is empty for all other types, if Length is 0, and if the MD was not
// created with Bytes (see DataMemory). If Err is not nil, the content is undefined. The
// slice refers to the MD's memory: with ManageRemote, later requests may overwrite it while
// the handler reads it.
func (e *Event) Data() []byte {
	if !e.hasData() || e.Bytes == nil {
		return nil
	}
	return e.Bytes[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
}

// DataMemory is like Data, but returns a vector, for MDs that were created with Memory.
// For an MD that was created with Bytes it returns the bytes of Data, and allocates.
func (e *Event) DataMemory() memory.Vector {
	if !e.hasData() {
		return memory.Vector{}
	}
	if e.Bytes != nil {
		return memory.Of(e.Data())
	}
	return e.Memory.Slice(e.Offset, e.Length)
}

// Handler handles the events of MDs.
type Handler interface {
	// HandleEvent is called for each event of an MD, one at a time and in order, with no lock
	// held. It runs in the goroutine that currently delivers the MD's events. This is a
	// goroutine of a driver, one that called the node for any message, or one that
	// Config.Spawn started. HandleEvent must not block. It may create, use and unlink MDs.
	// The event is valid until HandleEvent returns, and must not be modified.
	//
	// If 16384 events of an MD wait for the handler to return, further PUTs and GETs to the
	// MD are dropped as if they were too long. The number of waiting SEND, ACK and REPLY
	// events is limited only by the MD's threshold.
	HandleEvent(e *Event)
}

// HandlerFunc is a function that implements Handler.
type HandlerFunc func(e *Event)

// HandleEvent calls f.
func (f HandlerFunc) HandleEvent(e *Event) { f(e) }
