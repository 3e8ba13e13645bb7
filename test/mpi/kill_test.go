//go:build mpi && cgo

package mpi

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// kills is how many processes TestKill kills with each library.
var kills = flag.Int("kills", 3, "number of processes that TestKill kills with each library")

// An application exchanges messages with lnetd and with a node behind it, while ranks or the proxy of another one are
// killed at random times, and the other one is started again. After each kill its job ends with an
// error, lnetd has its proxy, descriptors and memory no more, and the first application goes on without an error. At
// last, a job ends well.
//
// MT-5, PT-6, MPI-16, MPI-18
func TestKill(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		const ranks = 2
		s := newSite(t, 1)
		c := s.count()
		long := s.order("load")
		long.Limit = limit + time.Duration(*kills)*10*time.Second
		first := l.start(t, fmt.Sprint(ranks), long, s.proxies()...)
		steady := first.await("up", ranks)
		c.awaitMore(t, steady)
		before := s.usage(0)
		r := rand.New(rand.NewPCG(1, 2))
		for k := range *kills {
			j := l.start(t, fmt.Sprint(ranks), s.order("load"), s.proxies()...)
			j.await("up", ranks)
			begin := time.Now()
			victim := j.kill(r, ranks+1, time.Second)
			killed := time.Now()
			if err := j.Wait(); err == nil {
				t.Fatalf("kill %d of %s: the job ends without an error:\n%s", k, victim, j.Output())
			}
			t.Logf("kill %d, %s after %s: the job has ended after %s", k, victim, killed.Sub(begin).Round(time.Millisecond),
				time.Since(killed).Round(time.Millisecond))
			s.awaitProxies(0, 1)
			c.awaitMore(t, steady)
			daemontest.Within(t, patience, "memory and descriptors", func() error {
				if now := s.usage(0); now.files > before.files || now.maps > before.maps {
					return fmt.Errorf("lnetd has %+v, and had %+v", now, before)
				}
				return nil
			})
		}
		j := l.start(t, fmt.Sprint(ranks), s.order("load"), s.proxies()...)
		up := j.await("up", ranks)
		c.awaitMore(t, up)
		for _, all := range []map[int]said{up, steady} {
			s.stopLoad(all)
		}
		for _, j := range []*running{j, first} {
			if err := j.Wait(); err != nil {
				t.Errorf("%v\n%s", err, j.Output())
			}
		}
		s.awaitProxies(0, 0)
	})
}

// When lnetd is killed, its proxy says so, and the job ends with an error. A job with the next lnetd works.
//
// MT-5, PT-6, MPI-18
func TestKillLnetd(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		const ranks = 2
		s := newSite(t, 1)
		c := s.count()
		o := s.order("load")
		o.Stays = true // a rank that ends could end the job before the proxy has said why
		j := l.start(t, fmt.Sprint(ranks), o, s.proxies()...)
		c.awaitMore(t, j.await("up", ranks))
		s.lnetd[0].Kill(t)
		if err := j.Wait(); err == nil || !strings.Contains(j.Output(), "lnetd has ended the connection") {
			t.Errorf("%v\n%s", err, j.Output())
		}
		s.lnetd[0] = s.start(0)
		j = l.start(t, fmt.Sprint(ranks), s.order("load"), s.proxies()...)
		up := j.await("up", ranks)
		c.awaitMore(t, up)
		s.stopLoad(up)
		if err := j.Wait(); err != nil {
			t.Errorf("%v\n%s", err, j.Output())
		}
	})
}

// load sends PUTs of all sizes to the targets and pings their proxies, until a message of endSize arrives.
func load(ctx context.Context, r *rank) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- untilEnd(ctx, r.inbox) }()
	for {
		err := r.loadOnce(ctx)
		if err != nil && r.order.Stays {
			<-ctx.Done()
		}
		if err != nil {
			return err
		}
		select {
		case err := <-stopped:
			return err
		default:
		}
	}
}

// loadOnce pings all proxies, and sends PUTs of all sizes to all targets.
func (r *rank) loadOnce(ctx context.Context) error {
	for _, m := range r.Members() {
		if !m.Proxy {
			continue
		}
		if _, err := r.Node().Ping(ctx, lnet.ProcessID{NID: m.NID, PID: m.PID}, node.PingOptions{}); err != nil {
			return fmt.Errorf("ping of %s: %w", m.NID, err)
		}
	}
	for _, to := range r.targets {
		if err := putAll(ctx, r.Node(), to); err != nil {
			return err
		}
	}
	return nil
}

// endSize is the size of the message that ends a load.
const endSize = 3

// untilEnd receives messages until one of endSize arrives.
func untilEnd(ctx context.Context, inbox *node.Inbox) error {
	for m, err := range inbox.Messages(ctx) {
		if err != nil || len(m.Data) == endSize {
			return err
		}
	}
	return context.Cause(ctx)
}

