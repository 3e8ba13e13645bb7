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
	// CauseTooLong means that the message is longer than the remaining memory of the MD,
	// which has no Truncate.
	CauseTooLong
	// CauseBacklog means that too many events wait for the MD's handler (see Handler).
	CauseBacklog
	// CauseFull means that too many PUTs already wait on the lazy portal (see SetLazy).
	CauseFull
	// CauseNoMD means that the MD to which an ACK or REPLY is addressed is unknown or
	// unlinked.
	CauseNoMD
	// CauseUsedUp means that the MD to which an ACK or REPLY is addressed has no operations
	// left.
	CauseUsedUp
	// CauseUnsolicited means that no request from the MD has asked for this ACK or REPLY.
	CauseUnsolicited
	// CauseClosed means that the table is closed, or that Operation.Closing was set.
	CauseClosed
)
