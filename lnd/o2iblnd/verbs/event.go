package verbs

import (
	"fmt"
	"net/netip"
)

// EventKind is the kind of a connection event. The numbers are those of librdmacm.
type EventKind uint32

// Kinds of events, and what the driver must do (o2iblnd 12.6).
const (
	EventAddrResolved   EventKind = 0
	EventAddrError      EventKind = 1
	EventRouteResolved  EventKind = 2
	EventRouteError     EventKind = 3
	EventConnectRequest EventKind = 4 // a new ID, which the receiver must destroy
	EventConnectError   EventKind = 6
	EventUnreachable    EventKind = 7
	EventRejected       EventKind = 8
	EventEstablished    EventKind = 9
	EventDisconnected   EventKind = 10
	EventDeviceRemoval  EventKind = 11 // destroy the ID, and everything else on the device
	EventAddrChange     EventKind = 14
	EventTimewaitExit   EventKind = 15
)

var eventNames = map[EventKind]string{
	EventAddrResolved: "ADDR_RESOLVED", EventAddrError: "ADDR_ERROR", EventRouteResolved: "ROUTE_RESOLVED",
	EventRouteError: "ROUTE_ERROR", EventConnectRequest: "CONNECT_REQUEST", EventConnectError: "CONNECT_ERROR",
	EventUnreachable: "UNREACHABLE", EventRejected: "REJECTED", EventEstablished: "ESTABLISHED",
	EventDisconnected: "DISCONNECTED", EventDeviceRemoval: "DEVICE_REMOVAL", EventAddrChange: "ADDR_CHANGE",
	EventTimewaitExit: "TIMEWAIT_EXIT",
}

func (k EventKind) String() string { return name(eventNames, k) }

func name[K ~uint32 | ~uint8](names map[K]string, k K) string {
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprint(uint32(k))
}

// Reasons in the Status of EventRejected. All except RejectConsumer come from the connection manager,
// with private data of zeros (o2iblnd 6).
const (
	RejectTimeout    = 4  // the calling side has given up
	RejectNoListener = 8  // no listener at the address
	RejectStale      = 10 // for a connection that the peer's manager still has
	RejectConsumer   = 28 // Reject; with private data of zeros: destroyed without an answer
	RejectInvalidID  = 6  // the peer does not have the connection
)

// Event is a connection event. It refers to no memory outside of it.
type Event struct {
	Kind EventKind
	// Status is 0, a negative errno, or for EventRejected a reason.
	Status int32
	// ID is the ID of the event. Listener is set for EventConnectRequest.
	ID, Listener ID
	// Local and Remote are the addresses of the two ends. They are set for EventConnectRequest.
	Local, Remote netip.AddrPort
	// PrivateLen is the number of bytes in Private. They came from the peer, padded with zeros to the
	// size that the transport carries (o2iblnd 3.5).
	PrivateLen int
	Private    [MaxAcceptPrivate]byte
	// Retries and RNRRetries are the values that the peer requested.
	Retries, RNRRetries uint8
}

// AsyncKind is the kind of a device event. The numbers are those of libibverbs.
type AsyncKind uint32

// Device events (o2iblnd 16).
const (
	AsyncCQError        AsyncKind = 0 // a completion queue overflowed; its queue pairs are lost
	AsyncQPFatal        AsyncKind = 1
	AsyncQPRequestError AsyncKind = 2
	AsyncQPAccessError  AsyncKind = 3
	AsyncCommEst        AsyncKind = 4 // a message arrived before the connection was established: call ID.Established
	AsyncDeviceFatal    AsyncKind = 8
	AsyncPortActive     AsyncKind = 9
	AsyncPortError      AsyncKind = 10
	AsyncLIDChange      AsyncKind = 11
	AsyncPKeyChange     AsyncKind = 12
	AsyncSMChange       AsyncKind = 13
	AsyncGIDChange      AsyncKind = 18
)

var asyncNames = map[AsyncKind]string{
	AsyncCQError: "CQ_ERR", AsyncQPFatal: "QP_FATAL", AsyncQPRequestError: "QP_REQ_ERR", AsyncQPAccessError: "QP_ACCESS_ERR",
	AsyncCommEst: "COMM_EST", AsyncDeviceFatal: "DEVICE_FATAL", AsyncPortActive: "PORT_ACTIVE", AsyncPortError: "PORT_ERR",
	AsyncLIDChange: "LID_CHANGE", AsyncPKeyChange: "PKEY_CHANGE", AsyncSMChange: "SM_CHANGE", AsyncGIDChange: "GID_CHANGE",
}

func (k AsyncKind) String() string { return name(asyncNames, k) }

// AsyncEvent is a device event.
type AsyncEvent struct {
	Kind AsyncKind
	Port uint32 // for AsyncPort... and the changes
	QPN  uint32 // for AsyncQP... and AsyncCommEst
}
