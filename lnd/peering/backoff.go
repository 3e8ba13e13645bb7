package peering

import "time"

// Backoff spaces attempts to connect to one peer. It is not safe for concurrent use.
type Backoff struct {
	// Min and Max bound the pause after a failed attempt.
	Min, Max time.Duration
	// Cause is why the last attempt failed, for messages that are sent during the pause. It is nil if
	// that attempt did not fail.
	Cause error

	interval time.Duration // after the last failure
	next     time.Time     // no attempt before this time
	refusals int           // in a row
}

// maxRefusals is how many refusals in a row are followed by another attempt.
const maxRefusals = 3

// Ready reports whether an attempt may start.
func (b *Backoff) Ready(now time.Time) bool { return !now.Before(b.next) }

// Next returns the earliest time of the next attempt.
func (b *Backoff) Next() time.Time { return b.next }

// Reset ends the pause and forgets failures, because a connection to the peer exists or because an
// operator asks for it.
func (b *Backoff) Reset() {
	b.Cause = nil
	b.interval = 0
	b.next = time.Time{}
}

// Succeed ends a series of refusals.
func (b *Backoff) Succeed() { b.refusals = 0 }

// Fail records a failed attempt. The pause doubles, from Min to Max. jitter, from [0, 1), lengthens it
// by up to a quarter, so that the peers of a restarted server do not return all at once.
func (b *Backoff) Fail(now time.Time, cause error, jitter float64) {
	b.Cause = cause
	b.interval = min(max(2*b.interval, b.Min), b.Max)
	b.next = now.Add(b.interval + time.Duration(jitter*float64(b.interval)/4))
	b.refusals = 0
}

// Pause delays the next attempt by Min, because the peer is connecting to this node.
func (b *Backoff) Pause(now time.Time) { b.next = now.Add(b.Min) }

// Refused counts a refusal that is not a failure: a race, another version, or an old incarnation. It
// reports whether there have been too many in a row.
func (b *Backoff) Refused() bool {
	b.refusals++
	return b.refusals >= maxRefusals
}
