package peering

import "time"

// Backoff spaces attempts to connect to one peer. It is not safe for concurrent use.
type Backoff struct {
	// Min and Max bound the pause after a failed attempt.
	Min, Max time.Duration
	// Cause is why the last attempt failed. Messages that are sent during the pause fail with it. It is nil if
	// that attempt did not fail.
	Cause error

	interval time.Duration // length of the pause after the last failure, without jitter
	next     time.Time     // no attempt before this time
	refusals int           // refusals in a row
}

// maxRefusals is the number of refusals in a row after which Refused reports that attempts must end.
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

// Succeed ends a series of refusals: the next refusal counts as the first.
func (b *Backoff) Succeed() { b.refusals = 0 }

// Fail records a failed attempt and its cause, and starts a pause. Each pause is twice as long as the one
// before, from Min up to Max. jitter, from [0, 1), lengthens it by up to a quarter, so that not all peers of
// a restarted server connect to it at the same time.
func (b *Backoff) Fail(now time.Time, cause error, jitter float64) {
	b.Cause = cause
	b.interval = min(max(2*b.interval, b.Min), b.Max)
	b.next = now.Add(b.interval + time.Duration(jitter*float64(b.interval)/4))
	b.refusals = 0
}

// Skip ends the pause. Unlike Reset, it does not forget failures: if the next attempt fails too, the pause after
// it is longer.
func (b *Backoff) Skip() { b.next = time.Time{} }

// Pause delays the next attempt by Min. It is used while the peer is connecting to this node, because the
// peer's connection may make the attempt unnecessary.
func (b *Backoff) Pause(now time.Time) { b.next = now.Add(b.Min) }

// Refused counts a refusal that does not mean that the peer is unreachable: a race, another protocol version,
// or an old incarnation. It reports whether this was the last of maxRefusals refusals in a row; the caller
// then gives up.
func (b *Backoff) Refused() bool {
	b.refusals++
	return b.refusals >= maxRefusals
}
