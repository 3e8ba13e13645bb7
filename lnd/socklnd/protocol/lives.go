package protocol

import "slices"

// maxLives is how many lives of a peer are told apart: the present one and a
// few whose HELLOs may still be on their way.
const maxLives = 4

// Lives remembers the incarnations that a peer was met with, the one met last
// first. It so tells a new life from the first contact, and from a life that is
// over and whose HELLO comes late. Incarnations are not ordered by size: a host
// that has rebooted may have set its clock back. The zero value has met nobody;
// a copy is a memory of its own.
type Lives struct {
	met      [maxLives]uint64
	n        int
	presumed bool // the life met last is over
}

// Meet records that the peer was met with an incarnation. It tells whether the
// peer has begun a new life: it was met before, and never with this one, and that
// was not presumed.
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

// Presume notes that the life met last is over, though the next one has not been
// met. It tells whether that is news.
func (l *Lives) Presume() bool {
	news := !l.presumed && l.n > 0
	l.presumed = true
	return news
}

// Any tells whether the peer was ever met.
func (l *Lives) Any() bool { return l.n > 0 }
