package peering

import "slices"

// maxIncarnations is how many incarnations of a peer are remembered: the current one and a few earlier ones. A
// handshake with an earlier incarnation may arrive late and must not look like a restart.
const maxIncarnations = 4

// Incarnations holds the incarnations that a peer has announced, the latest first. It distinguishes a restart
// from the first contact, and from an old incarnation whose handshake arrives late. It does not compare
// incarnations by their value, because a host may set its clock back. The zero value is a peer that was never
// met. A copy is independent. Incarnations is not safe for concurrent use.
type Incarnations struct {
	observed     [maxIncarnations]uint64
	n            int
	assumedEnded bool // AssumeEnded was called since the last Observe
}

// Observe records an incarnation that the peer has announced, as the latest. It reports whether the caller
// must report a restart: the peer was met before, this incarnation is not known, and AssumeEnded has not
// already reported the end of the one before.
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

// AssumeEnded records that the latest incarnation has ended, although the peer has not announced another one
// yet. It returns true if the caller must report this restart. It returns false if the end was recorded
// before, or if the peer was never met.
func (s *Incarnations) AssumeEnded() bool {
	isNew := !s.assumedEnded && s.n > 0
	s.assumedEnded = s.n > 0
	return isNew
}

// Any reports whether the peer has ever announced an incarnation.
func (s *Incarnations) Any() bool { return s.n > 0 }
