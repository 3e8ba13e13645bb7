package lndtest

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Placement: a driver writes a payload only after the node has given the placement, and only to the memory that
// the placement specifies.
var placementCases = []scenario{
	{name: "Scattered", nodes: 2, run: scattered},
	{name: "Truncated", nodes: 2, run: truncated},
	{name: "Dropped", nodes: 2, run: dropped},
	{name: "LaterFromAnotherGoroutine", nodes: 2, run: placedLater},
	{name: "HeldBackPeerAlone", nodes: 3, run: heldBackPeerAlone},
	{name: "ArrivalsBeforeOpenReturned", nodes: 2, run: arrivalsDuringOpen},
}

func scattered(s *stage) {
	n := s.open(2)
	for _, size := range []int{1, 300, 4096, 65536, lnet.MTU - 1} {
		for _, pieces := range [][2]int{{1, 2}, {2, 1}, {7, 5}, {lnet.MaxFragments, lnet.MaxFragments}} {
			n[1].setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
				return a.keepIn(newGuarded(a.payload(), pieces[1])), false, nil
			})
			s.awaitDelivered(n[1], n[0].send(n[0].message(lnet.MsgPut, n[1], size, pieces[0])))
		}
	}
}

func truncated(s *stage) {
	n := s.open(2)
	for _, size := range []int{1, 96, 5000, 70_000, lnet.MTU} {
		for _, kept := range []int{0, 1, size / 2, size - 1} {
			n[1].setPolicy(func(a *arrival) (lnd.Placement, bool, error) { return a.keep(min(kept, a.payload())), false, nil })
			cut := n[0].put(n[1], size)
			s.awaitDelivered(n[1], cut)
			n[1].setPolicy(keepAll)
			s.awaitDelivered(n[1], n[0].puts(n[1], 2, size)...)
		}
	}
}

func dropped(s *stage) {
	n := s.open(2)
	drops := map[string]policy{
		"zero placement":  func(*arrival) (lnd.Placement, bool, error) { return lnd.Placement{}, false, nil },
		"without a taker": func(a *arrival) (lnd.Placement, bool, error) { p := a.keep(0); p.Done = nil; return p, false, nil },
	}
	for what, drop := range drops {
		for _, size := range []int{0, 1, 928, 70_000, lnet.MTU} {
			n[1].setPolicy(drop)
			o := n[0].put(n[1], size)
			s.awaitComplete([]*outgoing{o})
			s.await(what, func() bool { return len(n[1].arrivals[o.id()]) == 1 && n[1].arrivals[o.id()][0].placed })
			n[1].setPolicy(keepAll)
			s.awaitDelivered(n[1], n[0].put(n[1], size))
		}
	}
}

func placedLater(s *stage) {
	n := s.open(2)
	for _, size := range []int{0, 10, 2000, lnet.MTU} {
		n[1].setPolicy(holdAll)
		first := n[0].put(n[1], size)
		s.await("the arrival", func() bool { return len(n[1].held) > 0 })
		behind := n[0].puts(n[1], 20, size)
		s.settle()
		s.checkUnplaced(n[0], n[1])
		n[1].placeLater()
		s.awaitDelivered(n[1], append(behind, first)...)
	}
}

// heldBackPeerAlone gives no placements for one peer's messages for a long time, while more of them are sent.
// Another peer's messages must arrive meanwhile.
func heldBackPeerAlone(s *stage) {
	n := s.open(3)
	slow, fast, target := n[0], n[1], n[2]
	target.setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
		if a.from == slow.id {
			return lnd.Placement{}, true, nil
		}
		return keepAll(a)
	})
	for _, size := range []int{100, 64 << 10} {
		stuck := slow.puts(target, 100, size)
		s.await("the first of the slow peer", func() bool { return target.from(slow) > 0 })
		s.awaitDelivered(target, fast.puts(target, 100, size)...)
		s.checkUnplaced(slow, target)
		policyBefore := target.policy
		target.placeLater()
		s.awaitDelivered(target, stuck...)
		target.setPolicy(policyBefore)
		s.note(func() { target.order = nil })
	}
}

// checkUnplaced checks that the node to was notified of at most Harness.MaxUnplaced arrivals from the node from
// while none of them was placed.
func (s *stage) checkUnplaced(from, to *node) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for _, a := range to.held {
		if a.from == from.id {
			held++
		}
	}
	if most := s.h.MaxUnplaced; most > 0 && held > most {
		s.t.Errorf("%d arrivals announced while none was placed, want at most %d", held, most)
	}
}

// arrivalsDuringOpen opens a node while a peer keeps sending to it, so that messages may arrive before Open has
// returned.
func arrivalsDuringOpen(s *stage) {
	n := s.open(1)
	for round := range 3 {
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				o := n[0].put(s.nodes[1], 100)
				if !s.within(s.h.Patience, func() bool { return o.completions > 0 }) {
					return // the checks at the end of the case report this
				}
				select {
				case <-stop:
					return
				default:
					s.pause(s.h.Patience / 1000)
				}
			}
		}()
		s.nodes[1].open()
		s.await(fmt.Sprint("an arrival in round ", round), func() bool {
			return len(s.nodes[1].order) > 0 && s.nodes[1].order[len(s.nodes[1].order)-1].done()
		})
		close(stop)
		<-done
		s.nodes[1].close()
		s.note(func() { s.nodes[1].order = nil })
	}
}
