package protocol

import (
	"errors"
	"fmt"
	"syscall"
)

// Health is the class of a failure (o2iblnd 13.3). Its numbers are those of
// lnd.Status.
type Health uint8

// The classes that this driver has.
const (
	// OK: nobody is to blame, and nothing is to be sent again.
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

// Failure is why a message failed, a connection ended, or none was made. It is an
// Errno for errors.Is, and what Err is.
type Failure struct {
	Health Health
	Errno  syscall.Errno
	// Err says more; nil: there is no more to say.
	Err error
}

// Error is "connection timed out: PUT_REQ unanswered".
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Errno.Error()
	}
	return fmt.Sprintf("%v: %v", f.Errno, f.Err)
}

// Unwrap is both causes.
func (f *Failure) Unwrap() []error {
	if f.Err == nil {
		return []error{f.Errno}
	}
	return []error{f.Errno, f.Err}
}

// failureOf is an error about what a peer has sent: a Failure as it is, any other one
// is that it has broken the protocol.
func failureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Health: RemoteError, Errno: syscall.EPROTO, Err: err}
}

// broken is a failure of the connection: the peer has broken the protocol.
func broken(format string, args ...any) *Failure {
	return &Failure{Health: RemoteError, Errno: syscall.EPROTO, Err: fmt.Errorf(format, args...)}
}

// Unconnected is the failure of an attempt to connect (o2iblnd 3.2, 13.3).
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

// CMEvent is an event of the connection manager that ends an attempt.
type CMEvent uint8

// The events, as librdmacm names them (o2iblnd 12.6). CMTimeout is no event: there
// was none in ConnectTimeout.
const (
	CMAddrError CMEvent = iota
	CMRouteError
	CMUnreachable
	CMConnectError
	CMDisconnected
	CMTimeout
)

// String is "ADDR_ERROR".
func (e CMEvent) String() string {
	return [...]string{"ADDR_ERROR", "ROUTE_ERROR", "UNREACHABLE", "CONNECT_ERROR", "DISCONNECTED", "no answer"}[e]
}

// Failure is how the attempt has failed.
func (e CMEvent) Failure() *Failure {
	errno := [...]syscall.Errno{syscall.EHOSTUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENOTCONN,
		syscall.ECONNRESET, syscall.ENETDOWN}[e]
	return Unconnected(errno, errors.New(e.String()))
}
