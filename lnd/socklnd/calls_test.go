package socklnd

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// silence is a network on which calls to 10.0.0.0/8 are never answered. It counts the calls in
// progress there, and their maximum.
type silence struct {
	*memoryNetwork
	mu             sync.Mutex
	underWay, most int
}

func (s *silence) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay += n
	s.most = max(s.most, s.underWay)
}

func (s *silence) check(t *testing.T, underWay int) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underWay != underWay {
		t.Errorf("%d calls are under way, want %d", s.underWay, underWay)
	}
	if s.most > peering.MaxCalls {
		t.Errorf("%d calls were under way at once, want at most %d", s.most, peering.MaxCalls)
	}
}

func (s *silence) Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error) {
	if to.Addr().As4()[0] != 10 {
		return s.memoryNetwork.Dial(ctx, from, to)
	}
	s.add(1)
	defer s.add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// mute returns the ID of a peer that does not answer.
func mute(k int) lnet.ProcessID {
	a := netip.AddrFrom4([4]byte{10, byte(k >> 16), byte(k >> 8), byte(k)})
	return lnet.ProcessID{NID: lnet.NIDFromIP(tcp, a), PID: lnet.PIDLustre}
}

// inSilence runs a test in a bubble with a node on a silence network. T is 10 s.
func inSilence(t *testing.T, test func(t *testing.T, n *node, s *silence)) {
	t.Helper()
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		s := &silence{memoryNetwork: m}
		n := start(t, func(c *Config) { c.Network, c.SockTimeout, c.Logger = s, 10*time.Second, nil })
		test(t, n, s)
	})
}

// putToMutes sends one message each to count peers, beginning with mute(first).
func (n *node) putToMutes(first, count int) []*sending {
	out := make([]*sending, count)
	for k := range out {
		out[k] = n.put(mute(first+k), 0)
	}
	return out
}

func (n *node) checkWaiting(want int) {
	n.t.Helper()
	synctest.Wait()
	if got := n.counter("waiting_calls"); got != uint64(want) {
		n.t.Errorf("%d calls wait, want %d", got, want)
	}
}

// answers checks that a message to the puppet arrives without delay.
func (p *puppet) answers() {
	p.t.Helper()
	begin := time.Now()
	s := p.node.put(p.id(), 10)
	p.take().receive()
	s.done()
	if d := time.Since(begin); d > 0 {
		p.t.Errorf("reached after %v", d)
	}
}

// TestCallsAreBounded sends messages to 10,000 unknown peers that do not answer. The number of
// simultaneous calls is limited, and the other messages fail at their deadline. A peer that has
// connected before, and one that the node vouches for, are called at once. An unknown peer that
// does answer is called when a slot is free.
func TestCallsAreBounded(t *testing.T) {
	inSilence(t, func(t *testing.T, n *node, s *silence) {
		const crowd = 10_000
		friend := newPuppet(n).listen()
		friend.visits()
		named := newPuppet(n).listen()
		n.vouched = named.nid()
		begin := time.Now()
		out := n.putToMutes(0, crowd)
		s.check(t, peering.MaxCallsOfKind)
		n.checkWaiting(crowd - peering.MaxCallsOfKind)
		friend.answers()
		named.answers()
		for _, m := range out {
			if err := m.fails(lnd.StatusNetworkTimeout); !errors.Is(err, syscall.ETIMEDOUT) {
				t.Fatalf("error %v, want ETIMEDOUT in it", err)
			}
		}
		if d := time.Since(begin); d < 10*time.Second || d > 12*time.Second {
			t.Errorf("they failed after %v, T is 10s", d)
		}
		time.Sleep(2 * time.Second)
		n.checkWaiting(0)
		late := newPuppet(n).listen()
		m := n.put(late.id(), 10) // this call waits until the calls in progress end
		late.take().receive()
		m.done()
		time.Sleep(10 * time.Second)
		s.check(t, 0)
	})
}

// TestTurnsEnd checks that a call whose context ends while it waits uses up no slot.
func TestTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 2 * peering.MaxCalls {
			group.Go(func() {
				if turn := c.acquire(ctx, peering.UnknownPeers); turn != nil {
					<-ctx.Done()
					c.release(turn)
				}
			})
		}
		synctest.Wait()
		cancel()
		group.Wait()
		if got := c.Waiting(); got != 0 {
			t.Errorf("%d wait whose context has ended", got)
		}
		for range peering.MaxCallsOfKind {
			if c.acquire(t.Context(), peering.UnknownPeers) == nil {
				t.Fatal("no turn")
			}
		}
	})
}

// TestTheWaitForACallEnds checks what ends the wait for a slot: Disconnect, Recall, a call from the
// peer, and the end of the interface.
func TestTheWaitForACallEnds(t *testing.T) {
	inSilence(t, func(t *testing.T, n *node, s *silence) {
		n.putToMutes(0, peering.MaxCallsOfKind)
		synctest.Wait()
		out := n.putToMutes(1000, 3)
		caller := newPuppet(n).listen()
		call := n.put(caller.id(), 10)
		n.checkWaiting(4)

		n.Disconnect(mute(1000).NID)
		out[0].fails(lnd.StatusLocalAborted)
		n.checkWaiting(3)

		n.Recall(mute(1001).NID, func(*lnd.Tx) bool { return true })
		out[1].fails(lnd.StatusLocalInterrupt)
		time.Sleep(time.Second) // the reaper runs once a second
		n.checkWaiting(2)

		caller.connect(protocol.Control).receive()
		call.done()
		s.check(t, peering.MaxCallsOfKind)

		n.stop()
		out[2].fails(lnd.StatusRemoteDropped)
		s.check(t, 0)
	})
}

// TestAPeerThatIsLostBetweenCalls: given a peer whose connections end while the next call to it is
// postponed, when no message waits, then PeerDown is reported.
func TestAPeerThatIsLostBetweenCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		n := start(t, func(c *Config) {
			c.Network, c.SockTimeout, c.Logger = m, 10*time.Second, nil
			c.MinReconnect, c.MaxReconnect = 30*time.Second, time.Minute
		})
		p := newPuppet(n).listen()
		s := n.put(p.id(), 10)
		w := p.take()
		w.receive()
		s.done()
		p.decline() // BULK_IN
		_ = w.Close()
		time.Sleep(5 * time.Second)
		if len(n.down) != 1 {
			t.Errorf("%d times PeerDown, want 1", len(n.down))
		}
	})
}
