package socklnd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
)

// TestAStallIsToldWhenItIsNews: given a peer that does not answer, PeerStalled is called once,
// again after each further message, and when the stall is over.
func TestAStallIsToldWhenItIsNews(t *testing.T) {
	inSilence(t, func(t *testing.T, n *node, _ *silence) {
		begin := time.Now()
		peer := mute(1)
		told := func(when string, want ...stall) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, n.toldOfStalls(), cmp.AllowUnexported(stall{}), equalNIDs); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		n.put(peer, 0)
		time.Sleep(3 * time.Second)
		told("for a while", stall{peer.NID, begin})
		for range 2 {
			n.put(peer, 0)
			time.Sleep(2 * time.Second)
			told("with one more message", stall{peer.NID, begin})
		}
		n.Recall(peer.NID, func(*lnd.Tx) bool { return true })
		time.Sleep(2 * time.Second)
		n.toldOfStalls() // recalled messages may be sent again, so calls until now do not matter
		time.Sleep(time.Minute)
		told("when nothing is left", stall{peer.NID, time.Time{}})
	})
}

// silent is a stream whose peer acknowledges nothing. TCP has noticed that, and the peer's last
// sign of life was an hour ago.
type silent struct {
	Stream
	unacked int
}

func (s *silent) Unacked() int                  { return s.unacked }
func (s *silent) Trying() (bool, time.Duration) { return s.unacked > 0, time.Hour }

// TestAStallAfterIdleness: given a message that is sent just before the reaper looks, long after
// its previous look, then the time until a stall begins with that look, whether there was traffic
// before or not.
func TestAStallAfterIdleness(t *testing.T) {
	for _, before := range []int{0, 100} {
		s := &silent{}
		i := &Interface{driver: &Driver{config: DefaultConfig()}}
		i.options.Store(&Config{SockTimeout: defaultTimeout})
		c := &conn{stream: s, peer: &peer{i: i}}
		now := time.Unix(0, 0)
		look := func(after time.Duration) bool {
			t.Helper()
			now = now.Add(after)
			if _, err := c.check(now); err != nil {
				t.Fatal(err)
			}
			return !c.progress.stalled.IsZero()
		}
		look(0)
		c.sent.Add(uint64(before)) // acknowledged already
		look(time.Hour)
		c.sent.Add(100)
		s.unacked = 100
		if look(time.Second) || look(peering.StallAfter-1) {
			t.Errorf("%d bytes before: stalled within %v of being seen", before, peering.StallAfter)
		}
		if !look(1) {
			t.Errorf("%d bytes before: not stalled after %v", before, peering.StallAfter)
		}
	}
}

// TestAConnectionThatAnswersAgainHasItsWholeTime: given a peer that did not answer for nearly the
// LND timeout, when it answers again, then each running timer of its connections starts again with
// the whole timeout. Timers that were not running stay off. A look without news changes nothing.
func TestAConnectionThatAnswersAgainHasItsWholeTime(t *testing.T) {
	inSilence(t, func(t *testing.T, n *node, _ *silence) {
		p := &peer{i: n.Interface}
		p.ID = mute(1)
		begin := time.Now()
		due := begin.Add(-9 * time.Second)
		both := &conn{peer: p, progress: progress{receivedAt: due, ackAt: due}}
		receiving := &conn{peer: p, progress: progress{receivedAt: due}}
		sending := &conn{peer: p, progress: progress{ackAt: due}}
		idle := &conn{peer: p}
		conns := []*conn{both, receiving, sending, idle}
		look := func(when string, now, since, received, acked time.Time, news ...stall) {
			t.Helper()
			p.checkStall(now, conns, since)
			for _, c := range conns {
				c.progress.restartIf(p.linkUps.Load(), now)
			}
			if diff := cmp.Diff(news, n.toldOfStalls(), cmp.AllowUnexported(stall{}), equalNIDs); diff != "" {
				t.Errorf("%s: reports of a stall (-want +got):\n%s", when, diff)
			}
			var none time.Time
			for k, want := range [][2]time.Time{{received, acked}, {received, none}, {none, acked}, {none, none}} {
				if s := conns[k].progress; !s.receivedAt.Equal(want[0]) || !s.ackAt.Equal(want[1]) {
					t.Errorf("%s: connection %d: due since %v and %v, want %v and %v", when, k, s.receivedAt, s.ackAt, want[0], want[1])
				}
			}
		}
		look("answering", begin, time.Time{}, due, due)
		since := begin.Add(-8 * time.Second)
		look("not answering", begin, since, due, due, stall{p.ID.NID, since})
		back := begin.Add(time.Second / 2)
		look("answering again", back, time.Time{}, back, back, stall{p.ID.NID, time.Time{}})
		look("still answering", back.Add(time.Second), time.Time{}, back, back)
	})
}
