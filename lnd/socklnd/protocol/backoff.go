package protocol

import "time"

// Backoff spaces the attempts to connect to one peer (socklnd 7). Times are
// arguments.
type Backoff struct {
	Min, Max time.Duration
	// Cause is why the last attempt failed hard, for those who come meanwhile; nil:
	// it did not.
	Cause error

	interval time.Duration // after the last hard failure
	next     time.Time     // no attempt before
	refusals int           // soft refusals in a row
}

// maxSoftRefusals is how many refusals in a row are followed by a new attempt.
const maxSoftRefusals = 3

// Ready tells whether an attempt may start.
func (b *Backoff) Ready(now time.Time) bool { return !now.Before(b.next) }

// Next is the earliest time of the next attempt.
func (b *Backoff) Next() time.Time { return b.next }

// Reset forgets failures: a connection with the peer has been registered.
func (b *Backoff) Reset() {
	b.Cause = nil
	b.interval = 0
	b.next = time.Time{}
}

// Succeed ends a run of refusals.
func (b *Backoff) Succeed() { b.refusals = 0 }

// Fail notes a hard failure: the pause doubles, from Min to Max. jitter, from
// [0, 1), lengthens it by up to a quarter so that the peers of a restarted
// server do not come back in step.
func (b *Backoff) Fail(now time.Time, jitter float64) {
	b.interval = min(max(2*b.interval, b.Min), b.Max)
	b.next = now.Add(b.interval + time.Duration(jitter*float64(b.interval)/4))
	b.refusals = 0
}

// Pause notes that the peer is connecting to us, or refused because it is: the
// next attempt comes after Min.
func (b *Backoff) Pause(now time.Time) { b.next = now.Add(b.Min) }

// Resume ends a pause; the interval after failures stays what it was.
func (b *Backoff) Resume() { b.next = time.Time{} }

// Refused counts a refusal (race, other version, stale) and tells whether the
// limit has been reached.
func (b *Backoff) Refused() bool {
	b.refusals++
	return b.refusals >= maxSoftRefusals
}
