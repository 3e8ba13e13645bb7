package socklnd

import (
	"testing"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// TestAProbeOfALifeThatLasts checks that Probe sends one NOOP to a peer in doubt, and that nothing
// else happens if the peer is still the same incarnation.
func TestAProbeOfALifeThatLasts(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	if n.Probe(p.nid()) {
		t.Error("a connection with nobody")
	}
	control, _, bulkOut := p.callUs()
	for range 3 {
		if !n.Probe(p.nid()) {
			t.Error("no connection")
		}
	}
	if f := bulkOut.frame(); f.Type != protocol.FrameNoop || f.Request != 0 || f.Ack != protocol.KeepaliveCookie {
		t.Errorf("asked with %+v", f)
	}
	n.awaitState(p.id(), "the end of the doubt", func(q *peer) bool { return q.Doubt == (peering.Doubt{}) })
	s := n.put(p.id(), 10)
	control.receive()
	s.done()
	n.toldOf()
}
