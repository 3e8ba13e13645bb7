package portals

// Cause says why the table gave a message up.
type Cause uint8

const (
	// CauseNone: it was not given up.
	CauseNone Cause = iota
	// CauseNoPortal: there is no such portal.
	CauseNoPortal
	// CauseNoMatch: no entry takes the request.
	CauseNoMatch
	// CauseTooLong: it is longer than what the MD has room for.
	CauseTooLong
	// CauseBehind: the MD's handler is too far behind (see Handler).
	CauseBehind
	// CauseFull: too many PUTs wait on the portal already (see SetLazy).
	CauseFull
	// CauseNoMD: an ACK or a REPLY names no MD, or one that is unlinked.
	CauseNoMD
	// CauseUsedUp: the MD that it names has no operations left.
	CauseUsedUp
	// CauseUnasked: the MD that it names asked for no such answer.
	CauseUnasked
	// CauseClosed: the table is closed, or who brought the request is going.
	CauseClosed
)
