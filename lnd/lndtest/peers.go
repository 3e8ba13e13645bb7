package lndtest

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Peers: the upcalls that report lost peers, later reconnections, and races between two sides that connect to
// each other.
var peerCases = []scenario{
	{name: "DownAfterFailedConnect", nodes: 2, run: downAfterFailedConnect},
	{name: "DownAfterLoss", nodes: 2, needs: canKill, run: downAfterLoss},
	{name: "DownBeforeMessagesFail", nodes: 2, run: downBeforeMessagesFail},
	{name: "ReconnectIdle", nodes: 2, needs: canKill, run: reconnectIdle},
	{name: "Disconnect", nodes: 3, run: disconnect},
	{name: "DisconnectIsNoLoss", nodes: 2, needs: canHold, run: disconnectIsNoLoss},
	{name: "DisconnectEndsPause", nodes: 2, run: disconnectEndsPause},
	{name: "DisconnectUnknown", nodes: 2, run: disconnectUnknown},
	{name: "DisconnectWhileConnecting", nodes: 2, needs: func(w *World) bool { return w.Hold != nil }, run: disconnectWhileConnecting},
	{name: "FailedCalls", nodes: 2, run: failedCalls},
	{name: "BothSendFirst", nodes: 2 * raceRounds, run: bothSendFirst},
	{name: "BothConnectAtOnce", nodes: 2 * raceRounds, needs: canHold, run: bothConnectAtOnce},
	{name: "EverybodySendsFirst", nodes: 4, run: everybodySendsFirst},
}

