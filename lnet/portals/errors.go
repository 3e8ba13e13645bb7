package portals

import "errors"

// Errors of calls and events, wrapped with what was attempted. The errno that
// LNet has for each is named for those who must show one.
var (
	// ErrInvalid means that an argument makes no sense (EINVAL).
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound means that there is no such MD, or that it is unlinked or
	// used up (ENOENT).
	ErrNotFound = errors.New("not found")
	// ErrPortalClass means that a unique entry was attached to a portal of
	// wildcard entries or the other way round (EPERM).
	ErrPortalClass = errors.New("portal is of the other class")
	// ErrTaken means that somebody else has match bits to himself, or that entries
	// take them already (EADDRINUSE).
	ErrTaken = errors.New("match bits are taken")
	// ErrCanceled means that the MD was unlinked before the message left
	// (ECANCELED).
	ErrCanceled = errors.New("canceled")
	// ErrTimedOut means that a deadline passed, or that the MD was unlinked
	// while the operation was under way (ETIMEDOUT).
	ErrTimedOut = errors.New("timed out")
	// ErrClosed means that the table, or the node that owns it, is closed
	// (ESHUTDOWN).
	ErrClosed = errors.New("node closed")
)
