package netns

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/node"
)

// rails starts two parties on networks 0 and 1, tcp and tcp1.
func rails(t *testing.T, c *configuration) (w *world, a, b *loadedDaemon) {
	t.Helper()
	w = newWorld(t, 2)
	x, y := w.host(t, 0, 1), w.host(t, 0, 1)
	return w, x.startLoaded(t, c), y.startLoaded(t, c)
}

// mixed is the load for rails and routers. It has messages of all sizes that drivers treat differently,
// but not so many that the machine is busy.
var mixed = Plan{
	Sizes: []int{64, 4096, 1024, 20000, 0, 512, 65536, 2048, 1, 900, 3000, 8192, 300, 16384, 96},
	Rate:  100, Window: 1 << 14,
}

// Given two nodes on two common networks, when each sends to one NID of the other, then nothing fails,
// and both rails carry about the same number of messages: on a busy machine, the one with more free credits carries more.
func TestTwoRails(t *testing.T) {
	t.Parallel()
	_, a, b := rails(t, &configuration{patient: true})
	plan := mixed
	plan.Rate = 400
	ab, ba := a.begin(t, b, plan), b.begin(t, a, plan)
	ab.awaitProgress(t, 100, noticePatience)
	ba.awaitProgress(t, 100, noticePatience)
	before := [2][2]traffic{{a.traffic(t, 0), a.traffic(t, 1)}, {b.traffic(t, 0), b.traffic(t, 1)}}
	ab.awaitProgress(t, 1000, noticePatience)
	ba.awaitProgress(t, 1000, noticePatience)
	ab.end(t).wantNoFailure(t)
	ba.end(t).wantNoFailure(t)
	for k, p := range []*loadedDaemon{a, b} {
		tcp, tcp1 := p.traffic(t, 0).since(before[k][0]), p.traffic(t, 1).since(before[k][1])
		t.Logf("%s: sent %d and %d, received %d and %d", p.host.nid(), tcp.sent, tcp1.sent, tcp.received, tcp1.received)
		wantEven(t, "sent", tcp.sent, tcp1.sent)
		wantEven(t, "received", tcp.received, tcp1.received)
		p.wantRest(t)
	}
	a.Stop(t)
	b.Stop(t)
}

// wantEven checks that two rails carried the same number of messages, within 20 % of the mean.
func wantEven(t *testing.T, what string, x, y uint64) {
	t.Helper()
	if mean := (x + y) / 2; max(x, y)-min(x, y) > mean/5 {
		t.Errorf("%s: %d and %d messages, want the same within 20 %%", what, x, y)
	}
}

func (r *Report) wantNoFailure(t *testing.T) {
	t.Helper()
	for k, f := range r.Failures {
		if k == 5 {
			break
		}
		t.Errorf("operation failed: %s", &f)
	}
	if r.Slowest > transaction {
		t.Errorf("an operation took %v, want %v at most", r.Slowest, transaction)
	}
}

// wantCarrying waits until both rails carry messages of the load.
func (l *load) wantCarrying(t *testing.T, patience time.Duration) {
	t.Helper()
	for network := range 2 {
		before := l.from.traffic(t, network)
		daemontest.Within(t, patience, fmt.Sprintf("%s carries", lnetOf(network)), func() error {
			now := l.from.traffic(t, network).since(before)
			if now.sent < 20 || now.received < 20 {
				return fmt.Errorf("%d sent and %d received", now.sent, now.received)
			}
			return nil
		})
	}
}

// Given load over two rails, when one link loses its carrier for less than T, on one end or on both, then
// no PUT+ACK and no GET fails, and none takes longer than a transaction timeout. The other rail carries
// traffic during the cut, and both do afterwards.
func TestShortCut(t *testing.T) {
	t.Parallel()
	_, a, b := rails(t, &configuration{patient: true})
	ab, ba := a.begin(t, b, mixed), b.begin(t, a, mixed)
	ab.wantCarrying(t, noticePatience)
	for _, cut := range [][]*host{{a.host, b.host}, {a.host}} {
		before := ab.look(t).done()
		pull(t, 1, cut...)
		pass(t, cutDuration)
		plug(t, 1, cut...)
		if n := ab.look(t).done() - before; n < 20 {
			t.Errorf("%d operations ended well while the link was cut, want more", n)
		}
		ab.wantCarrying(t, noticePatience)
		ba.wantCarrying(t, noticePatience)
	}
	for _, l := range []*load{ab, ba} {
		r := l.end(t)
		r.wantNoFailure(t)
		r.wantNoStall(t)
	}
	a.wantRest(t)
	b.wantRest(t)
	a.Stop(t)
	b.Stop(t)
}

