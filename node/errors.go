package node

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/selection"
)

// Errors of calls and events. They are wrapped with a description of what was attempted.
// The errno that LNet uses is given in parentheses.
var (
	// ErrClosed means that the node is closed or closing (ESHUTDOWN).
	ErrClosed = portals.ErrClosed
	// ErrInvalid means that an argument is invalid (EINVAL).
	ErrInvalid = portals.ErrInvalid
	// ErrExists means that the NID, device, route or portal is already in use (EEXIST).
	ErrExists = errors.New("already in use")
	// ErrTooMany means that no more interfaces may be added (ENOSPC).
	ErrTooMany = errors.New("too many interfaces")
	// ErrRouted means that an NI cannot be added on a net to which routes lead (EUSERS).
	ErrRouted = errors.New("routes use the net")
	// ErrBusy means that routing cannot be enabled while the router is still stopping
	// (EBUSY).
	ErrBusy = errors.New("busy")
	// ErrNotFound means that the MD does not exist, is unlinked or is used up, or that the NI
	// does not exist (ENOENT).
	ErrNotFound = portals.ErrNotFound
	// ErrPortalClass means that a unique entry was attached to a portal of wildcard entries,
	// or a wildcard entry to a portal of unique ones (EPERM).
	ErrPortalClass = portals.ErrPortalClass
	// ErrTaken means that the match bits are claimed by another caller, or that existing
	// entries accept them (EADDRINUSE).
	ErrTaken = portals.ErrTaken
	// ErrUnreachable means that neither an NI nor a route leads to the target (EHOSTUNREACH).
	ErrUnreachable = selection.ErrUnreachable
	// ErrTimedOut means that a deadline passed, or that the MD was unlinked while the
	// operation was under way (ETIMEDOUT).
	ErrTimedOut = portals.ErrTimedOut
	// ErrCanceled means that the MD was unlinked before the message was sent (ECANCELED).
	ErrCanceled = portals.ErrCanceled
	// ErrRestarted means that the peer has restarted and will not answer requests that were
	// sent before (EIO). Only requests whose responses are tracked end with it (see
	// Parameters.ResponseTracking). The restart of a target behind a router is not detected;
	// requests to it end with ErrTimedOut.
	ErrRestarted = lnd.ErrRestarted
	// ErrFailNID means that a call of FailNID makes this message fail, for a test (EIO).
	ErrFailNID = errors.New("sends to this target fail because of a test setting")
	// ErrShortReply means that the answer to a ping was incomplete although the buffer had
	// room for more (lnet-wire 7.6).
	ErrShortReply = errors.New("short reply")
)

// errRule is the cause of the error if a fault rule makes a send fail.
var errRule = errors.New("dropped by a fault rule")

// ProtocolError describes how a peer violated the protocol (lnet-wire 4.7). The node
// returns it to the driver from lnd.Upper.Arrived, and the driver closes the connection.
// It wraps lnd.ErrProtocol.
type ProtocolError struct {
	// NI is the interface on which the message arrived.
	NI lnet.NID
	// From is the process at the other end of the connection.
	From lnet.ProcessID
	// Err is the cause.
	Err error
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("message from %s to %s: %v", e.From, e.NI, e.Err)
}

// Unwrap returns lnd.ErrProtocol and the cause.
func (e *ProtocolError) Unwrap() []error { return []error{lnd.ErrProtocol, e.Err} }
