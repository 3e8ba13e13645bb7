package hosting

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/memory/shared"
)

var soakTime = flag.Duration("soak", 0, "how long the soak lasts; 0: 5s, and 30m with -long")

// soakers is the number of clients at a time.
const soakers = 16

// soak is the campaign of TestSoak.
type soak struct {
	t             *testing.T
	pause         time.Duration // of clients, after each message
	near, far     *daemon
	server        *guest
	dir           string
	over          time.Time
	life          atomic.Uint64
	kills, leaves atomic.Uint64

	mu     sync.Mutex // guards the rest
	cuts   []int64
	slow   time.Duration // longest time in which lnetd cleaned up after a killed client
	sample []pairOfFigures
}

type pairOfFigures struct{ near, far figures }

// Sixteen clients start, work, crash and end, while the connections between their lnetd and another
// one are cut. LNet guarantees nothing for a PUT whose connection breaks, even if it reported the
// sending as a success. All other messages that were reported as sent have arrived, no message has
// arrived twice, bulk data is correct, and at the end both lnetds hold what they held before.
//
// transport 8.5, 9.10
func TestSoak(t *testing.T) {
	length := *soakTime
	if length == 0 {
		length = 5 * time.Second
		if *long {
			length = 30 * time.Minute
		}
	}
	s := &soak{t: t, dir: testenv.SocketDir(t), pause: time.Millisecond}
	if length > time.Minute {
		s.pause *= 10 // each message leaves data on disk until the end
	}
	call, listen := freePort(t, address(1), address(2)), freePort(t, address(1), address(2))
	const extra = "global: {transaction_timeout: 20}\n"
	s.near = launch(t, settings{host: 1, listen: listen, call: call, extra: extra})
	s.far = launch(t, settings{host: 2, listen: listen, call: call, extra: extra})
	proxies := []*proxy{between(t, address(1), call, listen), between(t, address(2), call, listen)}
	at := s.far.nid + ":12345:34:1"
	s.server = enter(t, order{Role: "server", Socket: s.far.socket, At: at, File: filepath.Join(s.dir, "lives")})
	before := pairOfFigures{s.near.figures(), s.far.figures()}

	s.over = time.Now().Add(length)
	var work sync.WaitGroup
	for slot := range soakers {
		work.Go(func() { s.live(slot, at) })
	}
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { s.breakConnections(proxies, stop) })
	helpers.Go(func() { s.look(stop, max(length/200, 500*time.Millisecond)) })
	work.Wait()
	close(stop)
	helpers.Wait()
	s.overtakeAll(at)
	s.judge(before, length)
}

// live runs one client after the other.
func (s *soak) live(slot int, to string) {
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(slot)))
	longest := 8 * time.Second
	if time.Until(s.over) < time.Minute {
		longest = 2 * time.Second
	}
	for time.Now().Before(s.over) {
		g := s.enter(slot, to)
		time.Sleep(200*time.Millisecond + time.Duration(r.Int64N(int64(longest))))
		if r.IntN(2) == 0 {
			s.leaves.Add(1)
			g.Leave()
			continue
		}
		s.kills.Add(1)
		if err := g.Kill(); err != nil {
			s.t.Errorf("worker %d: %v\n%s", slot, err, g.Output())
		}
		since := time.Now()
		within(s.t, patience, "a killed client is gone", func() bool { return s.near.pids()[g.PID()] == 0 })
		s.mu.Lock()
		s.slow = max(s.slow, time.Since(since))
		s.mu.Unlock()
	}
}

// enter starts a client.
func (s *soak) enter(slot int, to string) *guest {
	life := s.life.Add(1)
	return enter(s.t, order{
		Role: "worker", ID: slot, Seed: life, Socket: s.near.socket, To: to, Pause: s.pause,
		At: fmt.Sprintf("%s:12345:35:%d", s.near.nid, slot+1), File: s.file(life),
	})
}

// overtakeAll runs a client until a message of it has arrived, when no connection is cut any more. If messages stopped
// arriving before that, they would not be overtaken, and any later cut would excuse them.
func (s *soak) overtakeAll(to string) {
	before := s.rest()
	g := s.enter(0, to)
	within(s.t, patience, "a message arrives after the last cut", func() bool {
		var report serverReport
		s.server.AskInto("report", "report", &report)
		return report.Messages > before.Messages
	})
	s.leaves.Add(1)
	g.Leave()
}

