//go:build !race

// These tests count the lines of ten minutes of trouble. The race detector would find in them what it finds in tests with
// little trouble.

package node_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
)

// Given a rail whose link goes down and up every two seconds, and messages to all peers,
// when that lasts for ten minutes, then there are few lines, and they describe the state
// of the link and the peers. With two rails it depends on the order of goroutines which peers
// do not answer for a moment. Each of them can have two lines a minute: the failure and the recovery.
func TestFewLinesOfAFlappingRail(t *testing.T) {
	for _, tt := range []struct{ rails, peers, most int }{{1, 1, 70}, {2, 1, 70}, {2, 8, 180}} {
		t.Run(fmt.Sprint(tt.rails, " rails, ", tt.peers, " peers"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTroubled(t, tt.rails, tt.peers)
				device := w.host.Interface("eth0")
				w.load(t, 200*time.Millisecond, 2*time.Second, w.nids(), func(k int) { device.SetUp(k%2 == 1) })
				w.told(t, 10, tt.most)
				if !strings.Contains(w.log.String(), `msg="link changed" ni=10.0.0.1@tcp link=down`) {
					t.Error("the log does not tell of the link")
				}
			})
		})
	}
}

// Given a path to a peer that is cut and restored every two seconds somewhere in the
// network.
func TestFewLinesOfAFlappingPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTroubled(t, 2, 4)
		here, there := w.host.Interface("eth0"), w.peers[0].Interface("eth0")
		w.load(t, 200*time.Millisecond, 2*time.Second, w.nids(), func(k int) {
			if k%2 == 0 {
				w.Partition(here, there, simlnd.Both)
			} else {
				w.Heal(here, there, simlnd.Both)
			}
		})
		w.told(t, 5, 40)
	})
}

// Given connections to all peers that are reset every two seconds.
func TestFewLinesOfConnectionsThatBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTroubled(t, 1, 8)
		w.load(t, 200*time.Millisecond, 2*time.Second, w.nids(), func(int) {
			for _, p := range w.peers {
				w.Break(w.host, p)
			}
		})
		w.told(t, 5, 40)
	})
}

// Given a peer that refuses connections, because it does not listen or because it closes
// them at once, when messages are sent to it all the time, then there are few lines.
func TestFewLinesOfAPeerThatRefuses(t *testing.T) {
	for name, listens := range map[string]bool{"nobody listens": false, "it hangs up": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTroubled(t, 1, 1)
				other := w.Host("refuses", "10.0.9.9")
				if listens {
					l, err := other.Listen(netip.MustParseAddrPort("10.0.9.9:988"), 16)
					if err != nil {
						t.Fatal(err)
					}
					done := make(chan struct{})
					go func() {
						defer close(done)
						for {
							s, err := l.Accept()
							if err != nil {
								return
							}
							_ = s.Close()
						}
					}()
					defer func() { _ = l.Close(); <-done }()
				}
				to := parseNID(t, "10.0.9.9@tcp")
				w.load(t, 200*time.Millisecond, time.Minute, []lnet.NID{to, w.nids()[0]}, func(int) {})
				w.told(t, 10, 20)
			})
		})
	}
}

// Given a switch that fails, with three hundred peers behind it, when messages are sent
// to all of them, then there are few lines, and they contain the number of peers and name each of them.
func TestFewLinesOfADeadSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const peers = 300
		w := newTroubled(t, 1, peers)
		w.load(t, 10*time.Second, troubleLasts-time.Minute, w.nids(), func(k int) {
			for _, p := range w.peers {
				if k == 0 {
					w.Partition(w.host, p, simlnd.Both)
				} else {
					w.Heal(w.host, p, simlnd.Both)
				}
			}
		})
		w.told(t, 5, 160)
		if !regexp.MustCompile(` peers=(2\d\d|300) `).MatchString(w.log.String()) {
			t.Error("no line tells of most of them")
		}
		for _, nid := range w.nids() {
			if !regexp.MustCompile(`[ =\[]` + regexp.QuoteMeta(nid.String()) + `\b`).MatchString(w.log.String()) {
				t.Errorf("no line names %s", nid)
			}
		}
	})
}
