package lndtest

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Probe: the driver checks whether a peer still has the incarnation that its connections belong to. If so,
// nothing changes. If not, the node is notified (PeerRestarted), as of any restart.
var probeCases = []scenario{
	{name: "OfNobody", nodes: 2, run: probeNobody},
	{name: "OfALifeThatLasts", nodes: 2, run: probeTheLiving},
	{name: "OfALifeThatIsOver", nodes: 2, needs: canIsolate, run: probeTheDead},
}

// probeNobody probes a peer without a connection, for which Probe must return false: before the first
// connection, and after Disconnect.
func probeNobody(s *stage) {
	n := s.open(2)
	probe := func(want bool) {
		s.t.Helper()
		if got := n[0].i.Probe(n[1].id.NID); got != want {
			s.t.Errorf("Probe tells of a connection: %t, want %t", got, want)
		}
	}
	probe(false)
	s.awaitWorking(n[0], n[1])
	probe(true)
	n[0].i.Disconnect(n[1].id.NID)
	probe(false)
	if n[0].i.Probe(lnet.NID{}) {
		s.t.Error("Probe tells of a connection with nobody")
	}
}

// probeTheLiving probes a peer repeatedly that has not restarted, while messages go in both directions.
func probeTheLiving(s *stage) {
	n := s.open(2)
	s.awaitWorking(n[0], n[1])
	s.awaitWorking(n[1], n[0])
	for range 10 {
		there, back := n[0].puts(n[1], 5, 20_000), n[1].puts(n[0], 5, 20_000)
		for k := range n {
			if !n[k].i.Probe(n[1-k].id.NID) {
				s.t.Errorf("node %d has no connection", k)
			}
		}
		s.awaitDelivered(n[1], there...)
		s.awaitDelivered(n[0], back...)
	}
	s.pause(4 * time.Second) // twice as long as lnd/peering waits for an answer to a probe
	for k := range n {
		s.checkTold(n[k], n[1-k], 0)
	}
	if len(n[0].downs)+len(n[1].downs) > 0 {
		s.t.Errorf("a peer was lost, which was only asked: %v, %v", n[0].downs, n[1].downs)
	}
	s.awaitDelivered(n[1], n[0].puts(n[1], 5, 100)...)
}

// probeTheDead probes a peer that has restarted and does not answer, because it is isolated. The node must be
// notified after a while, and not again when the two connect later.
func probeTheDead(s *stage) {
	n := s.open(2)
	s.awaitWorking(n[0], n[1])
	heal := s.w.Isolate(0, 1)
	s.restart(n[1], n[0])
	if !n[0].i.Probe(n[1].id.NID) {
		s.t.Error("no connection with the life that is over")
	}
	s.await("PeerRestarted", func() bool { return n[0].with(n[1]).told > 0 })
	heal()
	s.awaitWorking(n[0], n[1])
	s.awaitWorking(n[1], n[0])
	s.checkTold(n[0], n[1], 1)
	s.checkTold(n[1], n[0], 0)
}
