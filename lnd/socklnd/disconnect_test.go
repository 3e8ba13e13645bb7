package socklnd

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// TestASendAfterDisconnectDoesNotWaitForAPauseToEnd checks that Disconnect ends the pause after a
// race together with the attempt. A message that is sent afterwards starts a new attempt at once.
func TestASendAfterDisconnectDoesNotWaitForAPauseToEnd(t *testing.T) {
	n := start(t, func(c *Config) { c.MinReconnect, c.MaxReconnect = time.Hour, time.Hour })
	p := newPuppet(n).listen()
	before := n.put(p.id(), 10)
	p.decline()
	n.awaitTable("pausing", func() bool {
		peer := n.Find(p.id())
		peer.Lock()
		defer peer.Unlock()
		return peer.opening && !peer.Backoff.Ready(time.Now())
	})
	n.Disconnect(p.nid())
	after := n.put(p.id(), 10)
	before.fails(lnd.StatusLocalAborted)
	p.take().receive()
	after.done()
}

// TestASendAfterDisconnectDoesNotWaitForTheBackOff checks that Disconnect ends the pause after
// failed attempts, both while the peer is in the table and after it has left it.
func TestASendAfterDisconnectDoesNotWaitForTheBackOff(t *testing.T) {
	for _, later := range []time.Duration{0, 3 * time.Second} {
		inBubble(t, func(t *testing.T, m *memoryNetwork) {
			n := start(t, func(c *Config) { m.use(c); c.MinReconnect, c.MaxReconnect = time.Hour, time.Hour })
			p := newPuppet(n)
			n.put(p.id(), 10).fails(lnd.StatusRemoteDropped)
			await(t, n.down, "PeerDown")
			time.Sleep(later)
			p.listen()
			n.put(p.id(), 10).fails(lnd.StatusRemoteError)
			n.Disconnect(p.nid())
			s := n.put(p.id(), 10)
			p.take().receive()
			s.done()
		})
	}
}

// TestTheLastConnectionEndsWhileACallerIsJudged checks when PeerDown is reported if the last
// connection ends while a caller is being judged: once when the caller has been refused, never if
// it is accepted.
//
// socklnd 15.4 (1)
func TestTheLastConnectionEndsWhileACallerIsJudged(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		inBubble(t, func(t *testing.T, m *memoryNetwork) {
			n := start(t, m.use)
			p := newPuppet(n)
			w := p.connect(protocol.Control)
			n.awaitSettled(p.id())
			peer, err := n.Caller(p.id(), netip.Addr{})
			if err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			synctest.Wait()
			downs := len(n.down)
			if accepted {
				p.connect(protocol.Control)
				synctest.Wait()
			}
			peer.accepted()
			n.Group.Done()
			synctest.Wait()
			want := 1
			if accepted {
				want = 0
			}
			if got := len(n.down); downs != 0 || got != want {
				t.Errorf("accepted: %v: %d notices of the loss before, %d after, want 0 and %d", accepted, downs, got, want)
			}
		})
	}
}

// TestMessagesThatExpireDuringAPause: given a peer that refuses because it is going to connect, but
// does not, waiting messages fail after T. PeerDown is reported before they fail. If a link comes
// back during the wait, T starts again.
//
// socklnd 14 (3), 15.4 (1)
func TestMessagesThatExpireDuringAPause(t *testing.T) {
	for _, linkBack := range []bool{false, true} {
		inBubble(t, func(t *testing.T, m *memoryNetwork) {
			const timeout = 10 * time.Second
			n := start(t, func(c *Config) {
				m.use(c)
				c.SockTimeout, c.MinReconnect, c.MaxReconnect = timeout, time.Hour, time.Hour
			})
			p := newPuppet(n).listen()
			s := n.put(p.id(), 10)
			begin := time.Now()
			p.decline()
			time.Sleep(timeout * 3 / 4)
			if linkBack {
				begin = time.Now()
				n.LinkBack(p.nid())
			}
			s.fails(lnd.StatusNetworkTimeout)
			if d := time.Since(begin); d < timeout || d > timeout+time.Second {
				t.Errorf("link back: %v: failed after %v, T is %v", linkBack, d, timeout)
			}
			if len(n.down) != 1 {
				t.Errorf("%d notices of the loss when the message failed, want 1", len(n.down))
			}
		})
	}
}

// TestAnAttemptThatFailsDuringDisconnect checks that an attempt which has failed, but whose failure is only
// processed after Disconnect, does not fail a message that is sent afterwards.
func TestAnAttemptThatFailsDuringDisconnect(t *testing.T) {
	var once sync.Once
	during := func() {}
	n := start(t, func(c *Config) {
		c.MinReconnect, c.MaxReconnect = time.Hour, time.Hour
		c.Logger = slog.New(&logHook{c.Logger.Handler(), func(text string) {
			if text == "connect failed" {
				once.Do(during)
			}
		}})
	})
	p := newPuppet(n)
	var after *sending
	during = func() { // nothing listened yet
		p.listen()
		n.Disconnect(p.nid())
		after = n.put(p.id(), 10)
	}
	n.put(p.id(), 10).fails(lnd.StatusRemoteDropped)
	p.take().receive()
	after.done()
}

// logHook calls back before each line.
type logHook struct {
	slog.Handler
	before func(text string)
}

func (h *logHook) Handle(ctx context.Context, r slog.Record) error {
	h.before(r.Message)
	return h.Handler.Handle(ctx, r)
}

func (h *logHook) WithAttrs(a []slog.Attr) slog.Handler {
	return &logHook{h.Handler.WithAttrs(a), h.before}
}
