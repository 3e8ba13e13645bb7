package socklnd

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// socklnd 5.4 (2), 5.4 (8), 7 (2)
func TestARaceIsTriedAgainAfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const pause = 100 * time.Millisecond
		n := start(t, func(c *Config) { m.use(c); c.MinReconnect = pause })
		p := newPuppet(n).listen()
		s := n.put(p.id(), 10)
		p.decline()
		begin := time.Now()
		w := p.take()
		if d := time.Since(begin); d < pause*9/10 {
			t.Errorf("called again after %v, want a pause of %v", d, pause)
		}
		w.receive()
		s.done()
	})
}

// TestRacesFailNothing: given a peer that refuses many times because it is calling us, messages
// wait. They are sent on the peer's connection when it comes, or fail at their own deadline.
// Kernels give up after three refusals.
func TestRacesFailNothing(t *testing.T) {
	for _, comes := range []bool{true, false} {
		t.Run(fmt.Sprint("comes ", comes), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *memoryNetwork) {
				const timeout = time.Second
				n := start(t, func(c *Config) { m.use(c); c.SockTimeout = timeout })
				p := newPuppet(n).listen()
				begin := time.Now()
				s := n.put(p.id(), 10)
				for time.Since(begin) < timeout*3/4 { // one refusal every 20 ms
					p.decline()
				}
				if !comes {
					if err := s.fails(lnd.StatusNetworkTimeout); !errors.Is(err, peering.ErrWaited) {
						t.Errorf("error %v", err)
					}
					if d := time.Since(begin); d < timeout {
						t.Errorf("failed after %v, T is %v", d, timeout)
					}
					return
				}
				w := p.connect(protocol.Control)
				w.receive()
				s.done()
				if got := n.counter("connect_failures_total"); got != 0 {
					t.Errorf("%d hard failures", got)
				}
			})
		})
	}
}

// TestTheHigherNIDWins checks both sides of a simultaneous connect (socklnd 6).
//
// socklnd 5.3 (3), 6 (1)
func TestTheHigherNIDWins(t *testing.T) {
	t.Run("we are higher", func(t *testing.T) {
		n := start(t, nil)
		p := lowerPuppet(n).listen()
		s := n.put(p.id(), 10)
		ours, _ := p.accept()
		p.refused(protocol.Control)
		p.refused(protocol.Control)
		p.call(protocol.Control).ends() // the third one gets no answer
		ours.answer(protocol.Control)
		ours.receive()
		s.done()
	})
	t.Run("we are lower", func(t *testing.T) {
		n := start(t, nil)
		p := newPuppet(n).listen()
		s := n.put(p.id(), 10)
		ours, _ := p.accept()
		theirs := p.connect(protocol.Control)
		theirs.receive() // the message does not wait for our call
		s.done()
		ours.answer(protocol.None)
		ours.ends()
		for _, c := range []protocol.ConnType{protocol.BulkIn, protocol.BulkOut} {
			p.connect(c)
		}
		n.awaitSettled(p.id())
		if got := n.counter("connections"); got != 3 {
			t.Errorf("%d connections stand, want the peer's 3", got)
		}
	})
}

// TestWhoIsBeingCalledPauses checks that an opener pauses before the next call of a set if the peer
// is calling at the same time.
//
// socklnd 6 (2)
func TestWhoIsBeingCalledPauses(t *testing.T) {
	const pause = 100 * time.Millisecond
	n := start(t, func(c *Config) { c.MinReconnect = pause })
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	w, _ := p.accept()
	called, err := n.Caller(p.id(), p.addr)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	w.answer(protocol.Control)
	w.receive()
	s.done()
	n.awaitState(p.id(), "pause", func(p *peer) bool { return p.opening && !p.connecting })
	called.accepted()
	n.Group.Done() // Caller has added to the group
	next, _ := p.accept()
	if d := time.Since(begin); d < pause*9/10 {
		t.Errorf("called on after %v, want a pause of %v", d, pause)
	}
	_ = next.Close()
}
