package protocol

import (
	"errors"
	"fmt"
	"syscall"
)

// Health is the class of a failure (o2iblnd 13.3). Its values are those of lnd.Status.
type Health uint8

// The classes that this driver uses.
const (
	// OK means that neither side failed, and that the message is not sent again.
	OK             Health = 0
	LocalDropped   Health = 2
	LocalAborted   Health = 3
	LocalError     Health = 5
	LocalTimeout   Health = 6
	RemoteError    Health = 7
	RemoteDropped  Health = 8
	RemoteTimeout  Health = 9
	NetworkTimeout Health = 10
)

// Failure is why a message failed, or why a connection ended or was not established. errors.Is finds both Errno
// and Err.
type Failure struct {
	Health Health
	Errno  syscall.Errno
	// Err has details. It may be nil.
	Err error
}

// Error returns a text such as "connection timed out: PUT_REQ unanswered".
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Errno.Error()
	}
	return fmt.Sprintf("%v: %v", f.Errno, f.Err)
}

// Unwrap returns both Errno and Err.
func (f *Failure) Unwrap() []error {
	if f.Err == nil {
		return []error{f.Errno}
	}
	return []error{f.Errno, f.Err}
}

// failureOf returns the failure for an error in a received message. If err contains a *Failure, this is the
// result. Any other error means that the peer has violated the protocol.
func failureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Health: RemoteError, Errno: syscall.EPROTO, Err: err}
}

// broken returns the failure of a connection whose peer has violated the protocol.
func broken(format string, args ...any) *Failure {
	return &Failure{Health: RemoteError, Errno: syscall.EPROTO, Err: fmt.Errorf(format, args...)}
}

// Unconnected returns the failure of an attempt to connect that ended with errno and err (o2iblnd 3.2, 13.3).
func Unconnected(errno syscall.Errno, err error) *Failure {
	f := &Failure{Health: LocalDropped, Errno: errno, Err: err}
	switch errno {
	case syscall.EHOSTUNREACH, syscall.ETIMEDOUT:
		f.Health = NetworkTimeout
	case syscall.ECONNREFUSED:
		f.Health = RemoteDropped
	}
	return f
}

// CMEvent is an event of the CM (connection manager) that ends an attempt to connect.
type CMEvent uint8

// The events, named as in librdmacm (o2iblnd 12.6). Only CMTimeout is not an event of the CM: it means that no
// event came within ConnectTimeout.
const (
	CMAddrError CMEvent = iota
	CMRouteError
	CMUnreachable
	CMConnectError
	CMDisconnected
	CMTimeout
)

// String returns a name such as "ADDR_ERROR".
func (e CMEvent) String() string {
	return [...]string{"ADDR_ERROR", "ROUTE_ERROR", "UNREACHABLE", "CONNECT_ERROR", "DISCONNECTED", "no answer"}[e]
}

// Error implements error, so that the event can be the cause (Err) of a Failure.
func (e CMEvent) Error() string { return e.String() }

// Failure returns the failure of the attempt that the event ends.
func (e CMEvent) Failure() *Failure {
	errno := [...]syscall.Errno{syscall.EHOSTUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENOTCONN,
		syscall.ECONNRESET, syscall.ENETDOWN}[e]
	return Unconnected(errno, e)
}