func (s *soak) file(life uint64) string { return filepath.Join(s.dir, fmt.Sprint(life)) }

// breakConnections cuts one connection from time to time, and sometimes all of them.
func (s *soak) breakConnections(proxies []*proxy, stop chan struct{}) {
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 77))
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second + time.Duration(r.Int64N(int64(6*time.Second)))):
		}
		now := shared.Now()
		all := r.IntN(4) == 0
		done := false
		for _, p := range proxies {
			for p.cut(r) {
				done = true
				if !all {
					break
				}
			}
			if done && !all {
				break
			}
		}
		if done {
			s.mu.Lock()
			s.cuts = append(s.cuts, now, shared.Now())
			s.mu.Unlock()
		}
	}
}

// look records figures from time to time.
func (s *soak) look(stop chan struct{}, each time.Duration) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(each):
			p := pairOfFigures{s.near.figures(), s.far.figures()}
			s.mu.Lock()
			s.sample = append(s.sample, p)
			s.mu.Unlock()
		}
	}
}

// judge compares the sent messages with the received ones, and the held resources with the earlier
// ones.
func (s *soak) judge(before pairOfFigures, length time.Duration) {
	t := s.t
	within(t, patience, "no client is left", func() bool { return len(s.near.pids()) == 0 && len(s.far.pids()) == 1 })
	report := s.rest()
	c := s.count()
	t.Logf("%v: %d lives, of which %d were killed (at most %v until all was free) and %d left; %d cuts", length, s.life.Load(), s.kills.Load(), s.slow, s.leaves.Load(), len(s.cuts)/2)
	t.Logf("%d messages reported as sent, %d as failed; lost when a connection was cut: %d, else: %d", c.sent, c.failed, c.excused, c.lost)
	t.Logf("the server: %+v", report)
	if report.Twice > 0 || report.Spoilt > 0 || report.Troubles > 0 || c.lost > 0 || c.sent == 0 || report.Bulk == 0 {
		t.Errorf("lost %d, twice %d, spoilt %d, troubles %d, last %q", c.lost, report.Twice, report.Spoilt, report.Troubles, report.Last)
	}
	s.near.wantHealthy()
	s.far.wantHealthy()
	s.flat(before)
}

// rest waits until no more messages arrive.
func (s *soak) rest() (report serverReport) {
	var last serverReport
	s.server.AskInto("report", "report", &report)
	for rest := time.Now(); time.Since(rest) < time.Second || last != report; {
		time.Sleep(200 * time.Millisecond)
		last = report
		s.server.AskInto("report", "report", &report)
		if last != report {
			rest = time.Now()
		}
	}
	return report
}

// soakCount is the number of messages that were reported as sent, and of them those that were lost when a connection
// was cut, or otherwise; and of messages that were reported as failed.
type soakCount struct{ sent, excused, lost, failed int }

// count reads what clients have sent and the server has received.
func (s *soak) count() (c soakCount) {
	lives, err := readLives(s.server.order.File)
	if err != nil {
		s.t.Fatal(err)
	}
	var arrived []arrival
	var missing []entry
	for life := uint64(1); life <= s.life.Load(); life++ {
		entries, err := readEntries(s.file(life))
		if err != nil {
			s.t.Error(err)
			continue
		}
		for _, e := range entries {
			var at int64
			if times := lives[life]; e.number < uint64(len(times)) {
				at = times[e.number]
			}
			switch {
			case e.errno != 0:
				c.failed++
				continue
			case at != 0:
				arrived = append(arrived, arrival{e.begun, e.ended, at})
			default:
				missing = append(missing, e)
			}
			c.sent++
		}
	}
	order := newSequence(arrived)
	for _, e := range missing {
		from, until := order.before(e.begun), order.after(e.ended)
		if s.cutBetween(from, until) {
			c.excused++
		} else if c.lost++; c.lost < 10 {
			s.t.Errorf("message %d was sent from %d to %d and has not arrived; no connection was cut between %d and %d, but at %d", e.number, e.begun, e.ended, from, until, s.cuts)
		}
	}
	return c
}

// arrival is when a message that has arrived was sent, from begun to ended, and when it arrived, in ns of
// CLOCK_MONOTONIC.
type arrival struct{ begun, ended, at int64 }

