package verbs

import (
	"fmt"
	"net/netip"
)

// EventKind is what a connection event tells; the numbers are librdmacm's.
type EventKind uint32

// The events, and what follows them (o2iblnd 12.6).
const (
	EventAddrResolved   EventKind = 0
	EventAddrError      EventKind = 1
	EventRouteResolved  EventKind = 2
	EventRouteError     EventKind = 3
	EventConnectRequest EventKind = 4 // a new ID, which is the receiver's to destroy
	EventConnectError   EventKind = 6
	EventUnreachable    EventKind = 7
	EventRejected       EventKind = 8
	EventEstablished    EventKind = 9
	EventDisconnected   EventKind = 10
	EventDeviceRemoval  EventKind = 11 // destroy the ID, and all else on the device
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

// Reasons in EventRejected's Status. All but RejectConsumer come from the
// connection manager, with private data of zeros (o2iblnd 6).
const (
	RejectTimeout    = 4  // the caller has given up
	RejectNoListener = 8  // nobody listens there
	RejectStale      = 10 // of a connection that the peer's manager still knows
	RejectConsumer   = 28 // Reject; with zeros: destroyed without an answer
	RejectInvalidID  = 6  // the peer knows nothing of the connection
)

// Event is a connection event. It has no memory but its own.
type Event struct {
	Kind EventKind
	// Status is 0, a negative errno, or for EventRejected a reason.
	Status int32
	// ID is whose event it is. Listener is that of an EventConnectRequest.
	ID, Listener ID
	// Local and Remote are the ends' addresses in an EventConnectRequest.
	Local, Remote netip.AddrPort
	// PrivateLen bytes of Private came from the peer, padded with zeros to the size
	// that the transport carries (o2iblnd 3.5).
	PrivateLen int
	Private    [MaxAcceptPrivate]byte
	// Retries and RNRRetries are what the peer asked for.
	Retries, RNRRetries uint8
}

// AsyncKind is what a device event tells; the numbers are libibverbs'.
type AsyncKind uint32

// Device events (o2iblnd 16).
const (
	AsyncCQError        AsyncKind = 0 // a completion queue overflowed; its queue pairs are lost
	AsyncQPFatal        AsyncKind = 1
	AsyncQPRequestError AsyncKind = 2
	AsyncQPAccessError  AsyncKind = 3
	AsyncCommEst        AsyncKind = 4 // heard of the peer before it was established: ID.Established
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
	Port uint32 // of AsyncPort... and the changes
	QPN  uint32 // of AsyncQP... and AsyncCommEst
}
