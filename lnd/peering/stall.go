package peering

import "time"

// StallAfter is how long nothing must have been acknowledged before a peer counts as stalled. It is
// longer than a transport needs for a few losses in a row on any path within a site.
const StallAfter = time.Second

// Stall is whether the node considers a peer stalled (lnd.Upper.PeerStalled). The zero value is a peer
// that answers. The peer's lock guards it. Only one goroutine calls Judge, and it makes the upcalls.
type Stall struct {
	since time.Time // since when the peer has stalled; zero if it answers
	sent  uint64    // what had been sent when the node was last told
	last  Waiter
	quiet time.Time // since when there has been nothing that the peer could answer; zero if there is
}

// Look is what one check of a peer has found.
type Look struct {
	Now time.Time
	// Conns is the number of connections that were checked. Silent is since when the first of them has
	// made no progress, although the transport tries. It is zero if all of them make progress.
	Conns  int
	Silent time.Time
	// Alive is when the peer last gave a sign of life. It has not stalled before. It may be zero.
	Alive time.Time
	// Resumed is when this process ran again after a pause, in which it could notice nothing. A stall
	// does not begin before, but a stall that has begun continues. It may be zero.
	Resumed time.Time
	// Sent grows with everything that is sent on a connection.
	Sent uint64
	// Waiting are the messages without a connection. They show a stall unless Connected is set: there is
	// a connection, even if it was not checked because it carries no messages yet.
	Waiting   *Waiting
	Connected bool
	// Idle means that there is no connection, no attempt to make one and no message. After Lapse in
	// this state a stall ends.
	Idle  bool
	Lapse time.Duration
}

// StallChange is what a driver has to report to the node after a check.
type StallChange uint8

// The results of Stall.Check.
const (
	StallUnchanged StallChange = iota
	StallBegun                 // the peer does not answer
	StallMore                  // it still does not answer, and more has been sent to it
	StallEnded                 // it answers again
	StallLapsed                // for a while nothing was left that it could answer
)

// Check updates the state after a check. since is the argument for PeerStalled, unless change is
// StallUnchanged. A peer stays stalled until one of its connections works again, or until Lapse: a
// failed attempt to connect shows nothing about the peer.
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

// silentFor returns the later of since and alive, if that is at least StallAfter ago. Otherwise, or if
// since is zero, it returns the zero time.
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

// Earlier returns the earlier of two times. A zero time is ignored.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
