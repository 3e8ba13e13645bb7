package discovery

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Errors of operations that are rejected, and of rounds that fail. In parentheses is the
// errno that LNet uses (discovery 7.4, 7.5, 7.7, 7.8).
var (
	// ErrInvalid means that the NID cannot belong to a peer (EINVAL).
	ErrInvalid = errors.New("not a NID that a peer can have")
	// ErrPermission means that the peer was configured differently, or that its primary NID
	// is locked (EPERM).
	ErrPermission = errors.New("the configuration or a locked primary NID does not allow it")
	// ErrNotFound means that no peer has the NID, or that no route leads through it (ENOENT).
	ErrNotFound = errors.New("no such peer or NID")
	// ErrNotPrimary means that the NID is not the primary NID of its peer (ENODEV).
	ErrNotPrimary = errors.New("not the primary NID")
	// ErrExists means that the peer already exists, or that the NID belongs to another
	// configured peer (EEXIST).
	ErrExists = errors.New("already exists")
	// ErrLocked means that the NID belongs to a peer whose primary NID is another one and is
	// locked (EALREADY).
	ErrLocked = errors.New("belongs to a peer with another primary NID, which is locked")
	// ErrOtherPeer means that the NID belongs to another peer (ECHILD).
	ErrOtherPeer = errors.New("belongs to another peer")
	// ErrBusy means that routes lead through the peer, or that its primary NID cannot be
	// removed while it has other NIDs (EBUSY).
	ErrBusy = errors.New("it is used by routes, or is the primary NID of a peer with other NIDs")
	// ErrNotUnique means that the peer, which is not Multi-Rail, already has another NID on
	// the net (ENOTUNIQ).
	ErrNotUnique = errors.New("has another NID on this net")
	// ErrNoPeer means that no peer can have the NID (ENETRESET).
	ErrNoPeer = errors.New("no peer can have this NID")
	// ErrPingFailed means that the last ping failed (EHOSTUNREACH).
	ErrPingFailed = errors.New("ping failed")
	// ErrUnderWay means that a round with the peer is in progress (EALREADY).
	ErrUnderWay = errors.New("discovery is in progress")
	// ErrAgain means that a round with the peer was started (EAGAIN).
	ErrAgain = errors.New("discovery was started; try again when it has finished")
	// ErrClosed means that discovery is stopped (ESHUTDOWN).
	ErrClosed = errors.New("discovery is stopped")
	// ErrCanceled means that discovery was stopped while a message waited
	// (ECANCELED).
	ErrCanceled = errors.New("canceled while waiting for discovery")
	// ErrTimedOut means that no response arrived in time (ETIMEDOUT).
	ErrTimedOut = errors.New("timed out waiting for the answer")
	// ErrLost means that the connection over which the response was expected was lost
	// (EHOSTUNREACH).
	ErrLost = errors.New("the connection was lost before the answer arrived")
	// ErrBadInfo means that a peer repeatedly sent unusable ping info (EPROTO).
	ErrBadInfo = errors.New("the peer repeatedly sent invalid ping info")
	// ErrFull means that the limit on NIDs that are not configured is reached (ENOSPC).
	ErrFull = errors.New("there are too many NIDs of unconfigured peers")
)

// PeerError reports which operation on which peer was rejected, and why.
type PeerError struct {
	// Op is the operation, such as "add" or "delete".
	Op string
	// Peer is the primary NID that the caller passed.
	Peer lnet.NID
	// NID is the NID that caused the error, or zero if that is Peer.
	NID lnet.NID
	// Err is one of the errors above.
	Err error
}

func (e *PeerError) Error() string {
	if e.NID.IsZero() || e.NID == e.Peer {
		return fmt.Sprintf("%s peer %s: %v", e.Op, e.Peer, e.Err)
	}
	return fmt.Sprintf("%s peer %s: nid %s: %v", e.Op, e.Peer, e.NID, e.Err)
}

// Unwrap returns e.Err.
func (e *PeerError) Unwrap() error { return e.Err }

func peerError(op string, peer, nid lnet.NID, err error) error {
	if err == nil {
		return nil
	}
	return &PeerError{Op: op, Peer: peer, NID: nid, Err: err}
}
