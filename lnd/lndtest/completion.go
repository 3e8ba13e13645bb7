package lndtest

import (
	"errors"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Completion: each message is completed exactly once, whatever happens to it, and each error is classified by
// its cause. At the end of every scenario, outgoing.check and arrival.check check the number of completions.
// node.close checks that they were made before Close returned.
var completionCases = []scenario{
	{name: "UnreachablePeer", nodes: 2, run: unreachable},
	{name: "IsolatedPeer", nodes: 2, needs: canIsolate, run: isolated},
	{name: "ConnectionKilledInPayload", nodes: 2, needs: canKill, run: killedInPayload},
	{name: "ConnectionCutAtByte", nodes: 2, needs: func(w *World) bool { return w.CutAfter != nil }, run: cutAtByte},
	{name: "IsolatedInPayload", nodes: 2, needs: canIsolate, run: isolatedInPayload},
	{name: "PeerRestarts", nodes: 2, run: peerRestarts},
	{name: "CloseWithMessagesOnTheWay", nodes: 2, run: closeOnTheWay},
	{name: "CloseWithMessagesPending", nodes: 2, run: closePending},
	{name: "SendWithinClose", nodes: 8, needs: canIsolate, run: sendWithinClose},
	{name: "CloseWithArrivalsHeld", nodes: 2, run: closeHeld},
	{name: "SendAfterClose", nodes: 2, run: sendAfterClose},
	{name: "ProtocolError", nodes: 3, run: protocolError},
}

func canKill(w *World) bool    { return w.Kill != nil }
func canIsolate(w *World) bool { return w.Isolate != nil }

// flood sends more data than the buffers between the nodes can hold.
func flood(from, to *node) []*outgoing { return from.puts(to, 32, lnet.MTU) }

func unreachable(s *stage) {
	n := s.open(1)
	for round := range 2 {
		out := n[0].puts(s.nodes[1], 20, 100)
		s.awaitComplete(out)
		s.mu.Lock()
		for _, o := range out {
			if o.err == nil {
				s.t.Errorf("round %d: a message to nobody was completed without an error", round)
				break
			}
		}
		s.mu.Unlock()
	}
	s.nodes[1].open()
	s.awaitWorking(n[0], n[1])
}

func isolated(s *stage) {
	n := s.open(2)
	heal := s.w.Isolate(0, 1)
	out := n[0].puts(n[1], 20, 100)
	s.awaitComplete(out)
	s.mu.Lock()
	for _, o := range out {
		if o.err == nil {
			s.t.Error("a message through a partition was completed without an error")
			break
		}
	}
	s.mu.Unlock()
	heal()
	s.awaitWorking(n[0], n[1])
	s.awaitWorking(n[1], n[0])
}

func killedInPayload(s *stage) {
	n := s.open(2)
	const tries = 300
	for range 3 {
		n[1].setPolicy(holdAll)
		out := flood(n[0], n[1])
		s.await("an arrival", func() bool { return len(n[1].held) > 0 })
		// A driver in another process may send the last messages on the next connection.
		for k := 0; k == 0 || k < tries && !s.within(s.h.Patience/tries, func() bool { return complete(out) }); k++ {
			s.w.Kill(0, 1)
		}
		s.awaitComplete(out)
		s.checkSomeFailed(out)
		n[1].placeLater() // these placements come after the connection was lost
		s.awaitWorking(n[0], n[1])
		s.awaitWorking(n[1], n[0])
	}
}

// checkSomeFailed checks that at least one of the messages has failed, because their connection was broken.
func (s *stage) checkSomeFailed(out []*outgoing) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range out {
		if o.err != nil {
			return
		}
	}
	s.t.Error("all messages on a broken connection were completed without an error")
}

// cutAtByte breaks a new connection after various numbers of bytes: during connection setup, in a header, and
// in a payload.
func cutAtByte(s *stage) {
	for _, at := range []int{1, 10, 60, 100, 150, 200, 300, 5000, 70_000, lnet.MTU} {
		n := s.open(2)
		s.w.CutAfter(0, 1, at)
		var out []*outgoing
		for _, size := range []int{0, 100, 2000, lnet.MTU, 10} {
			out = append(out, n[0].put(n[1], size), n[1].put(n[0], size))
		}
		s.awaitComplete(out)
		s.checkOnce()
		s.awaitWorking(n[0], n[1])
		s.awaitWorking(n[1], n[0])
		n[0].close()
		n[1].close()
	}
}

// checkOnce checks that no message arrived twice.
func (s *stage) checkOnce() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for id, list := range n.arrivals {
			if len(list) > 1 {
				s.t.Errorf("message %d arrived %d times", id, len(list))
			}
		}
	}
}

func isolatedInPayload(s *stage) {
	n := s.open(2)
	s.awaitDelivered(n[1], n[0].put(n[1], 2000))
	n[1].setPolicy(holdAll)
	out := flood(n[0], n[1])
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	heal := s.w.Isolate(0, 1)
	s.awaitComplete(out)
	s.checkSomeFailed(out)
	n[1].placeLater()
	heal()
	s.awaitWorking(n[0], n[1])
	s.awaitWorking(n[1], n[0])
	s.checkOnce()
}

func peerRestarts(s *stage) {
	n := s.open(2)
	for range 3 {
		n[1].setPolicy(holdAll)
		out := flood(n[0], n[1])
		out = append(out, n[0].puts(n[1], 20, 10)...)
		s.await("an arrival", func() bool { return len(n[1].held) > 0 })
		n[1].close()
		s.awaitComplete(out)
		s.checkSomeFailed(out)
		n[1].place()
		n[1].open()
		s.awaitWorking(n[0], n[1])
		s.awaitWorking(n[1], n[0])
	}
	s.checkOnce()
}