func downAfterFailedConnect(s *stage) {
	n := s.open(1)
	out := n[0].puts(s.nodes[1], 3, 10)
	s.await("a notice", func() bool { return n[0].downOf(s.nodes[1]) > 0 })
	s.awaitComplete(out)
	s.checkDowns(n[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := n[0].downs[0]; !d.LastAlive.IsZero() {
		s.t.Errorf("last alive %v, but it never was", d.LastAlive)
	}
}

// downAfterLoss breaks connections until both sides have called PeerDown. This may take more than one time,
// because a side that is opening another connection has not lost the peer. But each time, both must call
// ConnectionsLost.
func downAfterLoss(s *stage) {
	n := s.open(2)
	const tries = 100
	for k := 0; ; k++ {
		s.awaitWorking(n[0], n[1])
		s.awaitWorking(n[1], n[0])
		s.mu.Lock()
		a, b := n[0].lossesOf(n[1]), n[1].lossesOf(n[0])
		s.mu.Unlock()
		s.w.Kill(0, 1)
		s.await("news of lost connections", func() bool { return n[0].lossesOf(n[1]) > a && n[1].lossesOf(n[0]) > b })
		if s.within(s.h.Patience/tries, func() bool { return n[0].downOf(n[1]) > 0 && n[1].downOf(n[0]) > 0 }) {
			break
		}
		if k == tries {
			s.t.Fatalf("no notices on both sides\n%s", s.describe())
		}
	}
	s.mu.Lock()
	for _, x := range n {
		if d := x.downs[0]; d.LastAlive.IsZero() {
			s.t.Errorf("node %d: last alive unknown, but a message had arrived", x.k)
		}
	}
	s.mu.Unlock()
	s.checkDowns(n[0])
	s.checkDowns(n[1])
	s.awaitWorking(n[0], n[1])
}

// checkDowns checks the arguments of all calls of PeerDown.
func (s *stage) checkDowns(n *node) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range n.downs {
		if d.Err == nil || lnd.StatusOf(d.Err) == lnd.StatusOK {
			s.t.Errorf("node %d: notice %+v without an error", n.k, d)
		}
		checkError(s.t, "notice", d.Err)
	}
}

// downBeforeMessagesFail checks that messages to a peer that cannot be reached fail only after PeerDown.
// Otherwise a node would resend them to the same peer.
func downBeforeMessagesFail(s *stage) {
	n := s.open(1)
	failed, early := 0, 0
	for range 5 {
		o := n[0].message(lnet.MsgPut, s.nodes[1], 10, 1)
		o.Done = senderFunc(func(*lnd.Tx, error) {
			s.note(func() {
				if failed++; n[0].downOf(s.nodes[1]) == 0 {
					early++
				}
			})
		})
		n[0].i.Send(&o.Tx)
	}
	s.await("completions", func() bool { return failed == 5 })
	if early > 0 {
		s.t.Errorf("%d of 5 messages failed before the notice that the peer is down", early)
	}
}

// reconnectIdle breaks idle connections. The next messages must open new ones and arrive.
func reconnectIdle(s *stage) {
	n := s.open(2)
	for range 5 {
		s.awaitWorking(n[0], n[1])
		s.awaitWorking(n[1], n[0])
		s.w.Kill(0, 1)
		s.settle()
	}
	s.checkOnce()
}

func disconnect(s *stage) {
	n := s.open(3)
	s.awaitDelivered(n[2], n[0].put(n[2], 10))
	n[1].setPolicy(holdAll)
	out := flood(n[0], n[1])
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	n[0].i.Disconnect(n[1].id.NID)
	s.awaitComplete(out)
	s.checkSomeFailed(out)
	s.mu.Lock()
	for _, o := range out {
		got := lnd.StatusOf(o.err)
		if len(n[1].arrivals[o.id()]) > 0 && o.err != nil && got != lnd.StatusLocalError {
			s.t.Errorf("a message whose header had arrived was completed with status %q, want %q: %v", got, lnd.StatusLocalError, o.err)
		}
		if o.err != nil && got != lnd.StatusLocalAborted && got != lnd.StatusLocalError {
			s.t.Errorf("a message was completed with status %q, want %q or %q: %v", got, lnd.StatusLocalAborted, lnd.StatusLocalError, o.err)
			break
		}
	}
	s.mu.Unlock()
	n[1].placeLater()
	s.awaitWorking(n[0], n[1])
	s.awaitWorking(n[1], n[0])
	s.awaitDelivered(n[2], n[0].put(n[2], 10)) // the other peer's connections must stay
}

// disconnectEndsPause makes an attempt to connect fail, after which a driver may pause. After Disconnect, the
// next message must connect without a pause. This must be so whether the driver still has the peer in its table
// or not (departed).
func disconnectEndsPause(s *stage) {
	n := s.open(1)
	for _, departed := range []bool{false, true} {
		s.awaitComplete(n[0].puts(n[1], 1, 10))
		if departed {
			s.settle()
		}
		n[1].open()
		n[0].i.Disconnect(n[1].id.NID)
		s.awaitDelivered(n[1], n[0].put(n[1], 10))
		n[1].close()
		s.settle()
	}
}

func canHold(w *World) bool { return w.Hold != nil }

// disconnectIsNoLoss checks that PeerDown is not called when Disconnect ends a connection or an attempt to
// connect. A message that is sent afterwards must connect without a pause.
func disconnectIsNoLoss(s *stage) {
	n := s.open(2)
	release := s.w.Hold(0, 1)
	out := n[0].puts(n[1], 3, 10)
	s.settle()
	n[0].i.Disconnect(n[1].id.NID)
	s.awaitComplete(out)
	s.settle()
	for _, o := range out {
		if got := lnd.StatusOf(o.err); got != lnd.StatusLocalAborted {
			s.t.Errorf("a message that waited was completed with status %q, want %q: %v", got, lnd.StatusLocalAborted, o.err)
		}
	}
	release()
	s.awaitDelivered(n[1], n[0].put(n[1], 10))
	n[0].i.Disconnect(n[1].id.NID)
	s.settle()
	s.awaitDelivered(n[1], n[0].put(n[1], 10))
	if n[0].downOf(n[1]) > 0 {
		s.t.Errorf("a peer was lost from which the node had disconnected: %v", n[0].downs)
	}
}

func disconnectUnknown(s *stage) {
	n := s.open(2)
	n[0].i.Disconnect(n[1].id.NID)
	n[0].i.Disconnect(lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 99), 1))
	s.awaitDelivered(n[1], n[0].put(n[1], 10))
}

