package lndtest

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Stall: the driver reports a peer that no longer answers, long before it closes a connection. Messages that
// have not been started can then be recalled. node.PeerStalled checks the arguments of the upcall.
var stallCases = []scenario{
	{name: "ToldAndHealed", nodes: 2, needs: canIsolate, run: stallHeals},
	{name: "WhileNobodyTakes", nodes: 2, run: noStall},
	{name: "WhileConnecting", nodes: 2, needs: canIsolate, run: stallConnecting},
	{name: "LinkBack", nodes: 2, needs: canIsolate, run: func(s *stage) {
		linkBack(s, func() {}, func() { s.nodes[0].i.LinkBack(s.nodes[1].id.NID) })
	}},
	{name: "OwnLinkBack", nodes: 2, needs: func(w *World) bool { return canIsolate(w) && w.SetLink != nil }, run: func(s *stage) {
		linkBack(s, func() { s.w.SetLink(0, false) }, func() { s.w.SetLink(0, true) })
	}},
	{name: "Recall", nodes: 2, needs: canIsolate, run: func(s *stage) { recall(s, s.nodes[1].id.NID, flood) }},
	{name: "RecallFromAll", nodes: 2, needs: canIsolate, run: func(s *stage) { recall(s, lnet.NID{}, flood) }},
	{name: "RecallOfABatch", nodes: 2, needs: canIsolate, run: func(s *stage) {
		recall(s, s.nodes[1].id.NID, func(from, to *node) []*outgoing { return from.puts(to, 60, 5000) })
	}},
	{name: "RecallFromOthers", nodes: 3, run: recallFromOthers},
}

// awaitStall waits until n is notified that the peer has stalled or, if want is false, that the stall has
// ended.
func (s *stage) awaitStall(n, peer *node, want bool) {
	s.t.Helper()
	s.await("PeerStalled", func() bool {
		_, stalled := n.stalls[peer.id.NID]
		return stalled == want
	})
}

func stallHeals(s *stage) {
	n := s.open(2)
	s.awaitWorking(n[0], n[1])
	s.awaitWorking(n[1], n[0])
	for range 3 {
		heal := s.w.Isolate(0, 1)
		out := n[0].puts(n[1], 5, 100)
		s.awaitStall(n[0], n[1], true)
		heal()
		s.awaitStall(n[0], n[1], false)
		s.awaitDelivered(n[1], out...)
	}
	if len(n[0].downs)+len(n[1].downs) > 0 {
		s.t.Errorf("a peer was lost, which TCP had healed: %v, %v", n[0].downs, n[1].downs)
	}
}

// linkBack checks that the driver restarts its timeouts when a link is back, which up causes. The network is
// healed soon after the former timeout. It must not be later, because TCP has timeouts too, which end the
// connections in any case.
func linkBack(s *stage, down, up func()) {
	n := s.open(2)
	s.awaitWorking(n[0], n[1])
	s.pause(5 * time.Second) // meanwhile all connections are opened; attempts to connect have timeouts too
	timeout := n[0].i.Timeout()
	heal := s.w.Isolate(0, 1)
	out := n[0].puts(n[1], 5, 100)
	down()
	s.pause(timeout * 3 / 4)
	up()
	s.pause(timeout * 3 / 10)
	if len(n[0].downs) > 0 {
		s.t.Errorf("a peer was lost before its time: %v", n[0].downs)
	}
	heal()
	s.awaitDelivered(n[1], out...)
}

// noStall checks that a peer is not reported as stalled because it gives no placements.
func noStall(s *stage) {
	n := s.open(2)
	n[1].setPolicy(holdAll)
	out := flood(n[0], n[1])
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	s.pause(3 * time.Second)
	s.mu.Lock()
	if len(n[0].stalls) > 0 {
		s.t.Errorf("a peer that takes nothing counts as one that does not answer: %v", n[0].stalls)
	}
	s.mu.Unlock()
	n[1].setPolicy(keepAll)
	n[1].place()
	s.awaitDelivered(n[1], out...)
}

func stallConnecting(s *stage) {
	n := s.open(2)
	heal := s.w.Isolate(0, 1)
	out := n[0].puts(n[1], 20, 100)
	s.awaitStall(n[0], n[1], true)
	n[0].i.Recall(n[1].id.NID, func(*lnd.Tx) bool { return true })
	s.awaitComplete(out)
	s.checkRecalled(n[1], out, func(*outgoing) bool { return true })
	heal()
	s.awaitWorking(n[0], n[1])
	s.awaitStall(n[0], n[1], false)
}

// recall isolates a peer, recalls two of three messages to it, and then heals the network. At least some must
// be recalled. All others must arrive.
func recall(s *stage, to lnet.NID, send func(from, to *node) []*outgoing) {
	n := s.open(2)
	s.awaitWorking(n[0], n[1])
	heal := s.w.Isolate(0, 1)
	out := send(n[0], n[1])
	s.awaitStall(n[0], n[1], true)
	chosen := func(o *outgoing) bool { return o.id()%3 != 0 }
	n[0].i.Recall(to, func(m *lnd.Tx) bool { return chosen(m.Done.(*outgoing)) })
	s.await("a message that was taken back", func() bool {
		for _, o := range out {
			if errors.Is(o.err, lnd.ErrRecalled) {
				return true
			}
		}
		return false
	})
	heal()
	s.awaitComplete(out)
	s.checkRecalled(n[1], out, chosen)
	s.awaitWorking(n[0], n[1])
}

// checkRecalled checks that enough messages of out were recalled, that they are chosen ones and have not
// arrived, and that all other messages arrive.
func (s *stage) checkRecalled(to *node, out []*outgoing, chosen func(*outgoing) bool) {
	s.t.Helper()
	var rest []*outgoing
	back := 0
	s.mu.Lock()
	for _, o := range out {
		if !errors.Is(o.err, lnd.ErrRecalled) {
			rest = append(rest, o)
			continue
		}
		if back++; !chosen(o) || len(to.arrivals[o.id()]) > 0 {
			s.t.Errorf("message %d was taken back: chosen %t, arrived %d times", o.id(), chosen(o), len(to.arrivals[o.id()]))
		}
	}
	s.mu.Unlock()
	if back < len(out)/3 {
		s.t.Errorf("%d of %d messages were taken back, want more", back, len(out))
	}
	s.awaitDelivered(to, rest...)
}

// recallFromOthers checks that a recall has no effect on messages to another peer, or on messages for which
// match returns false.
func recallFromOthers(s *stage) {
	n := s.open(3)
	n[1].setPolicy(holdAll)
	held, free := flood(n[0], n[1]), n[0].puts(n[2], 20, 10_000)
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	for range 10 {
		n[0].i.Recall(n[2].id.NID, func(m *lnd.Tx) bool { return m.To != n[2].id })
		n[0].i.Recall(n[1].id.NID, func(*lnd.Tx) bool { return false })
	}
	s.awaitDelivered(n[2], free...)
	n[1].setPolicy(keepAll)
	n[1].place()
	s.awaitDelivered(n[1], held...)
}