// cutDuration is much shorter than T, which is (60-1)/2 s there. TCP retransmits within the same time after
// the repair.
const cutDuration = 2 * time.Second

// Given load over two rails, when one of them is cut for longer than T, then operations in progress on it
// fail with the right error, and traffic moves to the other rail within the time limit of each end. After
// that nothing fails until the repair. Then both rails carry traffic again and nothing fails.
func TestLongCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cut  func(t *testing.T, w *world, a, b *host) (mend func())
		// noticedA and noticedB are the time limits for each end to stop using the rail.
		noticedA, noticedB time.Duration
	}{
		{"carrier at both ends", func(t *testing.T, _ *world, a, b *host) func() {
			pull(t, 1, a, b)
			return func() { plug(t, 1, a, b) }
		}, told, told},
		{"carrier at one end", func(t *testing.T, _ *world, a, _ *host) func() {
			pull(t, 1, a)
			return func() { plug(t, 1, a) }
		}, told, moved},
		{"silent", func(t *testing.T, w *world, _, _ *host) func() {
			return w.blackHole(t, 1)
		}, moved, moved},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, a, b := rails(t, &configuration{})
			loads := map[*load]time.Duration{a.begin(t, b, mixed): c.noticedA, b.begin(t, a, mixed): c.noticedB}
			for l := range loads {
				l.wantCarrying(t, noticePatience)
			}
			mend := c.cut(t, w, a.host, b.host)
			begin := time.Now()
			pass(t, max(c.noticedA, c.noticedB)+time.Second)
			idle := [2]traffic{a.traffic(t, 1), b.traffic(t, 1)}
			pass(t, tt)
			for k, p := range []*loadedDaemon{a, b} {
				// Recovery pings still use the rail.
				if n := p.traffic(t, 1).since(idle[k]).sent; n > 10 {
					t.Errorf("%s sent %d messages by the rail that is cut, in %v", p.host.nid(), n, tt)
				}
			}
			repaired := time.Now()
			mend()
			for l := range loads {
				l.wantCarrying(t, recoveryPatience)
			}
			t.Logf("both rails carry %v after the repair", time.Since(repaired).Round(time.Millisecond))
			for l := range loads {
				l.from.wantHealthy(t, recoveryPatience, l.to.host)
			}
			both := time.Now()
			t.Logf("health is back %v after the repair", both.Sub(repaired).Round(time.Millisecond))
			for l := range loads {
				l.awaitProgress(t, 200, noticePatience)
			}
			for l, noticed := range loads {
				r := l.end(t)
				r.wantCleanFailures(t)
				r.wantNoStall(t)
				if len(r.Failures) > 0 {
					t.Logf("the last that failed began %v after the cut", r.lastBegun().Sub(begin).Round(time.Millisecond))
				}
				r.wantNoneFailed(t, "once the cut must have been noticed", begin.Add(noticed), repaired)
				r.wantNoneFailed(t, "once both rails are well again", both, time.Now())
			}
			for _, p := range []*loadedDaemon{a, b} {
				p.wantRest(t)
				c := p.counters(t)
				t.Logf("%s: %d resent, %d with success; local errors %d, remote errors %d, network timeouts %d, no answer in time %d",
					p.host.nid(), c.Resent, c.SuccessfulResends, c.LocalErrors, c.RemoteErrors, c.NetworkTimeouts, c.ResponseTimeouts)
			}
			a.Stop(t)
			b.Stop(t)
		})
	}
}

// deadRail is a way to cut the rail of network 1.
type deadRail struct {
	name string
	cut  func(t *testing.T, w *world, a, b *host) (mend func())
	// Reports of a and b about the other's NI; empty: not required.
	troubleA, troubleB string
}