// sequence is the order of messages that have arrived. Small messages use one connection, in their order. So a
// message is lost because of a cut if there was one between two messages that arrived: one sent before it, and one
// sent after it.
type sequence struct {
	byEnd   []arrival // by the end of sending; begun is the latest so far
	byBegin []arrival // by the begin of sending; at is the earliest from here on
}

func newSequence(all []arrival) (q sequence) {
	q.byEnd = slices.SortedFunc(slices.Values(all), func(x, y arrival) int { return cmp.Compare(x.ended, y.ended) })
	for i := 1; i < len(all); i++ {
		q.byEnd[i].begun = max(q.byEnd[i].begun, q.byEnd[i-1].begun)
	}
	q.byBegin = slices.SortedFunc(slices.Values(all), func(x, y arrival) int { return cmp.Compare(x.begun, y.begun) })
	for i := len(all) - 2; i >= 0; i-- {
		q.byBegin[i].at = min(q.byBegin[i].at, q.byBegin[i+1].at)
	}
	return q
}

// before returns when the last message began that was sent before a time and arrived.
func (q *sequence) before(t int64) int64 {
	i := sort.Search(len(q.byEnd), func(i int) bool { return q.byEnd[i].ended >= t })
	if i == 0 {
		return math.MinInt64
	}
	return q.byEnd[i-1].begun
}

// after returns when the first message arrived that was sent after a time.
func (q *sequence) after(t int64) int64 {
	i := sort.Search(len(q.byBegin), func(i int) bool { return q.byBegin[i].begun > t })
	if i == len(q.byBegin) {
		return math.MaxInt64
	}
	return q.byBegin[i].at
}

// cutBetween reports whether a connection was cut between two times.
func (s *soak) cutBetween(from, to int64) bool {
	for i := 0; i < len(s.cuts); i += 2 {
		if s.cuts[i+1] >= from && s.cuts[i] <= to {
			return true
		}
	}
	return false
}

// flat fails the test if the lnetds hold more than before.
func (s *soak) flat(before pairOfFigures) {
	for _, d := range []struct {
		name   string
		daemon *daemon
		was    figures
		of     func(p *pairOfFigures) figures
	}{
		{"near", s.near, before.near, func(p *pairOfFigures) figures { return p.near }},
		{"far", s.far, before.far, func(p *pairOfFigures) figures { return p.far }},
	} {
		now := d.daemon.figures()
		s.t.Logf("%s, before: %v", d.name, d.was)
		s.t.Logf("%s, after:  %v", d.name, now)
		if now.memfds > d.was.memfds || now.memfdMaps > d.was.memfdMaps {
			s.t.Errorf("%s: memory of clients is left: %v", d.name, now)
		}
		// The descriptors and goroutines of connections between the two vary.
		if now.fds > d.was.fds+16 || now.goroutines > d.was.goroutines+40 {
			s.t.Errorf("%s: descriptors or goroutines are left: %v, before %v", d.name, now, d.was)
		}
		if n := len(s.sample); n >= 40 {
			early, late := medianRSS(s.sample[n/4:n/2], d.of), medianRSS(s.sample[3*n/4:], d.of)
			s.t.Logf("%s: RSS of the second quarter %.1f MiB, of the last %.1f MiB (medians)", d.name, float64(early)/(1<<20), float64(late)/(1<<20))
			if late > early+early/4+8<<20 {
				s.t.Errorf("%s: memory grows", d.name)
			}
		}
	}
}

func medianRSS(all []pairOfFigures, of func(p *pairOfFigures) figures) int {
	var list []int
	for i := range all {
		f := of(&all[i])
		list = append(list, f.rss)
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// A message between two that have arrived was lost by a cut between these two.
func TestBlame(t *testing.T) {
	q := newSequence([]arrival{{begun: 30, ended: 35, at: 60}, {begun: 10, ended: 20, at: 25}, {begun: 12, ended: 31, at: 70}, {begun: 50, ended: 55, at: 58}})
	for _, tt := range []struct{ begun, ended, before, after int64 }{
		{20, 21, math.MinInt64, 58}, // the first was not yet sent
		{21, 29, 10, 58},
		{33, 34, 12, 58},
		{36, 50, 30, math.MaxInt64},
	} {
		if before, after := q.before(tt.begun), q.after(tt.ended); before != tt.before || after != tt.after {
			t.Errorf("%+v: between %d and %d", tt, before, after)
		}
	}
}
