package fake

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// gate is a collective call of all ranks.
type gate struct {
	call  string
	parts [][]byte // of each rank that has called
	here  int      // number of ranks that have called
	left  int      // number of ranks that have returned
}

// meet waits until all ranks have made the same collective call, and returns the bytes of each. Messages are received
// while it waits.
func (m *MPI) meet(what string, root int, b []byte) ([][]byte, error) {
	j := m.job
	if root < 0 || root >= len(j.ranks) {
		return nil, fmt.Errorf("fake: %s: rank %d of %d", what, root, len(j.ranks))
	}
	for m.gate-j.passed >= len(j.gates) {
		j.gates = append(j.gates, &gate{parts: make([][]byte, len(j.ranks))})
	}
	g := j.gates[m.gate-j.passed]
	m.gate++
	call := fmt.Sprintf("%s from %d", what, root)
	if g.here > 0 && g.call != call {
		panic("fake: one rank calls " + call + ", another " + g.call)
	}
	g.call = call
	g.parts[m.rank] = bytes.Clone(b)
	if g.here++; g.here == len(j.ranks) {
		for _, other := range j.ranks {
			other.ring()
		}
	}
	for g.here < len(j.ranks) {
		if err := m.usable(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(j.ranks, func(r *MPI) bool { return r.killed && r.fate == Fail }) {
			return nil, ErrKilled
		}
		m.progress()
		m.sleep(time.Time{})
	}
	if g.left++; g.left == len(j.ranks) {
		j.gates = j.gates[1:]
		j.passed++
	}
	return g.parts, m.usable()
}
