package portals

import "errors"

// Errors of calls and events. They are wrapped with a description of the operation that
// failed. The errno in parentheses is the one that LNet uses.
var (
	// ErrInvalid means that an argument is invalid (EINVAL).
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound means that the MD does not exist, is unlinked, or has no operations left
	// (ENOENT).
	ErrNotFound = errors.New("not found")
	// ErrPortalClass means that a unique entry was attached to a wildcard portal, or a
	// wildcard entry to a unique portal (EPERM).
	ErrPortalClass = errors.New("unique and wildcard entries cannot share a portal")
	// ErrTaken means that the match bits are claimed, or that existing entries match them
	// (EADDRINUSE).
	ErrTaken = errors.New("match bits are in use")
	// ErrCanceled means that the MD was unlinked before the message was sent (ECANCELED).
	ErrCanceled = errors.New("canceled")
	// ErrTimedOut means that a deadline passed, or that the MD was unlinked while the
	// operation was under way (ETIMEDOUT).
	ErrTimedOut = errors.New("timed out")
	// ErrClosed means that the table, or the node that owns it, is closed (ESHUTDOWN).
	ErrClosed = errors.New("node closed")
)
