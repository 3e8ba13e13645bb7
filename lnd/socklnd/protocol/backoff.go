package protocol

import "time"

// Backoff determines when to try to connect to one peer (socklnd 7). It reads no clock: times are
// arguments.
type Backoff struct {
	Min, Max time.Duration
	// Cause is the error of the last attempt if it was a hard failure, and nil otherwise. Messages
	// that are sent before the next attempt fail with it.
	Cause error

	interval time.Duration // after the last hard failure
	next     time.Time     // earliest time of the next attempt
	refusals int           // soft refusals in a row
}

// maxSoftRefusals is the number of soft refusals in a row after which Refused reports that the
// limit is reached.
const maxSoftRefusals = 3

// Ready reports whether an attempt may start.
func (b *Backoff) Ready(now time.Time) bool { return !now.Before(b.next) }

// Next returns the earliest time of the next attempt.
func (b *Backoff) Next() time.Time { return b.next }

// Reset clears the state after failures, because a connection with the peer has been registered.
func (b *Backoff) Reset() {
	b.Cause = nil
	b.interval = 0
	b.next = time.Time{}
}

// Succeed resets the count of refusals in a row.
func (b *Backoff) Succeed() { b.refusals = 0 }

// Fail records a hard failure. The pause before the next attempt doubles, from Min to Max. jitter,
// in [0, 1), lengthens it by up to a quarter, so that the peers of a restarted server do not all
// reconnect at the same time.
func (b *Backoff) Fail(now time.Time, jitter float64) {
	b.interval = min(max(2*b.interval, b.Min), b.Max)
	b.next = now.Add(b.interval + time.Duration(jitter*float64(b.interval)/4))
	b.refusals = 0
}

// Pause delays the next attempt by Min, because the peer is connecting to us or has refused our
// connection for that reason.
func (b *Backoff) Pause(now time.Time) { b.next = now.Add(b.Min) }

// Resume ends a pause. The interval after failures does not change.
func (b *Backoff) Resume() { b.next = time.Time{} }

// Refused counts a soft refusal (Race, OtherVersion, Stale) and reports whether the limit is
// reached.
func (b *Backoff) Refused() bool {
	b.refusals++
	return b.refusals >= maxSoftRefusals
}