// disconnectWhileConnecting calls Disconnect while the first connection to the peer is being made. The messages
// must fail, and later messages must get a new connection.
func disconnectWhileConnecting(s *stage) {
	n := s.open(2)
	release := s.w.Hold(0, 1)
	out := n[0].puts(n[1], 3, 10)
	s.settle()
	n[0].i.Disconnect(n[1].id.NID)
	s.awaitComplete(out)
	later := n[0].put(n[1], 10)
	release()
	s.awaitDelivered(n[1], later)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range out {
		if got := lnd.StatusOf(o.err); got != lnd.StatusLocalAborted {
			s.t.Errorf("a message was completed with status %q, want %q: %v", got, lnd.StatusLocalAborted, o.err)
		}
	}
	if c, ok := n[0].i.(lnd.Caller); ok {
		if failed := c.CallFailures(); failed.Total() > 0 {
			s.t.Errorf("failed calls: %v", failed)
		}
	}
}

// failedCalls connects to a node that does not listen, and checks that the interface counts this as refused.
func failedCalls(s *stage) {
	n := s.open(1)
	c, ok := n[0].i.(lnd.Caller)
	if !ok {
		return
	}
	out := n[0].puts(s.nodes[1], 3, 10)
	s.awaitComplete(out)
	s.checkSomeFailed(out)
	if failed := c.CallFailures(); failed[lnd.CallRefused] == 0 || failed[lnd.CallRefused] != failed.Total() {
		s.t.Errorf("failed calls: %v", failed)
	}
}

// raceRounds is how often a race is repeated. Each round uses two new nodes: if a node restarted instead,
// messages to its former incarnation might be lost.
const raceRounds = 6

// bothSendFirst makes both sides send their first messages at the same time.
func bothSendFirst(s *stage) {
	for k := range raceRounds {
		a, b := s.nodes[2*k], s.nodes[2*k+1]
		a.open()
		b.open()
		out := sendBothWays(a, b)
		s.awaitDelivered(b, out[0]...)
		s.awaitDelivered(a, out[1]...)
	}
}

// bothConnectAtOnce makes both sides send their first messages, and both connection requests leave at the same
// moment.
func bothConnectAtOnce(s *stage) {
	for k := range raceRounds {
		a, b := s.nodes[2*k], s.nodes[2*k+1]
		a.open()
		b.open()
		release := s.w.Hold(a.k, b.k)
		out := sendBothWays(a, b)
		s.settle()
		release()
		s.awaitDelivered(b, out[0]...)
		s.awaitDelivered(a, out[1]...)
	}
}

// sendBothWays sends small and large messages in both directions at the same time, from two goroutines. It
// returns the messages from a and those from b.
func sendBothWays(a, b *node) [2][]*outgoing {
	var out [2][]*outgoing
	start, done := make(chan struct{}), make(chan struct{})
	for k, pair := range [2][2]*node{{a, b}, {b, a}} {
		go func() {
			<-start
			for _, size := range []int{10, 20_000, 0, lnet.MTU, 927, 928} {
				out[k] = append(out[k], pair[0].put(pair[1], size))
			}
			done <- struct{}{}
		}()
	}
	close(start)
	<-done
	<-done
	return out
}

func everybodySendsFirst(s *stage) {
	n := s.open(4)
	type sending struct {
		to  *node
		out []*outgoing
	}
	results := make(chan sending)
	count := 0
	for _, from := range n {
		for _, to := range n {
			if from != to {
				count++
				go func() { results <- sending{to, from.puts(to, 5, 3000)} }()
			}
		}
	}
	var all []sending
	for range count {
		all = append(all, <-results)
	}
	for _, x := range all {
		s.awaitDelivered(x.to, x.out...)
	}
}
