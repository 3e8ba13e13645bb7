package lnd

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/lnetd/lnetd/lnet"
)

// Status is the health class of a completed message (lnet-core, discovery 9.2):
// whose fault a failure is, and so whose health suffers and whether the node
// may send the message again on another path.
type Status uint8

// The values are those of discovery 9.2.
const (
	StatusOK             Status = iota
	StatusLocalInterrupt        // local, resend
	StatusLocalDropped          // local, resend: never started
	StatusLocalAborted          // local, resend
	StatusLocalNoRoute          // local, resend
	StatusLocalError            // local, no resend
	StatusLocalTimeout          // local, resend
	StatusRemoteError           // remote, no resend
	StatusRemoteDropped         // remote, resend: never reached the peer
	StatusRemoteTimeout         // remote, no resend
	StatusNetworkTimeout        // both, no resend
)

var statusNames = [...]string{
	"ok", "local interrupt", "local dropped", "local aborted", "local no route",
	"local error", "local timeout", "remote error", "remote dropped",
	"remote timeout", "network timeout",
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Error is a driver's error: what was attempted, with whom, and whose fault
// the failure is.
type Error struct {
	// Driver names the driver: "socklnd".
	Driver string
	// Op is what was attempted: "connect", "send", "receive".
	Op string
	// Peer is the other side; zero if there is none.
	Peer lnet.NID
	// Status is the health class, never StatusOK.
	Status Status
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	if e.Peer.IsZero() {
		return fmt.Sprintf("%s: %s: %v", e.Driver, e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %s %s: %v", e.Driver, e.Op, e.Peer, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// StatusOf returns the health class of a completion: StatusOK for nil, the
// class of the first Error in err's chain, else StatusLocalError.
func StatusOf(err error) Status {
	if err == nil {
		return StatusOK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return StatusLocalError
}

// ListenError is an address that a driver cannot listen at: EADDRINUSE or EACCES, mostly.
type ListenError struct {
	Addr netip.AddrPort
	Err  error
}

func (e *ListenError) Error() string { return fmt.Sprintf("listen on %s: %v", e.Addr, e.Err) }

func (e *ListenError) Unwrap() error { return e.Err }

// Errors that drivers wrap, in an Error if they tell of a message.
var (
	// ErrClosed means that the interface is closed or closing.
	ErrClosed = errors.New("interface closed")
	// ErrExists means that another interface of the driver has the NID.
	ErrExists = errors.New("interface exists")
	// ErrUnreachable means that there is no connection with the peer and
	// none is being made (socklnd 12.4).
	ErrUnreachable = errors.New("no connection with the peer")
	// ErrRecalled means that Interface.Recall took the message back: no byte of
	// it was written, and it is nobody's fault.
	ErrRecalled = errors.New("recalled")
	// ErrTimeout means that a message made no progress within the LND
	// timeout.
	ErrTimeout = errors.New("timed out")
	// ErrProtocol means that the peer broke the protocol.
	ErrProtocol = errors.New("protocol error")
	// ErrDisconnected means that the connection went away under the message.
	ErrDisconnected = errors.New("connection lost")
	// ErrRestarted means that the peer has begun a new life: what was on a
	// connection of the one before has arrived there or nowhere.
	ErrRestarted = errors.New("the peer has restarted")
	// ErrLargeNID means that a NID with a 16-byte address cannot be carried
	// by the interface, or on the connection (lnet-wire 4.9).
	ErrLargeNID = errors.New("large NID on a connection with 4-byte NIDs")
)
