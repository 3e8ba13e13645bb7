package peering

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// Each story is the checks of one peer, one per second, and what each of them reports.
func TestStall(t *testing.T) {
	var none time.Time
	type check struct {
		conns  int
		silent int // since that second; 0: the connections make progress
		alive  int
		sent   uint64
		waits  int // since that second; 0: no message waits
		busy   bool
		news   StallChange
		since  int
	}
	for name, story := range map[string][]check{
		"a connection that recovers": {
			{conns: 1},
			{conns: 1, silent: 1, sent: 5, news: StallBegun, since: 1},
			{conns: 1, silent: 1, sent: 5},
			{conns: 1, silent: 1, sent: 6, news: StallMore, since: 1},
			{conns: 1, silent: 3, sent: 6},
			{conns: 1, sent: 6, news: StallEnded},
			{conns: 1, sent: 7},
		},
		"a message that waits": {
			{},
			{waits: 2},
			{waits: 2, news: StallBegun, since: 2},
			{waits: 2},
			{waits: 4, news: StallMore, since: 2}, // another message, and the first one was recalled
			{conns: 1, news: StallEnded},
		},
		"a failed attempt does not end a stall": {
			{},
			{waits: 1, news: StallBegun, since: 1},
			{}, {}, {}, // nothing is left
			{busy: true}, // an attempt to connect
			{}, {}, {}, {},
			{news: StallLapsed},
			{},
		},
		"signs of life": {
			{conns: 1, silent: 1},
			{conns: 1, silent: 1, alive: 1, news: StallBegun, since: 1},
			{conns: 1, silent: 1, alive: 3, news: StallEnded},
			{conns: 1, silent: 1, alive: 3, news: StallBegun, since: 3},
		},
		"messages wait beside a connection": {
			{conns: 1, waits: 1}, {conns: 1, waits: 1}, {conns: 1, waits: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s Stall
			m := new(lnd.Tx)
			for k, c := range story {
				w := new(Waiting)
				if c.waits > 0 {
					w.Add(m, at(c.waits))
				}
				look := Look{
					Now: at(k + 1), Conns: c.conns, Sent: c.sent, Waiting: w, Connected: c.conns > 0,
					Idle: c.conns == 0 && c.waits == 0 && !c.busy, Lapse: 4 * time.Second,
				}
				if c.silent > 0 {
					look.Silent = at(c.silent)
				}
				if c.alive > 0 {
					look.Alive = at(c.alive)
				}
				want := none
				if c.since > 0 {
					want = at(c.since)
				}
				if news, since := s.Check(&look); news != c.news || !since.Equal(want) {
					t.Errorf("check %d: news %d since %v, want %d since %v", k+1, news, since, c.news, want)
				}
			}
		})
	}
}

// The same message at another place of the queue is no news; another one is.
func TestMoreHasBeenSent(t *testing.T) {
	var s Stall
	var w Waiting
	first, second := new(lnd.Tx), new(lnd.Tx)
	judge := func(now int) StallChange {
		news, _ := s.Check(&Look{Now: at(now), Waiting: &w})
		return news
	}
	w.Add(first, at(0))
	w.Add(second, at(0))
	var got [4]StallChange
	got[0] = judge(1)
	w.Expire(at(-1))
	w.Recall(func(m *lnd.Tx) bool { return m == first })
	got[1] = judge(2)
	w.Add(first, at(2))
	got[2], got[3] = judge(3), judge(4)
	if want := [4]StallChange{StallBegun, StallUnchanged, StallMore, StallUnchanged}; got != want {
		t.Errorf("news %v, want %v", got, want)
	}
}

// TestSilentFor checks that the time since the peer's last sign of life counts as silence, but not time
// in which this process did not run.
func TestSilentFor(t *testing.T) {
	now := at(100)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct{ since, alive, want time.Time }{
		{},
		{alive: ago(0)},
		{since: ago(5 * time.Second), want: ago(5 * time.Second)},
		{since: ago(5 * time.Second), alive: ago(9 * time.Second), want: ago(5 * time.Second)},
		{since: ago(5 * time.Second), alive: ago(2 * time.Second), want: ago(2 * time.Second)},
		{since: ago(5 * time.Second), alive: ago(StallAfter), want: ago(StallAfter)},
		{since: ago(5 * time.Second), alive: ago(StallAfter - 1)},
		{since: ago(StallAfter - 1)},
	} {
		if got := silentFor(c.since, c.alive, now); !got.Equal(c.want) {
			t.Errorf("since %v, alive %v: %v, want %v", c.since, c.alive, got, c.want)
		}
	}
}

// A pause of this process delays the beginning of a stall, and does not end one.
func TestStallAndAPauseOfThisProcess(t *testing.T) {
	var s Stall
	var w Waiting
	begin := time.Unix(1000, 0)
	judge := func(after, resumed time.Duration) StallChange {
		look := Look{Now: begin.Add(after), Conns: 1, Connected: true, Silent: begin, Resumed: begin.Add(resumed), Waiting: &w}
		news, _ := s.Check(&look)
		return news
	}
	for _, step := range []struct {
		after, resumed time.Duration
		want           StallChange
	}{
		{2 * time.Second, 2 * time.Second, StallUnchanged},
		{4 * time.Second, 2 * time.Second, StallBegun},
		{10 * time.Second, 10 * time.Second, StallUnchanged},
	} {
		if got := judge(step.after, step.resumed); got != step.want {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
}
