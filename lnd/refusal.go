package lnd

import "fmt"

// Refusal says why an interface turned a caller away: somebody who wanted a
// connection, and has none.
type Refusal uint8

// Every caller ends as a connection or under one of these.
const (
	RefusedPort      Refusal = iota // came from an unprivileged port (socklnd 3)
	RefusedMagic                    // does not speak the protocol
	RefusedVersion                  // speaks a version that is not known, or asked which are
	RefusedNID                      // wants a NID that is not here
	RefusedHello                    // introduced itself in a way that makes no sense
	RefusedSlow                     // did not introduce itself in time
	RefusedGone                     // went away before it was let in
	RefusedMany                     // too many callers, or connections with its address
	RefusedClaims                   // its address, or IPv6 network, has called by too many NIDs
	RefusedDuplicate                // there are enough connections of the type with it
	RefusedRace                     // it is being called itself
	RefusedStale                    // is of another life or version than its connections
	RefusedClosing                  // the interface is closing
	Refusals         = iota         // how many reasons there are
)

var refusalNames = [Refusals]string{
	"unprivileged_port", "bad_magic", "bad_version", "wrong_nid", "bad_hello", "too_slow", "went_away",
	"too_many", "too_many_nids", "duplicate", "race", "stale", "closing",
}

// String is the name by which commands and metrics know the reason, lower_case
// and stable.
func (r Refusal) String() string { return refusalNames[r] }

// RefusedError is why a driver turned a caller away.
type RefusedError struct {
	Reason Refusal
	Err    error
}

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

// Refuse returns a *RefusedError in the words of fmt.Errorf.
func Refuse(r Refusal, format string, args ...any) error {
	return &RefusedError{Reason: r, Err: fmt.Errorf(format, args...)}
}

// RefusalCounts are numbers of callers by why they were turned away.
type RefusalCounts [Refusals]uint64

// Total is the sum over all reasons.
func (c *RefusalCounts) Total() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}
