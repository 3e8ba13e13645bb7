package hosting

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// librarySoak is a campaign of TestLibrarySoak. Its programs are testdata/soak.c.
type librarySoak struct {
	t           *testing.T
	hosts       []settings
	daemons     []*daemon // one, or one of the asker and one of the server
	server      *guest
	random      *rand.Rand
	life        int
	clientKills int
	deadRounds  int // completed by askers that were killed
}

// Two programs that use liblnetd, over one lnetd and over two, exchange messages and bulk whose content is
// verified, without a failure. Then one of them is killed at random times, and each time a new one works. Then an
// lnetd is killed at random times, and both programs go on when it was started again. At the end each lnetd
// holds what it held before.
//
// transport 9.10
func TestLibrarySoak(t *testing.T) {
	const roundBytes = 4 << 20 // 2 MiB in each direction
	kills, restarts, bulk := testenv.Fewer(16), 2, testenv.Fewer(64)<<20
	if *long {
		kills, restarts, bulk = 1000, 20, 10_000_000_000
	}
	for i, name := range []string{"one lnetd", "two"} {
		t.Run(name, func(t *testing.T) {
			s := &librarySoak{t: t, random: rand.New(rand.NewPCG(1, uint64(i)))}
			port := freePort(t, address(1), address(2))
			var empty []figures
			for host := range i + 1 {
				s.hosts = append(s.hosts, settings{
					host: host + 1, listen: port, where: testenv.SocketDir(t), extra: "global: {transaction_timeout: 20}\n",
				})
				s.daemons = append(s.daemons, launch(t, s.hosts[host]))
				empty = append(empty, s.daemons[host].figures())
			}
			defer s.explain()
			s.server = s.run("server", s.far().socket, s.address())
			s.server.Expect("up")

			began := time.Now()
			rounds := (bulk + roundBytes - 1) / roundBytes
			before := s.figures()
			g := s.asker(fmt.Sprint(rounds))
			if err := g.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, g.Output())
			}
			s.settle(before)
			t.Logf("%d rounds, %.1f GB of verified bulk, in %v", rounds, float64(rounds*roundBytes)/1e9, time.Since(began).Round(time.Millisecond))

			began = time.Now()
			for range kills {
				s.killAsker()
			}
			s.settle(before)
			t.Logf("%d kills of clients in %v; they had completed %d more rounds", s.clientKills, time.Since(began).Round(time.Millisecond), s.deadRounds)

			began = time.Now()
			g = s.asker()
			g.Expect("up")
			for range restarts {
				s.killDaemon(g)
			}
			g.Leave()
			s.server.Leave()
			t.Logf("%d kills of lnetd in %v; the asker: %s; the server: %s", restarts, time.Since(began).Round(time.Millisecond), tail(g.Output(), 1), tail(s.server.Output(), 1))
			s.settle(empty)
		})
	}
}

func (s *librarySoak) near() *daemon { return s.daemons[0] }
func (s *librarySoak) far() *daemon  { return s.daemons[len(s.daemons)-1] }

// address is the address of the server.
func (s *librarySoak) address() string { return s.far().nid + ":12345:34:7" }

func (s *librarySoak) run(arguments ...string) *guest {
	s.t.Helper()
	path := library.compile(s.t, "soak.c")
	return run(s.t, order{Role: arguments[0], ID: s.life}, exec.Command(path, arguments...))
}

// asker starts an asker.
func (s *librarySoak) asker(more ...string) *guest {
	s.t.Helper()
	s.life++
	return s.run(append([]string{"asker", s.near().socket, s.near().nid + ":12345:35:*", s.address(), fmt.Sprint(s.life)}, more...)...)
}

// killAsker starts an asker, and kills it after its first round.
func (s *librarySoak) killAsker() {
	s.t.Helper()
	g := s.asker()
	g.Expect("up")
	time.Sleep(time.Duration(s.random.Int64N(int64(10 * time.Millisecond))))
	if err := g.Kill(); err != nil {
		s.t.Errorf("%v\n%s", err, g.Output())
	}
	s.clientKills++
	s.deadRounds += len(g.Rest())
}

// killDaemon kills an lnetd, starts it again, and waits until the programs have continued.
func (s *librarySoak) killDaemon(asker *guest) {
	s.t.Helper()
	k := s.random.IntN(len(s.daemons))
	time.Sleep(time.Duration(s.random.Int64N(int64(20 * time.Millisecond))))
	s.daemons[k].end(syscall.SIGKILL)
	for _, line := range s.daemons[k].errorLines() {
		s.t.Errorf("lnetd complains: %s", line)
	}
	s.daemons[k] = launch(s.t, s.hosts[k])
	if s.near() == s.daemons[k] {
		asker.Expect("again")
	}
	if s.far() == s.daemons[k] {
		s.server.Expect("again")
	}
	asker.Forget()
	for range 2 { // the first may have ended before
		asker.Expect("round")
	}
}

// explain logs the state of the clients after a failure.
func (s *librarySoak) explain() {
	if !s.t.Failed() {
		return
	}
	for i, d := range s.daemons {
		all, err := d.control.Clients(context.Background())
		state, _ := json.Marshal(all)
		s.t.Logf("lnetd %d of %d: %v; its clients: %s", i+1, len(s.daemons), err, state)
	}
	s.t.Logf("the server:\n%s", s.server.Output())
}

func (s *librarySoak) figures() (all []figures) {
	for _, d := range s.daemons {
		all = append(all, d.figures())
	}
	return all
}

// settle checks that only the server is left, and no client if it has ended, and that each lnetd holds no more
// than before.
func (s *librarySoak) settle(before []figures) {
	s.t.Helper()
	for i, d := range s.daemons {
		want := 0
		if d == s.far() && s.server.Running() {
			want = 1
		}
		within(s.t, patience, "askers are gone", func() bool { return len(d.pids()) == want })
		if want == 0 {
			for _, name := range []string{"tms", "buffers", "memory_bytes"} {
				if n := d.metric(fmt.Sprintf("lnet_client_%s{rule=%q}", name, "all")); n != 0 {
					s.t.Errorf("lnetd has no clients, but lnet_client_%s is %v", name, n)
				}
			}
		}
		d.wantHealthy()
		d.wantUnchanged(before[i])
	}
}
