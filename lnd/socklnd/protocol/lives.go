package protocol

import "slices"

// maxLives is the number of lives of a peer that are remembered: the current one, and a few whose
// HELLOs may still be in transit.
const maxLives = 4

// Lives remembers the incarnations in which a peer was seen, the most recent one first. It
// distinguishes a new life from the first contact, and from an earlier life whose HELLO arrives
// late. Incarnations are not ordered by value, because a rebooted host may have set its clock back.
// The zero value has seen no incarnation. A copy is independent of the original.
type Lives struct {
	met      [maxLives]uint64
	n        int
	presumed bool // the most recent life is over
}

// Meet records that the peer was seen with an incarnation. It reports whether the peer has
// restarted: it was seen before, but never with this incarnation, and Presume has not already
// reported the restart.
func (l *Lives) Meet(incarnation uint64) (restarted bool) {
	k := slices.Index(l.met[:l.n], incarnation)
	known := l.presumed
	l.presumed = false
	if k < 0 {
		restarted = l.n > 0 && !known
		l.n = min(l.n+1, maxLives)
		k = l.n - 1
	}
	copy(l.met[1:k+1], l.met[:k])
	l.met[0] = incarnation
	return restarted
}

// Presume records that the most recent life is over, although the next one has not been seen yet.
// It reports whether this was unknown.
func (l *Lives) Presume() bool {
	news := !l.presumed && l.n > 0
	l.presumed = true
	return news
}

// Any reports whether the peer was ever seen.
func (l *Lives) Any() bool { return l.n > 0 }
