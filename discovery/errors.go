package discovery

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Why an operation is refused, or a round failed. The errno that LNet has for
// each is named for those who must show one (discovery 7.4, 7.5, 7.7, 7.8).
var (
	// ErrInvalid means that a NID cannot be a peer's (EINVAL).
	ErrInvalid = errors.New("not the NID of a peer")
	// ErrPermission means that the peer was configured otherwise, or that its
	// primary NID is locked (EPERM).
	ErrPermission = errors.New("configuration or lock forbids it")
	// ErrNotFound means that there is no such peer or NID (ENOENT).
	ErrNotFound = errors.New("unknown")
	// ErrNotPrimary means that the NID is not its peer's primary one (ENODEV).
	ErrNotPrimary = errors.New("not the primary NID")
	// ErrExists means that the peer exists, or that the NID belongs to another
	// configured one (EEXIST).
	ErrExists = errors.New("already there")
	// ErrLocked means that the NID belongs to a peer whose primary NID is
	// another one, and locked (EALREADY).
	ErrLocked = errors.New("belongs to a peer with another, locked, primary NID")
	// ErrOtherPeer means that the NID belongs to another peer (ECHILD).
	ErrOtherPeer = errors.New("belongs to another peer")
	// ErrBusy means that routes lead through the peer, or that it has other
	// NIDs than its primary one (EBUSY).
	ErrBusy = errors.New("in use")
	// ErrNotUnique means that a peer that is not Multi-Rail has a NID on that
	// net already (ENOTUNIQ).
	ErrNotUnique = errors.New("has another NID on this net")
	// ErrNoPeer means that no peer can be made of the NID (ENETRESET).
	ErrNoPeer = errors.New("no peer can have this NID")
	// ErrPingFailed means that the last ping failed (EHOSTUNREACH).
	ErrPingFailed = errors.New("ping failed")
	// ErrUnderWay means that a round runs (EALREADY).
	ErrUnderWay = errors.New("discovery is under way")
	// ErrAgain means that a round was started (EAGAIN).
	ErrAgain = errors.New("discovery was started")
	// ErrClosed means that discovery is stopped (ESHUTDOWN).
	ErrClosed = errors.New("discovery is stopped")
	// ErrCanceled means that discovery was stopped while a message waited
	// (ECANCELED).
	ErrCanceled = errors.New("canceled while waiting for discovery")
	// ErrTimedOut means that no answer came in time (ETIMEDOUT).
	ErrTimedOut = errors.New("no answer in time")
	// ErrLost means that the way died by which an answer would have come
	// (EHOSTUNREACH).
	ErrLost = errors.New("the connection was lost before the answer came")
	// ErrBadInfo means that a peer went on answering with what cannot be used
	// (EPROTO).
	ErrBadInfo = errors.New("unusable ping info")
	// ErrFull means that there is no room for more NIDs that nobody configured
	// (ENOSPC).
	ErrFull = errors.New("no room for more NIDs")
)

// PeerError says which operation on which peer was refused.
type PeerError struct {
	// Op is what was attempted: "add", "delete", ...
	Op string
	// Peer is the primary NID that was named.
	Peer lnet.NID
	// NID is the NID in question, zero if it is Peer.
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

// Unwrap is Err.
func (e *PeerError) Unwrap() error { return e.Err }

func refuse(op string, peer, nid lnet.NID, err error) error {
	if err == nil {
		return nil
	}
	return &PeerError{Op: op, Peer: peer, NID: nid, Err: err}
}
