package peering

import "time"

// StallAfter is how long a peer must have acknowledged nothing before it counts as stalled. It is longer than
// a transport needs to recover from a few losses in a row on any path within a site.
const StallAfter = time.Second

// Stall is whether the node considers a peer stalled (lnd.Upper.PeerStalled). The zero value is a peer that
// answers. The peer's lock guards it. Only one goroutine calls Check, and it makes the upcalls.
type Stall struct {
	since time.Time // since when the peer has stalled; zero if it answers
	sent  uint64    // Look.Sent at the last report to the node
	last  Waiter    // the newest message without a connection at the last report to the node
	quiet time.Time // since when Look.Idle has been set; zero if it is not set
}

// Look is the result of one examination of a peer: the input of Stall.Check.
type Look struct {
	Now time.Time
	// Conns is the number of connections that were examined. Silent is zero if all of them make progress.
	// Otherwise it is the time when the first of them stopped making progress, although the transport is still
	// trying.
	Conns  int
	Silent time.Time
	// Alive is when the peer last gave a sign of life. A stall does not begin before this time. It may be
	// zero.
	Alive time.Time
	// Resumed is when this process last ran again after a pause, during which it could not notice signs of
	// life. A new stall does not begin before this time; an existing stall keeps its beginning. It may be
	// zero.
	Resumed time.Time
	// Sent is a number that grows with everything that is sent on the peer's connections.
	Sent uint64
	// Waiting are the messages without a connection. If the first of them waits for StallAfter, that is a
	// stall, unless Connected is set. Connected means that a connection exists, even if it was not examined
	// because it does not carry messages yet.
	Waiting   *Waiting
	Connected bool
	// Idle means that there is no connection, no attempt to make one and no message. A stalled peer that has
	// been idle for the time Lapse no longer counts as stalled.
	Idle  bool
	Lapse time.Duration
}

// StallChange is the result of Stall.Check: what the driver has to report to the node.
type StallChange uint8

// The results of Stall.Check.
const (
	StallUnchanged StallChange = iota // nothing to report
	StallBegun                        // the peer does not answer
	StallMore                         // the peer still does not answer, and more has been sent to it
	StallEnded                        // the peer answers again
	StallLapsed                       // for the time Look.Lapse, nothing was left that the peer could answer
)

// Check updates the state with the result l of an examination, and returns what to report to the node. since
// is the argument for PeerStalled, unless change is StallUnchanged. A stall ends when the examined
// connections make progress, or when the peer has been idle for Look.Lapse. A failed attempt to connect does
// not end it, because it shows nothing about the peer.
func (s *Stall) Check(l *Look) (change StallChange, since time.Time) {
	silent := l.Silent
	if !l.Connected {
		silent = Earlier(silent, l.Waiting.Since())
	}
	silent = silentFor(silent, l.Alive, l.Now)
	if s.since.IsZero() {
		silent = silentFor(silent, l.Resumed, l.Now)
	}
	if !l.Idle {
		s.quiet = time.Time{}
	} else if s.quiet.IsZero() {
		s.quiet = l.Now
	}
	before, last := s.since, l.Waiting.Last()
	switch {
	case !silent.IsZero():
		s.since = Earlier(before, silent)
	case l.Conns > 0:
		s.since = time.Time{}
		change = StallEnded
	case l.Idle && l.Now.Sub(s.quiet) >= l.Lapse:
		s.since = time.Time{}
		change = StallLapsed
	}
	switch {
	case s.since.IsZero() && before.IsZero():
		return StallUnchanged, time.Time{}
	case s.since.IsZero():
		return change, time.Time{}
	case before.IsZero():
		change = StallBegun
	case s.sent != l.Sent || s.last != last && last.M != nil:
		change = StallMore
	default:
		return StallUnchanged, time.Time{}
	}
	s.sent, s.last = l.Sent, last
	return change, s.since
}

// Stalled reports whether the node considers the peer stalled.
func (s *Stall) Stalled() bool { return !s.since.IsZero() }

// silentFor returns the later of since and alive if at least StallAfter has passed since then. It returns the
// zero time if less has passed, or if since is zero.
func silentFor(since, alive, now time.Time) time.Time {
	if since.IsZero() {
		return since
	}
	if alive.After(since) {
		since = alive
	}
	if now.Sub(since) < StallAfter {
		return time.Time{}
	}
	return since
}

// Earlier returns the earlier of two times. If one of them is zero, it returns the other.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
