package node

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Errors of calls and events, wrapped with what was attempted. The errno that
// LNet has for each is named for those who must show one.
var (
	// ErrClosed means that the node is closed or closing (ESHUTDOWN).
	ErrClosed = portals.ErrClosed
	// ErrInvalid means that an argument makes no sense (EINVAL).
	ErrInvalid = portals.ErrInvalid
	// ErrExists means that the NID or the device is in use already (EEXIST).
	ErrExists = errors.New("already in use")
	// ErrTooMany means that no more interfaces may be added (ENOSPC).
	ErrTooMany = errors.New("too many interfaces")
	// ErrRouted means that there are routes to the net (EUSERS).
	ErrRouted = errors.New("there are routes to the net")
	// ErrBusy means that the router is still stopping (EBUSY).
	ErrBusy = errors.New("busy")
	// ErrNotFound means that there is no such MD, that it is unlinked or used
	// up, or that there is no such NI (ENOENT).
	ErrNotFound = portals.ErrNotFound
	// ErrPortalClass means that a unique entry was attached to a portal of
	// wildcard entries or the other way round (EPERM).
	ErrPortalClass = portals.ErrPortalClass
	// ErrTaken means that somebody else has match bits to himself, or that entries
	// take them already (EADDRINUSE).
	ErrTaken = portals.ErrTaken
	// ErrUnreachable means that no NI leads to the target (EHOSTUNREACH).
	ErrUnreachable = errors.New("no path to the target")
	// ErrTimedOut means that a deadline passed, or that the MD was unlinked
	// while the operation was under way (ETIMEDOUT).
	ErrTimedOut = portals.ErrTimedOut
	// ErrCanceled means that the MD was unlinked before the message left
	// (ECANCELED).
	ErrCanceled = portals.ErrCanceled
	// ErrRestarted means that the peer has begun a new life, so that what the one
	// before was asked will not be answered (EIO). It ends requests whose responses
	// are watched (see Parameters.ResponseTracking). Of a target behind a router
	// nobody learns that: such requests end with ErrTimedOut.
	ErrRestarted = lnd.ErrRestarted
	// ErrFailNID means that FailNID forbids the target (EIO).
	ErrFailNID = errors.New("target was told to fail")
	// ErrShortReply means that a ping was answered with less than the ping
	// info's size and the room allow (lnet-wire 7.6).
	ErrShortReply = errors.New("short reply")
)

// errRule is why a message fails that a fault rule hits.
var errRule = errors.New("hit by a fault rule")

// ProtocolError says how a peer broke the protocol (lnet-wire 4.7). It is what
// a driver gets from Upper.Arrived, and is an lnd.ErrProtocol.
type ProtocolError struct {
	// NI is the interface that the message came to.
	NI lnet.NID
	// From is the process at the other end of the connection.
	From lnet.ProcessID
	// Err is the cause.
	Err error
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("message from %s to %s: %v", e.From, e.NI, e.Err)
}

// Unwrap gives the cause and lnd.ErrProtocol.
func (e *ProtocolError) Unwrap() []error { return []error{lnd.ErrProtocol, e.Err} }