// stopLoad ends the load of ranks. It waits for no ACK, since a rank that has got the message leaves.
func (s *site) stopLoad(all map[int]said) {
	s.t.Helper()
	for _, r := range all {
		if _, err := s.node.PutWait(s.t.Context(), content(endSize), r.id(s.t), node.PutOptions{Portal: portal}); err != nil {
			s.t.Errorf("the last PUT to rank %d: %v", r.Rank, err)
		}
	}
}

// counts are the numbers of messages that the node of a site has received.
type counts struct {
	mu sync.Mutex // guards of
	of map[lnet.NID]int
}

// count receives the messages of the node until the end of the test.
func (s *site) count() *counts {
	c := &counts{of: make(map[lnet.NID]int)}
	go func() {
		for m, err := range s.inbox.Messages(s.t.Context()) {
			if err != nil {
				return // the test has ended
			}
			c.mu.Lock()
			c.of[m.Initiator.NID]++
			c.mu.Unlock()
		}
	}()
	return c
}

// awaitMore waits until more messages of each rank have arrived than putAll sends.
func (c *counts) awaitMore(t *testing.T, all map[int]said) {
	t.Helper()
	for _, r := range all {
		nid := r.id(t).NID
		read := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.of[nid]
		}
		before := read()
		daemontest.Within(t, patience, "messages of "+nid.String(), func() error {
			if n := read() - before; n <= len(sizes) {
				return fmt.Errorf("%d have arrived", n)
			}
			return nil
		})
	}
}

// awaitProxies waits until the k-th lnetd has n proxies.
func (s *site) awaitProxies(k, n int) {
	s.t.Helper()
	daemontest.Within(s.t, patience, fmt.Sprintf("%d proxies", n), func() error {
		var list api.Clients
		if err := json.Unmarshal([]byte(s.lnetd[k].Must(s.t, "clients", "--json")), &list); err != nil {
			return err
		}
		if len(list.Proxies) != n {
			return fmt.Errorf("there are %+v", list.Proxies)
		}
		return nil
	})
}

// usage is what lnetd uses.
type usage struct {
	files int // descriptors that are not sockets, since TCP connections come and go
	maps  int // mappings of shared memory
}

// usage returns what the k-th lnetd uses.
func (s *site) usage(k int) usage {
	s.t.Helper()
	at := filepath.Join("/proc", strconv.Itoa(s.lnetd[k].PID()))
	maps, err := os.ReadFile(filepath.Join(at, "maps"))
	if err != nil {
		s.t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(at, "fd"))
	if err != nil {
		s.t.Fatal(err)
	}
	u := usage{maps: strings.Count(string(maps), "/memfd:")}
	for _, f := range files {
		if target, err := os.Readlink(filepath.Join(at, "fd", f.Name())); err == nil && !strings.HasPrefix(target, "socket:") {
			u.files++
		}
	}
	return u
}

// kill waits until n processes of the job run, and kills one of them after a random time up to d. It returns its name.
func (j *running) kill(r *rand.Rand, n int, d time.Duration) string {
	j.t.Helper()
	var all []program
	daemontest.Within(j.t, patience, "processes of the job", func() error {
		all = slices.DeleteFunc(descendants(j.t, j.PID()), func(p program) bool {
			return p.name != "lnet-mpi-proxy" && p.name != filepath.Base(os.Args[0])
		})
		if len(all) < n {
			return fmt.Errorf("only %v run:\n%s", all, j.Output())
		}
		return nil
	})
	victim := all[r.IntN(len(all))]
	<-time.After(time.Duration(r.Int64N(int64(d))))
	if !j.Running() {
		j.t.Fatalf("the job has ended too early:\n%s", j.Output())
	}
	if err := syscall.Kill(victim.pid, syscall.SIGKILL); err != nil {
		j.t.Fatalf("kill %+v: %v", victim, err)
	}
	return victim.name
}

// program is a process of this machine.
type program struct {
	pid  int
	name string
}

// descendants returns the processes below one.
func descendants(t testing.TB, pid int) []program {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	children := make(map[int][]program) // by parent
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // not a process, or one that has ended
		}
		// PID (NAME) STATE PARENT ...
		open, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		child, err := strconv.Atoi(e.Name())
		f := strings.Fields(string(text[end+1:]))
		if err != nil || open < 0 || len(f) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(f[1]); err == nil {
			children[parent] = append(children[parent], program{child, string(text[open+1 : end])})
		}
	}
	var all []program
	for queue := []program{{pid: pid}}; len(queue) > 0; queue = queue[1:] {
		all = append(all, children[queue[0].pid]...)
		queue = append(queue, children[queue[0].pid]...)
	}
	return all
}
