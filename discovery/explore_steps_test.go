package discovery

import (
	"slices"
	"time"
)

// choices returns the number of possible steps. take takes one of them.
func (w *network) choices(b budget) int { return w.step(&b, -1) }

// take takes step k, after which the machines come to rest.
func (w *network) take(b *budget, k int) {
	w.step(b, k)
	for _, n := range w.nodes {
		n.run(stepsToRest)
	}
}

// step visits the possible steps, takes step k, and returns the number of steps it has
// visited.
func (w *network) step(b *budget, k int) int {
	s := &steps{w: w, b: b, left: k}
	s.deliveries()
	s.sends()
	s.faults()
	s.timers()
	return s.count
}

type steps struct {
	w     *network
	b     *budget
	left  int // steps before the one to take; negative if it was taken, or for counting only
	count int
}

// selected reports whether the next step is the one to take.
func (s *steps) selected() bool {
	s.count++
	s.left--
	return s.left == -1
}

func (s *steps) deliveries() {
	for k := 0; k < len(s.w.messages); k++ {
		for way := range max(1, len(s.w.messages[k].paths)) {
			if s.selected() {
				l := s.w.remove(k)
				l.read(way)
				s.w.arrive(l)
				return
			}
		}
	}
}

func (s *steps) sends() {
	if s.b.sends == 0 {
		return
	}
	for _, n := range s.w.nodes {
		for _, to := range s.w.nodes {
			for _, nid := range to.nids {
				if _, ok := n.own(nid); to == n || !ok || !n.m.Find(nid).MustWait(n.m.Local()) || n.parked() {
					continue
				}
				if s.selected() {
					s.b.sends--
					s.w.send(n, nid)
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
	for k := 0; s.b.losses > 0 && k < len(s.w.messages); k++ {
		if s.selected() {
			s.b.faults--
			s.b.losses--
			s.w.lose(s.w.remove(k))
			return
		}
	}
	for _, n := range s.w.nodes {
		if s.b.restarts > 0 && s.selected() {
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
			if s.b.changes > 0 && s.selected() {
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
	if next >= 0 && s.selected() {
		s.w.now = max(s.w.now, next)
		for _, n := range s.w.nodes {
			n.m.Step(s.w.now)
		}
	}
}
