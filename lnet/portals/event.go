package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// EventType is what happened to an MD (lnet-core 3.1).
type EventType uint8

// The values are those of lnet-core 3.1.
const (
	EventGet    EventType = iota + 1 // a remote GET was served
	EventPut                         // a remote PUT stands in the MD
	EventReply                       // the answer to our GET has arrived
	EventAck                         // the acknowledgement of our PUT has arrived
	EventSend                        // our PUT or GET has left, or has failed for good
	EventUnlink                      // Unlink removed an MD with nothing under way
)

var eventNames = [...]string{"", "GET", "PUT", "REPLY", "ACK", "SEND", "UNLINK"}

func (t EventType) String() string {
	if t > 0 && int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// Event tells of one operation on an MD (lnet-core 3.2). Fields that a type
// does not use are zero, with these exceptions: the table leaves what it does
// not know as the operation's owner set it; with EventSend the NIDs of
// Initiator and Source, and Sender, are AnyNID, and Target, Portal, MatchBits,
// HdrData and Offset are what the caller asked for; MD, Memory or Bytes,
// Options and UserPtr are set with every type, EventUnlink included.
type Event struct {
	Type EventType
	// MsgType is the type of the message that made the event; with
	// EventReply it is MsgGet if the answer came by RDMA.
	MsgType lnet.MsgType
	// Unlinked says that this is the last event of the MD.
	Unlinked bool
	// Portal is the portal named in the request.
	Portal uint32
	// Target is the destination named in the header; with EventSend the one
	// that the caller asked for.
	Target lnet.ProcessID
	// Initiator is the process that sent the message, by primary NID; its NID
	// is AnyNID with EventSend.
	Initiator lnet.ProcessID
	// Source is the process that sent the message, by the NID in the header.
	Source lnet.ProcessID
	// Sender is the immediate neighbour that the message came from.
	Sender lnet.NID
	// MatchBits and HdrData are those of the request.
	MatchBits uint64
	HdrData   uint64
	// Requested (rlength) and Length (mlength) are the bytes asked for and
	// the bytes accepted.
	Requested int
	Length    int
	// Offset is where in the MD the bytes begin; with EventSend the remote
	// offset asked for. If Length is 0 it may lie beyond the MD's memory:
	// with ManageRemote an empty request may name any offset, so that Bytes
	// must not be cut by hand. See Data.
	Offset int
	// MD, Memory, Bytes, Options and UserPtr are those of the MD: Bytes if it
	// was made with them, else Memory.
	MD      lnet.Handle
	Memory  memory.Vector
	Bytes   []byte
	Options MDOptions
	UserPtr any
	// Err is nil if the operation succeeded. See ErrTimedOut, ErrCanceled and
	// lnd.StatusOf.
	Err error
}

// holds tells whether the event is of bytes that have come into the MD or left
// it.
func (e *Event) holds() bool {
	return e.Length > 0 && (e.Type == EventPut || e.Type == EventGet || e.Type == EventReply)
}

// Data is the bytes in the MD that a PUT or REPLY has filled or a GET has read:
// Length bytes from Offset on, in place. It is empty with all other types, if
// Length is 0, and if the MD was not made with Bytes: see DataMemory. If Err is
// not nil the bytes may be anything. They are the MD's memory itself: with
// ManageRemote, later requests may overwrite them while the handler looks.
func (e *Event) Data() []byte {
	if !e.holds() || e.Bytes == nil {
		return nil
	}
	return e.Bytes[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
}

// DataMemory is Data for MDs made with Memory. With one made with Bytes it is
// the same bytes as Data, but allocates.
func (e *Event) DataMemory() memory.Vector {
	if !e.holds() {
		return memory.Vector{}
	}
	if e.Bytes != nil {
		return memory.Of(e.Data())
	}
	return e.Memory.Slice(e.Offset, e.Length)
}

// Handler hears of an MD's events.
type Handler interface {
	// HandleEvent is called for one event of an MD at a time, in order, and
	// under no lock. It runs in the goroutine of whoever delivers the MD's
	// events at the moment: a driver's, that of a caller of the node, for
	// this or another message, or one of the table's owner (Config.Spawn). It
	// must not block. It may make, use and unlink MDs. The event is valid
	// until it returns and must not be changed.
	//
	// While 16384 events of an MD wait for the handler to return, the MD
	// takes no further PUTs and GETs, which are dropped as if they were too
	// long. SEND, ACK and REPLY events have no such limit: the MD's threshold
	// bounds them, if it has one.
	HandleEvent(e *Event)
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(e *Event)

// HandleEvent calls f.
func (f HandlerFunc) HandleEvent(e *Event) { f(e) }
