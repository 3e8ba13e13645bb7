package lndtest

import (
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// Restart: when a peer has restarted, the node is notified once (PeerRestarted), before the first message of
// the new incarnation arrives. There are no other such notices. In all cases of the suite, node.meets checks
// that no message arrives before the notice, and node.PeerRestarted checks that no notice comes without a
// restart. A life of a node is the time from one open to the next.
var restartCases = []scenario{
	{name: "NoneWithinOneLife", nodes: 2, run: noneWithinOneLife},
	{name: "ThePeerCalls", nodes: 2, run: func(s *stage) { restarts(s, s.restart, s.hearFrom) }},
	{name: "TheNodeCalls", nodes: 2, run: func(s *stage) { restarts(s, s.restart, s.reach) }},
	{name: "BothCall", nodes: 2, run: func(s *stage) { restarts(s, s.restart, s.converse) }},
	{name: "UnseenThePeerCalls", nodes: 2, needs: canIsolate, run: func(s *stage) { restarts(s, s.restartUnseen, s.hearFrom) }},
	{name: "UnseenTheNodeCalls", nodes: 2, needs: canIsolate, run: func(s *stage) { restarts(s, s.restartUnseen, s.reach) }},
	{name: "UnseenBothCall", nodes: 2, needs: canIsolate, run: func(s *stage) { restarts(s, s.restartUnseen, s.converse) }},
	{name: "OnlyOneOfThree", nodes: 3, run: onlyOneOfThree},
	{name: "BothRestart", nodes: 2, run: bothRestart},
	{name: "SendAndDisconnectWithinPeerRestarted", nodes: 2, run: withinPeerRestarted},
}

// acquaintance is what a node has received from a peer since the node was opened.
type acquaintance struct {
	lives []int // the peer's lives from which messages have arrived
	told  int   // number of calls of PeerRestarted
}

// with returns n's record of a peer, and creates it if it does not exist. The records are locked.
func (n *node) with(peer *node) *acquaintance {
	a := n.met[peer]
	if a == nil {
		a = new(acquaintance)
		n.met[peer] = a
	}
	return a
}

// lifeOf returns the number of the life in which n created the message id. A node's first life is 1, and each
// restart begins the next. The records are locked.
func (n *node) lifeOf(id uint64) int {
	life, _ := slices.BinarySearch(n.births, id)
	return life
}

// nodeOf returns the node with the given NID, or nil.
func (s *stage) nodeOf(nid lnet.NID) *node {
	k := slices.IndexFunc(s.nodes, func(n *node) bool { return n.id.NID == nid })
	if k < 0 {
		return nil
	}
	return s.nodes[k]
}

// meets records the arrival a, and checks that PeerRestarted was called for the life of the peer that has sent
// the message. This is not required for the first life that n meets. The records are locked.
func (n *node) meets(a *arrival) {
	peer := n.s.nodeOf(a.from.NID)
	if peer == nil {
		return
	}
	m, life := n.with(peer), peer.lifeOf(a.id())
	if slices.Contains(m.lives, life) {
		return
	}
	if m.lives = append(m.lives, life); m.told < len(m.lives)-1 {
		n.s.fault(fmt.Sprintf("node %d: a message of life %d of node %d arrived before PeerRestarted", n.k, life, peer.k))
	}
}

// PeerRestarted implements lnd.Upper.
func (n *node) PeerRestarted(nid lnet.NID) {
	s := n.s
	s.mu.Lock()
	n.alive("PeerRestarted")
	peer := s.nodeOf(nid)
	if peer == nil {
		s.fault(fmt.Sprintf("node %d: PeerRestarted for %s, which is nobody", n.k, nid))
		s.mu.Unlock()
		return
	}
	m := n.with(peer)
	m.told++
	if m.told >= len(peer.births) {
		s.fault(fmt.Sprintf("node %d: PeerRestarted for node %d, which has begun %d lives, comes for the %d. time",
			n.k, peer.k, len(peer.births), m.told))
	}
	reborn := n.reborn
	s.changed.Broadcast()
	s.mu.Unlock()
	if reborn != nil {
		reborn(peer)
	}
}

// checkTold checks how often PeerRestarted was called at n for a peer.
func (s *stage) checkTold(n, peer *node, want int) {
	s.t.Helper()
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := n.with(peer).told; got != want {
		s.t.Errorf("node %d was told %d times that node %d has restarted, want %d", n.k, got, peer.k, want)
	}
}

// restart closes and opens a node. Every second time it replaces the node's driver if the world supports that.
func (s *stage) restart(n, _ *node) {
	s.t.Helper()
	n.close()
	s.settle()
	if s.w.Renew != nil && len(n.births)%2 == 0 {
		s.w.Renew(n.k)
	}
	n.open()
}

// restartUnseen restarts the node n while it is isolated from other, which therefore keeps its connections to
// n.
func (s *stage) restartUnseen(n, other *node) {
	s.t.Helper()
	heal := s.w.Isolate(n.k, other.k)
	s.restart(n, other)
	heal()
}

// hearFrom makes the peer send messages until one arrives at n, which has sent nothing before.
func (s *stage) hearFrom(n, peer *node) { s.awaitWorking(peer, n) }

// reach makes n send messages until one arrives at the peer.
func (s *stage) reach(n, peer *node) { s.awaitWorking(n, peer) }

// converse makes both sides send messages at the same time.
func (s *stage) converse(n, peer *node) {
	for _, out := range sendBothWays(n, peer) {
		s.awaitComplete(out)
	}
}

// restarts makes a peer restart several times. firstWords sends the first messages after each restart. The node
// must then have been notified once per restart. The peer must not be notified, because it remembers nothing
// from before a restart.
func restarts(s *stage, restart, firstWords func(n, peer *node)) {
	n := s.open(2)
	node, peer := n[0], n[1]
	const lives = 6
	for life := range lives {
		if life > 0 {
			restart(peer, node)
		}
		firstWords(node, peer)
		s.awaitWorking(node, peer)
		s.awaitWorking(peer, node)
		s.checkTold(node, peer, life)
		s.checkTold(peer, node, 0)
		s.awaitDelivered(node, peer.puts(node, 5, 20_000)...)
		s.awaitDelivered(peer, node.puts(peer, 5, 20_000)...)
	}
	node.close()
	s.checkTold(node, peer, lives-1)
	peer.close()
	s.checkTold(peer, node, 0)
}

// noneWithinOneLife ends connections in all possible ways. A peer that reconnects has not restarted, so there
// must be no notice.
func noneWithinOneLife(s *stage) {
	n := s.open(2)
	ends := []func(){
		func() { n[0].i.Disconnect(n[1].id.NID) },
		func() { n[1].i.Disconnect(n[0].id.NID) },
	}
	if s.w.Kill != nil {
		ends = append(ends, func() { s.w.Kill(n[0].k, n[1].k) })
	}
	for round := range 3 {
		for _, end := range ends {
			s.awaitWorking(n[round%2], n[1-round%2])
			s.awaitWorking(n[1-round%2], n[round%2])
			end()
			if round == 2 {
				s.settle() // in the other rounds, the next side connects while this connection is still ending
			}
		}
	}
	s.converse(n[0], n[1])
	for k := range n {
		n[k].close()
		s.checkTold(n[k], n[1-k], 0)
	}
}

// onlyOneOfThree makes one of two peers restart. Nodes must be notified only of that one.
func onlyOneOfThree(s *stage) {
	n := s.open(3)
	everybody := func() {
		for _, from := range n {
			for _, to := range n {
				if from != to {
					s.awaitWorking(from, to)
				}
			}
		}
	}
	everybody()
	s.restart(n[2], nil)
	everybody()
	for k, a := range n {
		for _, b := range n {
			want := 0
			if k < 2 && b == n[2] {
				want = 1
			}
			s.checkTold(a, b, want)
		}
	}
}

// bothRestart makes the two sides restart one after the other. A side must be notified of the restarts that
// follow its own last restart.
func bothRestart(s *stage) {
	n := s.open(2)
	for round := range 6 {
		s.converse(n[0], n[1])
		s.awaitWorking(n[0], n[1])
		s.awaitWorking(n[1], n[0])
		old, other := n[round%2], n[1-round%2]
		s.checkTold(old, other, min(round, 1))
		s.checkTold(other, old, 0)
		s.restart(old, other)
	}
}

// withinPeerRestarted sends messages and calls Disconnect within the upcall PeerRestarted.
func withinPeerRestarted(s *stage) {
	n := s.open(2)
	var sent []*outgoing
	s.note(func() {
		n[0].reborn = func(peer *node) {
			o := n[0].put(peer, 10)
			_ = n[0].i.Counters()
			n[0].i.Disconnect(peer.id.NID)
			o2 := n[0].put(peer, 10)
			s.note(func() { sent = append(sent, o, o2) })
		}
	})
	const lives = 4
	for life := range lives {
		if life > 0 {
			s.restart(n[1], n[0])
		}
		if life%2 == 0 {
			s.awaitWorking(n[0], n[1])
		}
		s.awaitWorking(n[1], n[0])
		s.awaitWorking(n[0], n[1])
		s.checkTold(n[0], n[1], life)
	}
	s.mu.Lock()
	out := slices.Clone(sent)
	s.mu.Unlock()
	s.awaitComplete(out)
	if len(out) != 2*(lives-1) {
		s.t.Errorf("%d messages were sent from within the upcall, want %d", len(out), 2*(lives-1))
	}
}
