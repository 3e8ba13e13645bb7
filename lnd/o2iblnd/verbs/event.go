package verbs

import (
	"fmt"
	"net/netip"
)

// EventKind is the kind of a connection event. The numbers are those of librdmacm.
type EventKind uint32

// Kinds of events, and what the driver must do after some of them (o2iblnd 12.6).
const (
	EventAddrResolved   EventKind = 0
	EventAddrError      EventKind = 1
	EventRouteResolved  EventKind = 2
	EventRouteError     EventKind = 3
	EventConnectRequest EventKind = 4 // Event.ID is a new ID, which the driver must destroy at the end
	EventConnectError   EventKind = 6
	EventUnreachable    EventKind = 7
	EventRejected       EventKind = 8
	EventEstablished    EventKind = 9
	EventDisconnected   EventKind = 10
	EventDeviceRemoval  EventKind = 11 // the driver must destroy the ID, and close everything else on the device
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

// name returns the name of k in names, or its number.
func name[K ~uint32 | ~uint8](names map[K]string, k K) string {
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprint(uint32(k))
}

// Reasons in the Status of EventRejected. Only RejectConsumer comes from the peer's driver. All others come
// from a connection manager, with private data of zeros (o2iblnd 6).
const (
	RejectTimeout    = 4  // the side that sent the request no longer waits for the answer
	RejectNoListener = 8  // the address has no listener
	RejectStale      = 10 // the peer's connection manager still has an earlier connection
	RejectConsumer   = 28 // the peer has called Reject or, if the private data is zeros, destroyed the ID without an answer
	RejectInvalidID  = 6  // the peer does not have the connection
)

// Event is a connection event. It contains no pointers to memory of the implementation.
type Event struct {
	Kind EventKind
	// Status is 0 or a negative errno. For EventRejected it is a reason.
	Status int32
	// ID is the ID that the event is about. Listener is the listener that has received a request, for
	// EventConnectRequest.
	ID, Listener ID
	// Local and Remote are the addresses of the two ends. They are set for EventConnectRequest.
	Local, Remote netip.AddrPort
	// Private is the private data from the peer, padded with zeros to the size that the transport carries
	// (o2iblnd 3.5). PrivateLen is its length in bytes.
	PrivateLen int
	Private    [MaxAcceptPrivate]byte
	// Retries and RNRRetries are the values that the peer has passed in ConnParam.
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
	Port uint32 // the port, for AsyncPort... and for the changes
	QPN  uint32 // number of the queue pair, for AsyncQP... and AsyncCommEst
}
