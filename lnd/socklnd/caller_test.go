package socklnd

import (
	"net"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// TestWhoCalledUsIsNotCalledBack checks that a node opens no connections to a peer that has called
// it. If connections of the set are missing, opening them is up to the peer.
//
// socklnd 1 (3)
func TestWhoCalledUsIsNotCalledBack(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	w := p.connect(protocol.Control)
	for _, size := range []int{10, 5000} {
		s := n.put(p.id(), size)
		w.receive()
		s.done()
	}
	n.awaitState(p.id(), "a peer without an opener", func(p *peer) bool { return p.wanted == nil && !p.opening })
	if got := n.counter("connects_total") + n.counter("connect_failures_total"); got != 0 {
		t.Errorf("%d calls", got)
	}
}

// TestAnyConnectionTakesAnyMessage checks that a node accepts small and large messages on
// connections of each type.
//
// socklnd 2.1 (2)
func TestAnyConnectionTakesAnyMessage(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	control, in, out := p.callUs()
	for _, w := range []*wire{control, in, out} {
		for _, size := range []int{0, 10, 5000} {
			w.put(size)
			if a := n.arrival(); len(a.payload) != size {
				t.Errorf("%d bytes of %d arrived on %s", len(a.payload), size, w.typ)
			}
		}
	}
}

// TestCallsLeaveFromTheNIsAddress checks the source address of a call on a host with many
// addresses.
//
// socklnd 17 (2)
func TestCallsLeaveFromTheNIsAddress(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	n.put(p.id(), 0)
	w := p.take()
	if from := w.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(); from != n.Address {
		t.Errorf("the call came from %s, the NI has %s", from, n.Address)
	}
}

// TestCallersMayComeFromAnyAddress checks that a caller with a privileged port is identified by its
// HELLO, whatever its address is.
//
// socklnd 5.2 (2), 17 (3)
func TestCallersMayComeFromAnyAddress(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	id := newPuppet(n).id()
	w := p.dial()
	h := p.hello(protocol.Control)
	h.Src = id.NID
	w.send(p.request())
	w.say(h)
	if h := w.hello(); h.Type != protocol.Control {
		t.Fatalf("answer %+v", h)
	}
	w.put(10)
	if a := n.arrival(); a.from != id {
		t.Errorf("from %s, want %s", a.from, id)
	}
}

// TestAnAnswerToACallThatWasGivenUp checks that an answer to a call that has been given up makes no
// connection.
//
// socklnd 5.4 (5)
func TestAnAnswerToACallThatWasGivenUp(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	w, _ := p.accept()
	n.Disconnect(p.nid())
	s.fails(lnd.StatusLocalAborted)
	n.awaitTable("end of the attempt", func() bool { return n.Find(p.id()) == nil })
	h := p.hello(protocol.Control)
	b, err := h.Append(nil, p.order)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(b) // the node may have closed the connection already
	w.ends()
	if got := n.counter("connections"); got != 0 {
		t.Errorf("%d connections stand", got)
	}
}

// TestTunablesInForce checks the defaults, and that peer credits do not exceed credits.
//
// socklnd 18 (1)
// lnetctl 4.2 (5)
func TestTunablesInForce(t *testing.T) {
	def := DefaultConfig().Tunables
	for _, c := range []struct{ want, force lnd.Tunables }{
		{lnd.Tunables{PeerTimeout: -1}, def},
		{lnd.Tunables{PeerTimeout: 0, PeerCredits: 5, Credits: 70, PeerBufferCredits: 3}, lnd.Tunables{PeerCredits: 5, Credits: 70, PeerBufferCredits: 3}},
		{lnd.Tunables{PeerTimeout: -1, PeerCredits: 90, Credits: 7}, lnd.Tunables{
			PeerTimeout: def.PeerTimeout, PeerCredits: 7, Credits: 7, PeerBufferCredits: def.PeerBufferCredits}},
	} {
		n := start(t, nil)
		i, err := n.driver.Open(t.Context(), lnd.Config{Net: tcp, NID: lnet.NIDFromIP(tcp, newAddress()), Upper: &node{t: t}, Tunables: c.want})
		if err != nil {
			t.Fatal(err)
		}
		if got := i.Tunables(); got != c.force {
			t.Errorf("%+v became %+v, want %+v", c.want, got, c.force)
		}
		if err := i.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if def.PeerTimeout.Seconds() != 180 || def.PeerCredits != 8 || def.Credits != 256 {
		t.Errorf("defaults %+v", def)
	}
}
