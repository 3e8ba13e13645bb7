package selftest

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// railed is a client and a server with two wires between them.
type railed struct {
	*stage
	client, server *player
	near, far      *simlnd.Device // of the second wire
	con            *console
}

// onRails runs a test in a bubble, on wires with a latency of 10 ms. The NIs of the second wire are on
// net.
func onRails(t *testing.T, net lnet.Net, f func(t *testing.T, r *railed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, Fabric: simlnd.New(simlnd.Config{Seed: 1, Link: latencyOf(10 * time.Millisecond)})}
		t.Cleanup(s.Close)
		r := &railed{stage: s}
		r.client = s.player("client", "10.0.0.11").agent(Config{SessionTimeout: -1})
		r.near = r.client.second(net, "10.1.0.11")
		r.server = s.player("server", "10.0.0.12").agent(Config{SessionTimeout: -1})
		r.far = r.server.second(net, "10.1.0.12")
		r.con = r.client.console(1)
		f(t, r)
	})
}

// second adds another NI to a player, on a separate device.
func (p *player) second(net lnet.Net, address string) *simlnd.Device {
	p.t.Helper()
	d := p.host.AddDevice("eth1", address)
	nid := lnet.NIDFromIP(net, netip.MustParseAddr(address))
	if _, err := p.node.AddNI(context.Background(), p.driver, lnd.Config{Net: net, NID: nid}); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// done returns how many RPCs of the batch have succeeded.
func (r *railed) done() int {
	h, _ := r.client.Latency(1, 1)
	return int(h.Count())
}

// rate returns how many RPCs end within a second.
func (r *railed) rate() int {
	before := r.done()
	time.Sleep(time.Second)
	return r.done() - before
}

// underWay returns how many RPCs are under way.
func (r *railed) underWay() (n int) {
	synctest.Wait()
	load := r.client.session.batches[1].tests[0]
	load.mu.Lock()
	defer load.mu.Unlock()
	for k := range load.slots {
		p := &load.slots[k]
		for _, u := range append([]*unit{&p.first}, p.spareUnits...) {
			if u.works && u.phase.Load() == phaseWaiting {
				n++
			}
		}
	}
	return n
}

// wantAllWell checks that every RPC reached the server once and succeeded.
func (r *railed) wantAllWell(t *testing.T) {
	t.Helper()
	c, s := r.client.Counters(), r.server.Counters()
	i, _ := r.client.Session()
	if c.Errors+c.Expired+s.Errors+s.Dropped+s.Expired != 0 || i.BRWErrors+i.PingErrors != 0 {
		t.Errorf("client %+v, server %+v, session %+v", c, s, i)
	}
}

// cuts are ways to cut a wire at different slots. Each returns a function that repairs it.
var cuts = map[string]func(r *railed) (mend func()){
	"near end": func(r *railed) func() {
		r.near.SetUp(false)
		return func() { r.near.SetUp(true) }
	},
	"far end": func(r *railed) func() {
		r.far.SetUp(false)
		return func() { r.far.SetUp(true) }
	},
	"middle": func(r *railed) func() {
		r.Partition(r.near, r.server.host, simlnd.Both)
		return func() { r.Heal(r.near, r.server.host, simlnd.Both) }
	},
}

// kinds are tests of all directions.
var kinds = map[string]func(q *message.TestRequest){
	"ping":  func(*message.TestRequest) {},
	"read":  func(q *message.TestRequest) { brw(q, message.BRWRead, 4096, message.CheckFull) },
	"write": func(q *message.TestRequest) { brw(q, message.BRWWrite, 4096, message.CheckFull) },
}

// Given a closed-loop load over two wires, on one LNet or two, when one wire is cut at any place, then within
// 3 s the load is what one wire carries. After the repair, all stuck RPCs end, and as many RPCs are under way
// as before.
func TestLoadGoesOnByTheOtherWire(t *testing.T) {
	const concurrency = 8
	for name, cut := range cuts {
		for kind, change := range kinds {
			for nets := range uint16(2) {
				if testenv.Race && (kind != "read" || nets == 0) {
					continue // the others have the same goroutines
				}
				t.Run(fmt.Sprintf("%s, %s, %d nets", name, kind, nets+1), func(t *testing.T) {
					onRails(t, lnet.MakeNet(lnet.TypeTCP, nets), func(t *testing.T, r *railed) {
						q := r.con.test(1)
						change(q)
						q.Concurrency = concurrency
						r.con.prepare(r.client, r.server, 1, q)
						r.con.run(r.client, 1)
						time.Sleep(2 * time.Second)
						before := r.rate()
						mend := cut(r)
						var rates []int
						low := 0
						most := 2 * concurrency
						if nets == 0 { // the server may reply over the other wire
							most = 3 * concurrency
						}
						for range 20 {
							n := r.rate()
							rates = append(rates, n)
							if n < before*9/10 {
								low++
							}
							if n := r.underWay(); n < concurrency || n > most {
								t.Errorf("%d RPCs under way", n)
							}
						}
						if low > 3 {
							t.Errorf("%v RPCs in the seconds after the cut, before it %d", rates, before)
						}
						mend()
						time.Sleep(30 * time.Second)
						if n := r.underWay(); n != concurrency {
							t.Errorf("%d RPCs under way after the repair, want %d", n, concurrency)
						}
						r.con.batch(r.client, 1, message.BatchStop, 0, 0)
						r.con.idle(r.client, 1)
						r.wantAllWell(t)
					})
				})
			}
		}
	}
}

// Given a test with a number of RPCs, when a wire is cut while it runs, then it makes that number of
// RPCs, with any number of units, and the server receives each once. The test can be run again.
func TestHeldUpRPCsCount(t *testing.T) {
	const concurrency, loop = 8, 300
	for name, cut := range cuts {
		for kind, change := range kinds {
			if testenv.Race && kind != "read" {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				onRails(t, lnet.MakeNet(lnet.TypeTCP, 1), func(t *testing.T, r *railed) {
					q := r.con.test(1)
					change(q)
					q.Concurrency, q.Loop = concurrency, loop
					r.con.prepare(r.client, r.server, 1, q)
					for round := 1; round <= 2; round++ {
						before := r.server.Counters().Received
						r.con.run(r.client, 1)
						time.Sleep(500 * time.Millisecond)
						mend := cut(r)
						time.Sleep(30 * time.Second)
						active := r.client.session.batches[1].tests[0].active.Load()
						if n := r.underWay(); n != int(active) {
							t.Errorf("%d RPCs under way at %d places when all but those had ended", n, active)
						}
						mend()
						r.con.idle(r.client, 1)
						if n := r.done(); n != round*loop*concurrency {
							t.Errorf("%d RPCs after %d rounds, want %d in each", n, round, loop*concurrency)
						}
						if n := r.server.Counters().Received - before; n != loop*concurrency {
							t.Errorf("%d RPCs seen by the server in round %d", n, round)
						}
						time.Sleep(10 * time.Minute) // everything has recovered
					}
					r.wantAllWell(t)
				})
			})
		}
	}
}

