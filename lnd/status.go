package lnd

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/lnetd/lnetd/lnet"
)

// Status is the health class of a completed message (discovery 9.2). It says which side is at fault, so that
// its health is reduced, and whether the node may resend the message on another path.
type Status uint8

// The classes, with the side at fault and whether the node may resend. The values are those of discovery 9.2.
const (
	StatusOK             Status = iota
	StatusLocalInterrupt        // local, resend
	StatusLocalDropped          // local, resend; sending was never started
	StatusLocalAborted          // local, resend
	StatusLocalNoRoute          // local, resend
	StatusLocalError            // local, no resend
	StatusLocalTimeout          // local, resend
	StatusRemoteError           // remote, no resend
	StatusRemoteDropped         // remote, resend; the message did not reach the peer
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

// Error is a driver's error. It says what was attempted, with which peer, and which side is at fault.
type Error struct {
	// Driver is the name of the driver, such as "socklnd".
	Driver string
	// Op is what was attempted, such as "connect", "send" or "receive".
	Op string
	// Peer is the peer's NID. It is zero if the error is not about a peer.
	Peer lnet.NID
	// Status is the health class. It is never StatusOK.
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

// StatusOf returns the health class of a message that completed with err: StatusOK if err is nil, otherwise the
// Status of the first *Error in err's chain, or StatusLocalError if the chain contains none.
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

// ListenError means that a driver cannot listen at an address, mostly because of EADDRINUSE or EACCES.
type ListenError struct {
	Addr netip.AddrPort
	Err  error
}

func (e *ListenError) Error() string { return fmt.Sprintf("listen on %s: %v", e.Addr, e.Err) }

func (e *ListenError) Unwrap() error { return e.Err }

// Errors that drivers wrap. The error with which a message completes is an *Error that wraps one of these, or
// another error.
var (
	// ErrClosed means that the interface is closed or closing.
	ErrClosed = errors.New("interface closed")
	// ErrExists means that another interface of the driver has the NID.
	ErrExists = errors.New("an interface already has it")
	// ErrUnreachable means that there is no connection to the peer, and that no attempt to make one is in
	// progress (socklnd 12.4).
	ErrUnreachable = errors.New("no connection with the peer")
	// ErrRecalled means that Interface.Recall has canceled the message. No byte of it was written, and no side
	// is at fault.
	ErrRecalled = errors.New("the message was canceled before it was sent")
	// ErrTimeout means that a message made no progress within the LND timeout.
	ErrTimeout = errors.New("timed out")
	// ErrProtocol means that the peer broke the protocol.
	ErrProtocol = errors.New("protocol error")
	// ErrDisconnected means that the connection was lost while the message was on it.
	ErrDisconnected = errors.New("connection lost")
	// ErrRestarted means that the peer has restarted. A message that was sent on a connection to the former
	// incarnation has arrived there or is lost.
	ErrRestarted = errors.New("the peer has restarted")
	// ErrLargeNID means that the interface or the connection cannot carry a NID with a 16-byte address
	// (lnet-wire 4.9).
	ErrLargeNID = errors.New("NIDs with 16-byte addresses are not supported on this connection")
)