var deadRails = []deadRail{
	{"near end", func(t *testing.T, _ *world, a, _ *host) func() {
		pull(t, 1, a)
		return func() { plug(t, 1, a) }
	}, "", "link down"},
	{"far end", func(t *testing.T, _ *world, _, b *host) func() {
		pull(t, 1, b)
		return func() { plug(t, 1, b) }
	}, "link down", ""},
	{"middle", func(t *testing.T, w *world, _, _ *host) func() {
		return w.blackHole(t, 1)
	}, "not answering since ", "not answering since "},
}

// Given load over two rails, when one is cut, at any place, for much less than T, then both ends
// soon report why they avoid it, and new operations use the other one and succeed. After the repair
// both carry traffic, no operation has failed, and no connection has been closed.
func TestDeadRail(t *testing.T) {
	t.Parallel()
	for _, c := range deadRails {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, a, b := rails(t, &configuration{patient: true})
			ab, ba := a.begin(t, b, mixed), b.begin(t, a, mixed)
			ab.wantCarrying(t, noticePatience)
			ba.wantCarrying(t, noticePatience)
			closed := [2]uint64{a.closedConnections(t, 1), b.closedConnections(t, 1)}
			mend := c.cut(t, w, a.host, b.host)
			begun := time.Now()
			a.wantTrouble(t, b.host.nidOn(1), c.troubleA)
			b.wantTrouble(t, a.host.nidOn(1), c.troubleB)
			known := time.Now()
			t.Logf("both ends know %v after the cut", known.Sub(begun).Round(time.Millisecond))
			idle := [2]traffic{a.traffic(t, 1), b.traffic(t, 1)}
			ab.awaitProgress(t, 200, noticePatience)
			ba.awaitProgress(t, 200, noticePatience)
			for k, p := range []*loadedDaemon{a, b} {
				// Recovery pings still use the rail.
				if n := p.traffic(t, 1).since(idle[k]).sent; n > 20 {
					t.Errorf("%s sent %d messages by the rail that is cut", p.host.nid(), n)
				}
			}
			mend()
			a.wantTrouble(t, b.host.nidOn(1), "none")
			b.wantTrouble(t, a.host.nidOn(1), "none")
			ab.wantCarrying(t, recoveryPatience)
			ba.wantCarrying(t, recoveryPatience)
			for k, p := range []*loadedDaemon{a, b} {
				if now := p.closedConnections(t, 1); now != closed[k] {
					t.Errorf("%s closed %d connections", p.host.nid(), now-closed[k])
				}
			}
			for _, l := range []*load{ab, ba} {
				r := l.end(t)
				if len(r.Failures) > 0 {
					t.Errorf("%d operations failed; one is %s", len(r.Failures), &r.Failures[0])
				}
			}
			for _, p := range []*loadedDaemon{a, b} {
				p.wantRest(t)
				p.Stop(t)
			}
		})
	}
}

// Given LNet selftest in a closed loop over two rails, when one is cut at any place, then requests
// continue on the other one as soon as both ends have detected the cut, which they do before the repair.
// Until then all requests in progress may be delayed. The nodes answer throughout. After the repair all
// requests end without an error.
func TestClosedLoopOverADeadRail(t *testing.T) {
	t.Parallel()
	for _, c := range deadRails {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, a, b := rails(t, &configuration{patient: true, selftest: longTimeouts})
			clients, servers := []*loadedDaemon{a}, []*loadedDaemon{b}
			u := a.user()
			u.begin(t, clients, servers)
			u.addTests(t, "b", "--concurrency 8 --from c --to s ping", "--concurrency 8 --from c --to s brw write check=full size=4K")
			u.run(t, "b")
			for network := range 2 {
				before := a.traffic(t, network)
				daemontest.Within(t, noticePatience, lnetOf(network)+" carries", func() error {
					if n := a.traffic(t, network).since(before).sent; n < 200 {
						return fmt.Errorf("%d messages", n)
					}
					return nil
				})
			}
			mend := c.cut(t, w, a.host, b.host)
			known := func() {
				a.wantTrouble(t, b.host.nidOn(1), c.troubleA)
				if c.troubleA == "" { // otherwise b gets no notice: it detects the cut only if an answer is in transit
					b.wantTrouble(t, a.host.nidOn(1), c.troubleB)
				}
			}
			known()
			for range 3 {
				a.wantRequests(t, 1000)
				u.wantNoErrors(t)
			}
			known()
			mend()
			a.wantTrouble(t, b.host.nidOn(1), "none")
			b.wantTrouble(t, a.host.nidOn(1), "none")
			a.wantRequests(t, 1000)
			u.wantStop(t, "b")
			u.wantStopped(t, recoveryPatience, "b")
			u.wantNoErrors(t)
			u.endSession(t, []*loadedDaemon{a, b})
			for _, p := range []*loadedDaemon{a, b} {
				if n := p.selftest(t).Counters; n.Errors+n.Expired > 0 {
					t.Errorf("%s counts %+v", p.host.nid(), n)
				}
				p.wantRest(t)
				p.Stop(t)
			}
		})
	}
}

