package peering

import "slices"

// maxIncarnations is how many incarnations of a peer are distinguished: the current one and a few whose
// handshakes may still be on their way.
const maxIncarnations = 4

// Incarnations holds the incarnations that a peer was met with, the latest first. It distinguishes a
// restart from the first contact, and from an old incarnation whose handshake arrives late. It does not
// order incarnations by size, because a host may set its clock back. The zero value is a peer that was
// never met. A copy is independent. Incarnations is not safe for concurrent use.
type Incarnations struct {
	observed     [maxIncarnations]uint64
	n            int
	assumedEnded bool // the latest incarnation has ended
}

// Observe records an incarnation that the peer has announced. It reports whether this shows a restart: the
// peer was met before, but not in this incarnation, and the restart was not presumed.
func (s *Incarnations) Observe(incarnation uint64) (restarted bool) {
	k := slices.Index(s.observed[:s.n], incarnation)
	known := s.assumedEnded
	s.assumedEnded = false
	if k < 0 {
		restarted = s.n > 0 && !known
		s.n = min(s.n+1, maxIncarnations)
		k = s.n - 1
	}
	copy(s.observed[1:k+1], s.observed[:k])
	s.observed[0] = incarnation
	return restarted
}

// AssumeEnded records that the latest incarnation has ended, although the next one has not been met yet. It
// reports whether this is new. It has no effect on a peer that was never met.
func (s *Incarnations) AssumeEnded() bool {
	isNew := !s.assumedEnded && s.n > 0
	s.assumedEnded = s.n > 0
	return isNew
}

// Any reports whether the peer was ever met.
func (s *Incarnations) Any() bool { return s.n > 0 }