// Given a load whose RPCs are stuck, when it is stopped, by force or by the end of the session, then all
// of it ends, and nothing is left.
func TestHeldUpLoadIsStopped(t *testing.T) {
	for name, stop := range map[string]func(r *railed){
		"stopped":       func(r *railed) { r.con.batch(r.client, 1, message.BatchStop, 0, 0) },
		"by force":      func(r *railed) { r.con.batch(r.client, 1, message.BatchStop, 0, 1) },
		"session ended": func(r *railed) { r.con.remove(r.client) },
	} {
		for kind, change := range kinds {
			if testenv.Race && kind != "read" {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				onRails(t, lnet.MakeNet(lnet.TypeTCP, 1), func(t *testing.T, r *railed) {
					q := r.con.test(1)
					change(q)
					q.Concurrency = 8
					r.con.prepare(r.client, r.server, 1, q)
					r.con.run(r.client, 1)
					time.Sleep(time.Second)
					cuts["middle"](r)
					time.Sleep(5 * time.Second)
					b := r.client.session.batches[1]
					if n := r.underWay(); n <= 8 {
						t.Fatalf("%d RPCs under way: none is held up", n)
					}
					stop(r)
					time.Sleep(70 * time.Second) // the RPC timeout
					if b.running() {
						t.Error("it runs on")
					}
					r.client.close()
				})
			})
		}
	}
}

// Given a node with the maximum number of units, when RPCs are stuck, then there are no spare unit. A peer
// with one wire has no spare unit either.
func TestNoStandInsBeyondBounds(t *testing.T) {
	onRails(t, lnet.MakeNet(lnet.TypeTCP, 1), func(t *testing.T, r *railed) {
		r.client.config.MaxUnits = 10
		q := r.con.test(1)
		q.Concurrency = 8
		r.con.prepare(r.client, r.server, 1, q)
		r.con.run(r.client, 1)
		time.Sleep(time.Second)
		cuts["middle"](r)
		time.Sleep(10 * time.Second)
		if n := r.client.units.Load(); n != 10 {
			t.Errorf("%d units", n)
		}
	})
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.11").agent(Config{})
		server := s.player("server", "10.0.0.12").agent(Config{})
		s.SetLink(client.host, server.host, 0, latencyOf(5*time.Millisecond))
		con := client.console(1)
		q := con.test(1)
		q.Concurrency = 8
		con.prepare(client, server, 1, q)
		con.run(client, 1)
		time.Sleep(time.Second)
		s.Partition(client.host, server.host, simlnd.Both)
		time.Sleep(10 * time.Second)
		if n := client.units.Load(); n != 8 {
			t.Errorf("%d units", n)
		}
	})
}
