package discovery

import (
	"slices"
	"time"
)

// choices returns the number of possible steps. take takes one of them.
func (w *world) choices(b budget) int { return w.step(&b, -1) }

// take takes step k, after which the machines come to rest.
func (w *world) take(b *budget, k int) {
	w.step(b, k)
	for _, n := range w.nodes {
		n.run(stepsToRest)
	}
}

// step visits the possible steps, takes step k, and returns the number of steps it has
// visited.
func (w *world) step(b *budget, k int) int {
	s := &steps{w: w, b: b, left: k}
	s.deliveries()
	s.talks()
	s.faults()
	s.timers()
	return s.count
}

type steps struct {
	w     *world
	b     *budget
	left  int // steps before the one to take; negative if it was taken, or for counting only
	count int
}

// here reports whether the next step is the one to take.
func (s *steps) here() bool {
	s.count++
	s.left--
	return s.left == -1
}

func (s *steps) deliveries() {
	for k := 0; k < len(s.w.letters); k++ {
		for way := range max(1, len(s.w.letters[k].ways)) {
			if s.here() {
				l := s.w.remove(k)
				l.take(way)
				s.w.arrive(l)
				return
			}
		}
	}
}

func (s *steps) talks() {
	if s.b.talks == 0 {
		return
	}
	for _, n := range s.w.nodes {
		for _, to := range s.w.nodes {
			for _, nid := range to.nids {
				if _, ok := n.own(nid); to == n || !ok || !n.m.Find(nid).MustWait(n.m.Local()) || n.parked() {
					continue
				}
				if s.here() {
					s.b.talks--
					s.w.talkTo(n, nid)
					return
				}
			}
		}
	}
}

// parked reports whether the node has a parked message.
func (n *simNode) parked() bool {
	for _, p := range n.w.parked {
		if p == n {
			return true
		}
	}
	return false
}

func (s *steps) faults() {
	if s.b.faults == 0 {
		return
	}
	for k := 0; s.b.losses > 0 && k < len(s.w.letters); k++ {
		if s.here() {
			s.b.faults--
			s.b.losses--
			s.w.lose(s.w.remove(k))
			return
		}
	}
	for _, n := range s.w.nodes {
		if s.b.restarts > 0 && s.here() {
			s.b.faults--
			s.b.restarts--
			n.restart()
			return
		}
		places := 1
		if !slices.Contains(n.nids, n.nid(1)) {
			places = 2
		}
		for at := range places {
			if s.b.changes > 0 && s.here() {
				s.b.faults--
				s.b.changes--
				n.change(n.nid(1), at)
				return
			}
		}
	}
}

// timers advances the time to the next timer that is due.
func (s *steps) timers() {
	next := time.Duration(-1)
	for _, n := range s.w.nodes {
		if due, ok := n.m.Due(); ok && (next < 0 || due < next) {
			next = due
		}
	}
	if next >= 0 && s.here() {
		s.w.now = max(s.w.now, next)
		for _, n := range s.w.nodes {
			n.m.Step(s.w.now)
		}
	}
}
