package lndtest

import (
	"sync"

	"github.com/lnetd/lnetd/lnd"
)

// Withdrawal: if a connection is lost while an arrival waits for its placement, the node is notified once
// (Withdrawn). The placement that it gives then completes the arrival. node.Withdrawn checks the rules that
// apply to all cases.
var withdrawalCases = []scenario{
	{name: "ConnectionKilled", nodes: 2, needs: canKill, run: func(s *stage) {
		withdrawals(s, func(n []*node) { s.w.Kill(n[0].k, n[1].k) })
	}},
	{name: "PeerCloses", nodes: 2, run: func(s *stage) {
		withdrawals(s, func(n []*node) { n[0].close() })
	}},
	{name: "PeerDisconnects", nodes: 2, run: func(s *stage) {
		withdrawals(s, func(n []*node) { n[0].i.Disconnect(n[1].id.NID) })
	}},
	{name: "Disconnect", nodes: 2, run: func(s *stage) {
		withdrawals(s, func(n []*node) { n[1].i.Disconnect(n[0].id.NID) })
	}},
	{name: "Close", nodes: 2, run: func(s *stage) {
		withdrawals(s, func(n []*node) { n[1].close() })
	}},
	{name: "DisconnectWithinArrived", nodes: 2, run: withdrawnAtOnce},
	{name: "AnsweredWithinWithdrawn", nodes: 2, run: answeredWithinWithdrawn},
	{name: "PlacedAtTheSameMoment", nodes: 2, run: placedAtTheSameMoment},
}

// parkable is a payload size that fits into every buffer between the nodes. If a larger payload does not fit,
// the receiver may notice the end of the stream only after the transport has stopped retransmitting.
const parkable = 2000

// park sends messages until one has arrived at the node to, where it waits for its placement, and returns it. A
// message may be lost if its connection is just closing.
func (s *stage) park(from, to *node, size int) *arrival {
	s.t.Helper()
	to.setPolicy(holdAll)
	for range attempts {
		from.put(to, size)
		if s.within(s.h.Patience/attempts, func() bool { return len(to.held) > 0 }) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return to.held[0]
		}
	}
	s.t.Fatalf("no message to node %d waits there\n%s", to.k, s.describe())
	return nil
}

// awaitWithdrawn waits until the upcall Withdrawn for a has returned.
func (s *stage) awaitWithdrawn(a *arrival) {
	s.t.Helper()
	s.await("Withdrawn", func() bool { return a.withdrawn && !a.withdrawing })
}

// awaitFailed waits until a is complete, and checks that it has completed with an error.
func (s *stage) awaitFailed(a *arrival) {
	s.t.Helper()
	s.await("completion of what was withdrawn", func() bool { return a.completions > 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err == nil {
		s.t.Errorf("an arrival of %d bytes that was withdrawn has been completed without an error", a.payload())
	}
}

// restore opens closed nodes, and waits until messages arrive in both directions.
func (s *stage) restore() {
	s.t.Helper()
	for _, n := range s.nodes {
		if !n.ready {
			n.open()
		}
	}
	s.awaitWorking(s.nodes[0], s.nodes[1])
	s.awaitWorking(s.nodes[1], s.nodes[0])
}

// withdrawals ends a connection by end while an arrival waits for its placement. The node is notified and then
// keeps or drops the message.
func withdrawals(s *stage, end func(n []*node)) {
	n := s.open(2)
	answers := map[string]func(*arrival) lnd.Placement{
		"kept":    func(a *arrival) lnd.Placement { return a.keep(a.payload()) },
		"dropped": func(*arrival) lnd.Placement { return lnd.Placement{} },
	}
	for what, with := range answers {
		for _, size := range []int{10, parkable} {
			s.restore()
			a := s.park(n[0], n[1], size)
			end(n)
			s.awaitWithdrawn(a)
			n[1].answer(with)
			if what == "kept" {
				s.awaitFailed(a)
			}
		}
	}
	s.settle()
	s.restore()
	s.checkOnce()
}

// withdrawnAtOnce ends the connection within the upcall Arrived.
func withdrawnAtOnce(s *stage) {
	n := s.open(2)
	n[1].setHook(func(a *arrival) { n[1].i.Disconnect(a.from.NID) })
	a := s.park(n[0], n[1], parkable)
	s.awaitWithdrawn(a)
	n[1].setHook(nil)
	n[1].place()
	s.awaitFailed(a)
	s.restore()
}

// answeredWithinWithdrawn gives the placement, and sends a message, within the upcall Withdrawn.
func answeredWithinWithdrawn(s *stage) {
	n := s.open(2)
	for range 3 {
		s.restore()
		a := s.park(n[0], n[1], parkable)
		var sent []*outgoing
		s.note(func() {
			n[1].gone = func(*arrival) {
				o := n[1].put(n[0], 10)
				s.note(func() { sent = append(sent, o) })
				n[1].place()
			}
		})
		n[1].i.Disconnect(n[0].id.NID)
		s.awaitWithdrawn(a)
		s.awaitFailed(a)
		s.note(func() { n[1].gone = nil })
		s.awaitComplete(sent)
	}
	s.restore()
}

// placedAtTheSameMoment gives the placement at the moment at which the connection ends. The checks at the end
// of the case find an arrival that does not complete exactly once.
func placedAtTheSameMoment(s *stage) {
	n := s.open(2)
	for round := range 10 {
		s.restore()
		a := s.park(n[0], n[1], parkable)
		var both sync.WaitGroup
		start := make(chan struct{})
		both.Go(func() {
			<-start
			n[1].i.Disconnect(n[0].id.NID)
		})
		both.Go(func() {
			<-start
			if round%2 == 0 {
				n[1].place()
			} else {
				n[1].answer(func(*arrival) lnd.Placement { return lnd.Placement{} })
			}
		})
		close(start)
		both.Wait()
		s.await("completion", func() bool { return a.completions > 0 || !a.wanted })
	}
	s.restore()
}