// closeOnTheWay closes the sender while messages are in transit. node.close checks that all of them are
// complete when Close returns.
func closeOnTheWay(s *stage) {
	n := s.open(2)
	n[1].setPolicy(holdAll)
	out := flood(n[0], n[1])
	out = append(out, n[0].puts(n[1], 20, 10)...)
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	n[0].close()
	s.checkSomeFailed(out)
}

func closePending(s *stage) {
	for range 10 {
		n := s.open(1)
		n[0].puts(s.nodes[1], 50, 1000)
		n[0].close()
	}
	s.nodes[1].open()
	for range 10 {
		n := s.open(1)
		n[0].puts(s.nodes[1], 50, 1000)
		n[0].close()
	}
	s.checkOnce()
}

// sendWithinClose sends messages from a completion that Close causes: to the same peer, and to peers that could
// not be reached before. All of them must fail with ErrClosed.
func sendWithinClose(s *stage) {
	n := s.open(2)
	for _, to := range n[2:] {
		s.awaitComplete(n[0].puts(to, 1, 10))
	}
	s.w.Isolate(0, 1)
	var errs []error
	record := senderFunc(func(_ *lnd.Tx, err error) { s.note(func() { errs = append(errs, err) }) })
	o := n[0].message(lnet.MsgPut, n[1], 10, 1)
	o.Done = senderFunc(func(m *lnd.Tx, err error) {
		record(m, err)
		for _, to := range n[1:] {
			more := n[0].message(lnet.MsgPut, to, 10, 1)
			more.Done = record
			n[0].i.Send(&more.Tx)
		}
	})
	n[0].i.Send(&o.Tx)
	s.settle()
	n[0].close()
	if len(errs) != len(n) {
		s.t.Errorf("%d of %d messages are complete", len(errs), len(n))
	}
	for _, err := range errs {
		if !errors.Is(err, lnd.ErrClosed) {
			s.t.Errorf("completed with %v, want ErrClosed", err)
		}
	}
}

// closeHeld closes the receiver while arrivals wait for their placement. The placement is given after Close. It
// must complete them with an error, or without one if the whole payload had arrived.
func closeHeld(s *stage) {
	n := s.open(2)
	n[1].setPolicy(holdAll)
	out := []*outgoing{n[0].put(n[1], 10), n[0].put(n[1], lnet.MTU)}
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	n[1].close()
	s.awaitComplete(out)
	n[1].place()
	s.await("completion of what was held", func() bool {
		for _, a := range n[1].order {
			if a.completions != 1 {
				return false
			}
		}
		return true
	})
}

func sendAfterClose(s *stage) {
	n := s.open(2)
	s.awaitDelivered(n[1], n[0].put(n[1], 10))
	n[0].close()
	o := n[0].message(lnet.MsgPut, n[1], 100, 1)
	done := make(chan error, 2)
	o.Done = senderFunc(func(_ *lnd.Tx, err error) { done <- err })
	n[0].i.Send(&o.Tx)
	if err := <-done; !errors.Is(err, lnd.ErrClosed) {
		s.t.Errorf("completed with %v, want ErrClosed", err)
	} else {
		checkError(s.t, "send after Close", err)
	}
	n[0].i.Disconnect(n[1].id.NID) // harmless
	ctx, cancel := s.closeContext()
	defer cancel()
	_ = n[0].i.Close(ctx) // a second Close may return anything, but must return
}

type senderFunc func(m *lnd.Tx, err error)

func (f senderFunc) Sent(m *lnd.Tx, err error) { f(m, err) }

// protocolError makes the node treat one peer's messages as protocol errors. The driver must close the
// connections of that peer, and no others.
func protocolError(s *stage) {
	n := s.open(3)
	bad, good, target := n[0], n[1], n[2]
	const tries = 100
	for _, size := range []int{100, 70_000} {
		lost := false
		for k := 0; !lost; k++ {
			if k == tries {
				s.t.Fatalf("messages of %d bytes: the refused peer keeps its connections\n%s", size, s.describe())
			}
			s.awaitWorking(bad, target)
			s.awaitWorking(good, target)
			before, downs := 0, 0
			s.note(func() {
				before, downs = bad.downOf(target), good.downOf(target)+target.downOf(good)
				target.policy = refuse(bad)
			})
			refused := bad.put(target, size)
			s.await("the refusal", func() bool {
				return len(target.arrivals[refused.id()]) > 0 || refused.err != nil
			})
			s.awaitDelivered(target, good.puts(target, 50, size)...)
			target.setPolicy(keepAll)
			// A peer that is opening another connection at that moment reports no loss. The next try then
			// repeats the refusal.
			lost = s.within(s.h.Patience/tries, func() bool { return bad.downOf(target) > before })
			s.mu.Lock()
			if good.downOf(target)+target.downOf(good) != downs {
				s.t.Error("another peer's connections were lost too")
			}
			s.mu.Unlock()
		}
		s.awaitWorking(bad, target)
	}
}

// refuse returns a policy that treats the messages of the node bad as protocol errors, and keeps all others.
func refuse(bad *node) policy {
	return func(a *arrival) (lnd.Placement, bool, error) {
		if a.from == bad.id {
			return lnd.Placement{}, false, errors.New("refused by the node")
		}
		return keepAll(a)
	}
}