// wantTrouble waits until the reported trouble of a peer's NID begins with the text or, for "none", until
// none is reported.
func (p *loadedDaemon) wantTrouble(t *testing.T, nid, begins string) {
	t.Helper()
	daemontest.Within(t, noticePatience, "trouble of "+nid, func() error {
		got := p.trouble(t, nid)
		if !strings.HasPrefix(got, begins) && (begins != "none" || got != "") {
			return fmt.Errorf("%q, want %q", got, begins)
		}
		return nil
	})
}

// wantHealthy waits until recovery pings have restored the health of the daemon's NIs and those of a peer.
func (p *loadedDaemon) wantHealthy(t *testing.T, patience time.Duration, peer *host) {
	t.Helper()
	daemontest.Within(t, patience, "health of "+peer.nid(), func() error {
		for _, network := range peer.networks {
			ours, theirs := p.ni(t, network).Health.Value, p.health(t, peer.nidOn(network))
			if ours != node.MaxHealth || theirs != node.MaxHealth {
				return fmt.Errorf("on %s ours is %d, theirs %d", lnetOf(network), ours, theirs)
			}
		}
		return nil
	})
}

// recoveryPatience is the time limit after a repair for health to recover. The last requests without an
// answer lower it when they time out. After that a few pings are necessary.
const recoveryPatience = answersDown + noticePatience

// told is the time limit for an NI without carrier to be avoided. The kernel reports the loss at once.
const told = 2 * time.Second

// moved is how long traffic may be sent into a black hole: until its connections are detected as dead and
// then, because written data counts as sent, until the attempt to reconnect has failed too.
const moved = connectionsDown + tt + 3*time.Second

// lastBegun returns the start time of the last operation that failed.
func (r *Report) lastBegun() (last time.Time) {
	for _, f := range r.Failures {
		if f.Begun.After(last) {
			last = f.Begun
		}
	}
	return last
}

// wantCleanFailures checks that operations failed in time, and for an expected reason. more are
// additional reasons besides those of a broken rail.
func (r *Report) wantCleanFailures(t *testing.T, more ...string) {
	t.Helper()
	reasons := append(slices.Clone(more), errNoAnswer.Error(), lnd.StatusLocalError.String(), lnd.StatusLocalDropped.String(),
		lnd.StatusRemoteError.String(), lnd.StatusRemoteDropped.String(), lnd.StatusRemoteTimeout.String(), lnd.StatusNetworkTimeout.String())
	bad := 0
	for _, f := range r.Failures {
		took := f.Ended.Sub(f.Begun)
		if took <= answersDown+lateness && slices.Contains(reasons, f.Cause) {
			continue
		}
		if bad++; bad <= 5 {
			t.Errorf("not a clean failure (at most %v, and one of %q): %s", answersDown, reasons, &f)
		}
	}
	if bad > 0 {
		t.Errorf("%d failures were not clean", bad)
	}
}

// wantNoStall checks that operations succeeded at all times: those with a path must not wait for those
// without.
func (r *Report) wantNoStall(t *testing.T) {
	t.Helper()
	if most := tt * 3 / 4; r.Stall > most {
		t.Errorf("nothing ended well for %v, want %v at most", r.Stall, most)
	}
}

// wantNoneFailed checks that no operation that began in a span failed.
func (r *Report) wantNoneFailed(t *testing.T, when string, from, until time.Time) {
	t.Helper()
	failed := r.begunBetween(from, until)
	if len(failed) > 0 {
		t.Errorf("%s: %d operations failed that began then; one is %s, begun %v after", when, len(failed), &failed[0],
			failed[0].Begun.Sub(from).Round(time.Millisecond))
	}
}
