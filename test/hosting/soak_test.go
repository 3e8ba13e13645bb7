package hosting

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/memory/shared"
)

var soakTime = flag.Duration("soak", 0, "how long the soak lasts; 0: 5s, and 30m with -long")

const (
	soakers = 16
	// A message is excused if a connection was cut between excuseBefore before its start and
	// excuseAfter after its end.
	excuseBefore, excuseAfter = 100 * time.Millisecond, time.Second
)

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
		life := s.life.Add(1)
		g := enter(s.t, order{
			Role: "worker", ID: slot, Seed: life, Socket: s.near.socket, To: to, Pause: s.pause,
			At: fmt.Sprintf("%s:12345:35:%d", s.near.nid, slot+1), File: s.file(life),
		})
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
	var last, report serverReport
	s.server.AskInto("report", "report", &report)
	for rest := time.Now(); time.Since(rest) < time.Second || last != report; { // until no more messages arrive
		time.Sleep(200 * time.Millisecond)
		last = report
		s.server.AskInto("report", "report", &report)
		if last != report {
			rest = time.Now()
		}
	}
	lives, err := readLives(s.server.order.File)
	if err != nil {
		t.Fatal(err)
	}
	var sent, failed, excused, lost int
	for life := uint64(1); life <= s.life.Load(); life++ {
		entries, err := readEntries(s.file(life))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, e := range entries {
			switch {
			case e.errno != 0:
				failed++
				continue
			case has(lives[life], e.number):
			case s.excuse(&e):
				excused++
			default:
				lost++
				if lost < 10 {
					t.Errorf("message %d of life %d was sent, %d to %d, and has not come", e.number, life, e.begun, e.ended)
				}
			}
			sent++
		}
	}
	t.Logf("%v: %d lives, of which %d were killed (at most %v until all was free) and %d left; %d cuts", length, s.life.Load(), s.kills.Load(), s.slow, s.leaves.Load(), len(s.cuts)/2)
	t.Logf("%d messages reported as sent, %d as failed; lost when a connection was cut: %d, else: %d", sent, failed, excused, lost)
	t.Logf("the server: %+v", report)
	if report.Twice > 0 || report.Spoilt > 0 || report.Troubles > 0 || lost > 0 || sent == 0 || report.Bulk == 0 {
		t.Errorf("lost %d, twice %d, spoilt %d, troubles %d, last %q", lost, report.Twice, report.Spoilt, report.Troubles, report.Last)
	}
	s.near.wantHealthy()
	s.far.wantHealthy()
	s.flat(before)
}

// excuse reports whether a connection was cut around the time of a message.
func (s *soak) excuse(e *entry) bool {
	for i := 0; i < len(s.cuts); i += 2 {
		if s.cuts[i+1] >= e.begun-int64(excuseBefore) && s.cuts[i] <= e.ended+int64(excuseAfter) {
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
