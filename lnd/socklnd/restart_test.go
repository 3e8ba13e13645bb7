package socklnd

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// toldOf checks which restarts the node was told of since the last look.
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

// visits connects, says something that arrives, and goes.
func (p *puppet) visits() {
	p.t.Helper()
	w := p.connect(protocol.Control)
	w.put(10)
	p.node.arrival()
	_ = w.Close()
	p.node.awaitGone(p.id())
}

// TestALifeThatComesLateIsNoRestart shows a HELLO of a life that is over, while
// the next one is connected: all connections end, as after any other
// incarnation (socklnd 5.3, rule 6), and nobody is told of a restart; nor when
// the true life comes back.
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
			if lateIsTaken { // nobody is connected
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

// TestACallerThatHasGoneEndsNothing shows a connection that is over when its HELLO
// is read, of the present life or of a former one: those that have come up since do
// not end with it, and nobody is told of a restart.
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

// TestAnAnswerOfOneThatHasGoneEndsNothing shows that of a life that is over the
// answer to our call may come when the next one has called us.
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

// TestARestartIsKnownAfterThePeerWasForgotten shows that the last life is known
// when nothing else is left of a peer, which called or was called.
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

// TestARestartIsKnownFromAnAnswer shows that a NONE tells of a new life too.
func TestARestartIsKnownFromAnAnswer(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.visits()
	p.listen()
	p.life++
	s := n.put(p.id(), 10)
	p.decline()
	n.awaitState(p.id(), "verdict on the answer", func(p *peer) bool { return p.told != nil })
	p.take().receive()
	s.done()
	n.toldOf(p.nid())
}

// TestNoConnectionOfANewLifeIsUsedBeforeTheNodeKnows has several connections of
// a new life come up while the upcall runs: their messages wait, and so does
// what is sent on them.
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
	told := make(chan bool, 100) // at each arrival: had the upcall returned?
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
		w := p.connect(c) // the answer comes without the node
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

// TestAPeerStaysWhileItsRestartIsReported shows a peer that has nothing left while a presumed restart is
// being reported: it stays in the table, and the next incarnation waits for the report.
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
	n.mu.Lock()
	q := n.peers[p.id()]
	n.mu.Unlock()
	q.mu.Lock()
	c := q.conns[0]
	q.doubt.Begin()
	q.mu.Unlock()
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		q.fail(c, syscall.ECONNRESET)
	}()
	await(t, running, "PeerRestarted")
	n.Disconnect(p.nid()) // forgets the peer if that is possible
	n.mu.Lock()
	if n.peers[p.id()] != q {
		t.Error("the peer has left the table")
	}
	n.mu.Unlock()
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

// TestRestartsAreToldInTheirOrder has a peer begin a third life while the node
// is being told of the second.
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
	third := p.call(protocol.Control) // refused: the second life is connected
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

// TestOtherProcessesOfAPeerHaveTheirOwnLives shows that neither another PID nor
// an identity that was made up makes a restart.
func TestOtherProcessesOfAPeerHaveTheirOwnLives(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.visits()
	// The second life comes while the first is connected, the third when nobody is.
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

	// Where nobody has a privileged port it is the node itself that restarts.
	n, p = unprivilegedLives(t, 0)
	n.toldOf(p.nid(), p.nid())
}

// unprivilegedLives has a node that calls others at a port be called by three
// lives of a peer, from unprivileged ports.
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
