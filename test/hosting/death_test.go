package hosting

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// Clients are killed two at a time, at random moments, during any operation that a client can
// perform. Other clients continue without an error, a lost message or a changed byte. The resources
// of a killed client, including its addresses, are free soon, and all of them together leave
// nothing behind.
//
// transport 8.5, 9.10
// transport-tests P (120)
// r.M0.net.xprt.lnet.cleanup-on-process-termination
func TestDeath(t *testing.T) {
	kills := 60
	if *long {
		kills = 1000
	}
	d := launch(t, settings{host: 1})
	echo := enter(t, order{Role: "echo", Socket: d.socket, At: d.nid + ":12345:34:1"})
	ping := enter(t, order{Role: "ping", Socket: d.socket, At: d.nid + ":12345:34:2", To: d.nid + ":12345:34:1"})
	server := enter(t, order{Role: "server", Socket: d.socket, At: d.nid + ":12345:34:3"})

	x := &executions{t: t, d: d, dir: testenv.SocketDir(t), kinds: append(slices.Sorted(maps.Keys(victimKinds)), "worker")}
	x.run(kills / 5) // to create what is created only once
	before := d.figures()
	x.run(kills - kills/5)
	d.wantUnchanged(before)

	var p pingReport
	var s serverReport
	var e echoReport
	ping.AskInto("report", "report", &p)
	echo.AskInto("report", "report", &e)
	server.AskInto("report", "report", &s)
	x.tell()
	t.Logf("ping: %v", &p)
	t.Logf("server: %+v", s)
	if p.N == 0 || p.Lost > 0 || p.Troubles > 0 || e.Troubles > 0 {
		t.Errorf("others have seen of it: %v; echo %+v", &p, e)
	}
	if s.Troubles > 0 || s.Spoilt > 0 || s.Twice > 0 || s.Messages == 0 {
		t.Errorf("the server has seen of it: %+v", s)
	}
	for _, g := range []*guest{ping, echo, server} {
		g.Leave()
	}
	within(t, patience, "nobody is left", func() bool { return len(d.pids()) == 0 })
	d.wantHealthy()
}

// executions kills the clients of TestDeath.
type executions struct {
	t     *testing.T
	d     *daemon
	dir   string
	kinds []string
	next  atomic.Int64

	mu    sync.Mutex // guards the rest
	times []time.Duration
	early int // killed before it was up
}

// run kills n clients, each of a different kind than the one before.
func (x *executions) run(n int) {
	x.t.Helper()
	upTo := x.next.Load() + int64(n)
	var both sync.WaitGroup
	for slot := range 2 {
		both.Go(func() {
			for k := x.next.Add(1); k <= upTo; k = x.next.Add(1) {
				x.one(slot, int(k))
			}
		})
	}
	both.Wait()
	x.next.Store(upTo)
}

func (x *executions) one(slot, k int) {
	r := rand.New(rand.NewPCG(uint64(k), 3))
	o := order{Role: "victim", ID: k, Seed: uint64(k), Kind: x.kinds[k%len(x.kinds)], Socket: x.d.socket,
		At: fmt.Sprintf("%s:12345:36:%d", x.d.nid, 10+slot), To: fmt.Sprintf("%s:12345:36:%d", x.d.nid, 20+slot)}
	if o.Kind == "worker" {
		o.Role, o.To, o.File = "worker", x.d.nid+":12345:34:3", filepath.Join(x.dir, fmt.Sprint(k))
	}
	g := begin(x.t, o)
	isEarly := r.IntN(5) == 0
	if isEarly {
		time.Sleep(time.Duration(r.Int64N(int64(60 * time.Millisecond))))
	} else {
		g.Expect("up")
		time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
	}
	if err := g.Kill(); err != nil {
		x.t.Errorf("victim %d, %s: %v\n%s", k, o.Kind, err, g.Output())
	}
	if strings.Contains(g.Output(), "failed:") || strings.Contains(g.Output(), "trouble:") {
		x.t.Errorf("victim %d, %s:\n%s", k, o.Kind, g.Output())
	}
	since := time.Now()
	within(x.t, patience, fmt.Sprintf("victim %d, %s, is gone", k, o.Kind), func() bool { return x.d.pids()[g.PID()] == 0 })
	took := time.Since(since)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.times = append(x.times, took)
	if isEarly {
		x.early++
	}
}

func (x *executions) tell() {
	slices.Sort(x.times)
	n := len(x.times)
	x.t.Logf("%d clients killed, %d of them on their way in; all was free after %v (median), %v (99 %%), %v (longest)",
		n, x.early, x.times[n/2], x.times[n*99/100], x.times[n-1])
}
