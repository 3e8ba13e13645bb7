package portals

// Cause is the reason why the table dropped a message.
type Cause uint8

const (
	// CauseNone means that the message was not dropped.
	CauseNone Cause = iota
	// CauseNoPortal means that the portal does not exist.
	CauseNoPortal
	// CauseNoMatch means that no entry matches the request.
	CauseNoMatch
	// CauseTooLong means that the message is longer than the room in the MD.
	CauseTooLong
	// CauseBacklog means that too many events wait for the MD's handler (see Handler).
	CauseBacklog
	// CauseFull means that too many PUTs already wait on the portal (see SetLazy).
	CauseFull
	// CauseNoMD means that an ACK or REPLY names an unknown or unlinked MD.
	CauseNoMD
	// CauseUsedUp means that the named MD has no operations left.
	CauseUsedUp
	// CauseUnsolicited means that no request from the named MD asked for such a response.
	CauseUnsolicited
	// CauseClosed means that the table is closed, or that Operation.Closing was set.
	CauseClosed
)
