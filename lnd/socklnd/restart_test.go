package socklnd

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// toldOf checks the calls of PeerRestarted since the last call of toldOf.
func (n *node) toldOf(want ...lnet.NID) {
	n.t.Helper()
	var got []lnet.NID
	for len(n.restarted) > 0 {
		got = append(got, <-n.restarted)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		n.t.Errorf("told of restarts %v, want %v", got, want)
	}
}

// visits connects, sends a message, waits for its arrival, and closes.
func (p *puppet) visits() {
	p.t.Helper()
	w := p.connect(protocol.Control)
	w.put(10)
	p.node.arrival()
	_ = w.Close()
	p.node.awaitGone(p.id())
}

// TestALifeThatComesLateIsNoRestart: given a peer whose current incarnation is known, when a HELLO
// of its previous incarnation arrives late, then all connections end, as for any other incarnation
// (socklnd 5.3, rule 6). PeerRestarted is not called for it, nor when the current incarnation
// reconnects.
func TestALifeThatComesLateIsNoRestart(t *testing.T) {
	for _, lateIsTaken := range []bool{false, true} {
		t.Run(fmt.Sprint("late is taken ", lateIsTaken), func(t *testing.T) {
			n := start(t, nil)
			old, young := newPuppet(n), newPuppet(n)
			young.addr, young.life = old.addr, old.life+1
			old.visits()
			n.toldOf()
			w := young.connect(protocol.Control)
			n.toldOf(young.nid())
			if lateIsTaken { // the current incarnation is not connected
				_ = w.Close()
				n.awaitGone(young.id())
				w = old.connect(protocol.Control)
				young.refused(protocol.Control)
			} else {
				old.refused(protocol.Control)
			}
			w.ends()
			w = young.connect(protocol.Control)
			w.put(10)
			n.arrival()
			n.toldOf()
			young.life++
			young.refused(protocol.Control)
			n.toldOf(young.nid())
			young.visits()
			n.toldOf()
			if got := n.counter("peers_restarted_total"); got != 2 {
				t.Errorf("%d restarts counted, want 2", got)
			}
		})
	}
}

// TestACallerThatHasGoneEndsNothing: given a connection that has ended by the time its HELLO is
// read, of the current or the previous incarnation, then it ends no connections that were opened
// since. PeerRestarted is not called.
func TestACallerThatHasGoneEndsNothing(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	control, _, _ := p.callUs()
	for k, former := range []uint64{0, 1} {
		gone := newPuppet(n)
		gone.addr, gone.life = p.addr, p.life-former
		gone.passes(protocol.BulkOut)
		n.awaitCounter("refused_total", uint64(k+1))
		s := n.put(p.id(), 10)
		control.receive()
		s.done()
		control.put(10)
		n.arrival()
	}
	n.toldOf()
}

// TestAnAnswerOfOneThatHasGoneEndsNothing: an answer of the previous incarnation to our call may
// arrive after the current one has called us. It ends no connections.
func TestAnAnswerOfOneThatHasGoneEndsNothing(t *testing.T) {
	n := start(t, nil)
	old, young := newPuppet(n).listen(), newPuppet(n)
	young.addr, young.life = old.addr, old.life+1
	first := n.put(old.id(), 10)
	call, h := old.accept()
	w := young.connect(protocol.Control)
	answer := old.hello(h.Type.Invert())
	b, err := answer.Append(nil, old.order)
	if err != nil {
		t.Fatal(err)
	}
	call.sendLast(b)
	n.awaitCounter("connect_failures_total", 1)
	second := n.put(young.id(), 10)
	w.receive()
	w.receive()
	first.done()
	second.done()
	w.put(10)
	n.arrival()
	n.toldOf()
}

// TestARestartIsKnownAfterThePeerWasForgotten checks that the last incarnation of a peer is
// remembered after the peer has left the table, whichever side calls.
//
// socklnd 15.1 (2)
func TestARestartIsKnownAfterThePeerWasForgotten(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	for range 3 {
		p.visits()
		p.visits()
		n.toldOf()
		p.life++
		p.visits()
		n.toldOf(p.nid())
	}
	p.listen()
	p.life++
	s := n.put(p.id(), 10)
	w := p.take()
	w.receive()
	s.done()
	n.toldOf(p.nid())
}

// TestARestartIsKnownFromAnAnswer checks that an answer NONE reports a new incarnation too.
func TestARestartIsKnownFromAnAnswer(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.visits()
	p.listen()
	p.life++
	s := n.put(p.id(), 10)
	p.decline()
	n.awaitThat("report of the restart", func() bool { return len(n.restarted) > 0 })
	p.take().receive()
	s.done()
	n.toldOf(p.nid())
}

