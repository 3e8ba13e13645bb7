package lnd

import "fmt"

// Refusal is the reason why an interface refused a caller, that is, a peer that tried to connect.
type Refusal uint8

// Every caller either gets a connection or is counted under one of these reasons.
const (
	RefusedPort      Refusal = iota // unprivileged source port (socklnd 3)
	RefusedMagic                    // the caller does not speak the protocol
	RefusedVersion                  // the caller speaks an unknown version, or only asked which versions are known
	RefusedNID                      // the caller asked for a NID that this node does not have
	RefusedHello                    // the caller sent a malformed or contradictory hello
	RefusedSlow                     // the caller did not complete the handshake in time
	RefusedGone                     // the caller disconnected before it was accepted
	RefusedMany                     // there are too many callers, or too many connections from the caller's address
	RefusedClaims                   // the caller's address, or its IPv6 network, has used too many NIDs
	RefusedDuplicate                // there are already enough connections of this type to the peer
	RefusedRace                     // this node is connecting to the peer itself
	RefusedStale                    // the caller has another incarnation or version than its existing connections
	RefusedClosing                  // the interface is closing
	Refusals         = iota         // number of reasons
)

var refusalNames = [Refusals]string{
	"unprivileged_port", "bad_magic", "bad_version", "wrong_nid", "bad_hello", "too_slow", "went_away",
	"too_many", "too_many_nids", "duplicate", "race", "stale", "closing",
}

// String returns the reason's name in commands and metrics. It is in lower_case and never changes.
func (r Refusal) String() string { return refusalNames[r] }

// RefusedError is the error of a caller that was refused.
type RefusedError struct {
	Reason Refusal
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

// Refuse returns a *RefusedError with the reason r and an error that fmt.Errorf formats.
func Refuse(r Refusal, format string, args ...any) error {
	return &RefusedError{Reason: r, Err: fmt.Errorf(format, args...)}
}

// RefusalCounts holds the number of refused callers by reason.
type RefusalCounts [Refusals]uint64

// Total returns the sum over all reasons.
func (c *RefusalCounts) Total() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}