// TestNoConnectionOfANewLifeIsUsedBeforeTheNodeKnows: given several connections of a new
// incarnation that are opened while PeerRestarted runs, then messages in both directions wait until
// it has returned.
func TestNoConnectionOfANewLifeIsUsedBeforeTheNodeKnows(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.visits()
	p.life++
	running, over := make(chan lnet.NID, 10), make(chan struct{})
	release := sync.OnceFunc(func() { close(over) })
	t.Cleanup(release)
	hold := func(peer lnet.NID) {
		running <- peer
		<-over
	}
	n.onRestart.Store(&hold)
	told := make(chan bool, 100) // for each arrival, whether PeerRestarted had returned
	n.onArrival(func(a *arrival) error {
		select {
		case <-over:
			told <- true
		default:
			told <- false
		}
		a.drop()
		return nil
	})
	teller := p.call(protocol.Control)
	await(t, running, "PeerRestarted")
	var wires []*wire
	for _, c := range []protocol.ConnType{protocol.BulkIn, protocol.BulkOut, protocol.BulkOut} {
		w := p.connect(c) // the answer does not wait for PeerRestarted
		w.put(10)
		wires = append(wires, w)
	}
	n.awaitState(p.id(), "four connections", func(p *peer) bool { return len(p.conns) == 4 })
	s := n.put(p.id(), 5000)
	if got := len(told); got > 0 {
		t.Errorf("%d messages arrived before the node knew", got)
	}
	release()
	teller.hello()
	teller.put(10)
	for range 1 + len(wires) {
		if !await(t, told, "arrival") {
			t.Error("a message arrived before the node knew")
		}
	}
	s.done()
	n.toldOf(p.nid())
}

// TestAPeerStaysWhileItsRestartIsReported: given a peer without connections whose presumed restart
// is being reported, then it stays in the table, and the next incarnation waits for the report.
func TestAPeerStaysWhileItsRestartIsReported(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.connect(protocol.Control).put(10)
	n.arrival()
	running, over := make(chan lnet.NID, 10), make(chan struct{})
	release := sync.OnceFunc(func() { close(over) })
	t.Cleanup(release)
	hold := func(peer lnet.NID) {
		running <- peer
		<-over
	}
	n.onRestart.Store(&hold)
	q := n.Find(p.id())
	q.Lock()
	c := q.conns[0]
	q.Doubt.Begin()
	q.Unlock()
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		q.fail(c, syscall.ECONNRESET)
	}()
	await(t, running, "PeerRestarted")
	n.Disconnect(p.nid()) // forgets the peer unless it has to stay
	if n.Find(p.id()) != q {
		t.Error("the peer has left the table")
	}
	n.onArrival(func(a *arrival) error {
		select {
		case <-over:
		default:
			t.Error("a message arrived before the restart was reported")
		}
		a.drop()
		return nil
	})
	p.life++
	w := p.connect(protocol.Control)
	w.put(10)
	s := n.put(p.id(), 10)
	release()
	w.receive()
	s.done()
	<-failed
	n.toldOf(p.nid())
}

// TestRestartsAreToldInTheirOrder checks a peer that begins a third incarnation while PeerRestarted
// runs for the second.
func TestRestartsAreToldInTheirOrder(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.visits()
	p.life++
	calls, goOn, end := make(chan lnet.NID, 10), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(end) })
	hold := func(peer lnet.NID) {
		calls <- peer
		select {
		case <-goOn:
		case <-end:
		}
	}
	n.onRestart.Store(&hold)
	second := p.call(protocol.Control)
	await(t, calls, "PeerRestarted")
	p.life++
	third := p.call(protocol.Control) // refused, because the second incarnation is connected
	second.ends()
	if len(calls) > 0 {
		t.Error("the upcalls cross")
	}
	goOn <- struct{}{}
	await(t, calls, "PeerRestarted of the third life")
	goOn <- struct{}{}
	if h := third.hello(); h.Type != protocol.None {
		t.Errorf("answer of type %s, want NONE", h.Type)
	}
	p.visits()
	n.toldOf(p.nid(), p.nid())
}

// TestOtherProcessesOfAPeerHaveTheirOwnLives checks that a new incarnation of another PID, or of an
// identity made up for an unprivileged caller, is no restart of the peer.
func TestOtherProcessesOfAPeerHaveTheirOwnLives(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.visits()
	// The second incarnation calls while the first is connected. The third calls after that
	// connection has ended.
	for life, want := range []protocol.ConnType{protocol.Control, protocol.None, protocol.Control} {
		w := p.dial()
		h := p.hello(protocol.Control)
		h.SrcPID, h.SrcIncarnation = 77, 5+uint64(life)
		w.send(p.request())
		w.say(h)
		if got := w.hello(); got.Type != want {
			t.Fatalf("answer of type %s to life %d, want %s", got.Type, life+1, want)
		}
		if life > 0 {
			_ = w.Close()
			n.awaitGone(lnet.ProcessID{NID: p.nid(), PID: 77})
		}
	}
	p.visits()
	n.toldOf()

	n, _ = unprivilegedLives(t, kernelPort)
	n.toldOf()

	// If the port to connect to is unprivileged, the node itself has restarted.
	n, p = unprivilegedLives(t, 0)
	n.toldOf(p.nid(), p.nid())
}

// unprivilegedLives starts a node that calls others at port. Three incarnations of a peer call it
// from unprivileged ports.
func unprivilegedLives(t *testing.T, port int) (*node, *puppet) {
	t.Helper()
	n := start(t, callingAt(port))
	p := newPuppet(n)
	for range 3 {
		w := p.connect(protocol.Control)
		w.put(10)
		from := n.arrival().from
		p.life++
		_ = w.Close()
		n.awaitGone(from)
	}
	return n, p
}
