package proxies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Ports of socklnd in TestKills: of the net tcp, and of the nets that proxies serve.
const (
	killPort  = 9975
	killProxy = 9976
)

// killed is what TestKills kills.
type killed struct {
	// net returns the k-th net that a proxy serves. over is the network of these nets: "" for TCP, or "udp".
	net  func(k int) lnet.Net
	over string
	// start starts the router that an order describes, and returns a function that kills it.
	start func(o order) (kill func())
}

// A router has an NI over TCP and two that proxies serve. Through it two pairs of nodes exchange checked payloads.
// The proxy of the first pair and the router are killed again and again, at random, and started again. No payload
// has other content than was sent, traffic goes on after each kill, and no message of the other pair fails when a proxy
// is killed. The long form kills 50 times.
//
// UP-2, UP-8
func TestKills(t *testing.T) {
	testKills(t, killed{
		net: func(k int) lnet.Net { return tcp(uint16(7 + k)) },
		start: func(o order) (kill func()) {
			g := enter(t, o)
			g.Expect("up")
			return func() { _ = g.Kill() }
		},
	})
}

func testKills(t *testing.T, what killed) {
	t.Helper()
	kills, pause := 3, 500*time.Millisecond
	if *long {
		kills, pause = 50, 3*time.Second
	}
	x := startKillTest(t, what)
	r := rand.New(rand.NewPCG(1, 2))
	for k := range kills {
		if k == 1 || k > 2 && r.IntN(3) == 0 {
			x.killRouter()
		} else {
			x.killProxy()
		}
		rest(t.Context(), time.Duration(r.Int64N(int64(pause))))
	}
	x.stop()
	for k, p := range x.pairs {
		if n := p.load.corrupt.n.Load(); n > 0 {
			t.Errorf("pair %d: selftest has found %d wrong payloads, the last: %v", k, n, p.load.corrupt.last.Load())
		}
		t.Logf("pair %d: %d operations, %d failed; selftest: %d RPCs, %d errors", k, p.talk.done.Load(), p.talk.failed.Load(), p.load.done(), p.load.errors())
	}
	for what, all := range map[string][]time.Duration{"proxy": x.afterProxy, "router": x.afterRouter} {
		slices.Sort(all)
		t.Logf("%d kills of the %s: traffic went on after %v (median), %v (longest)", len(all), what, all[len(all)/2], all[len(all)-1])
	}
}

// killTest is the state of TestKills.
type killTest struct {
	t *testing.T
	killed
	router  order
	kill    func() // kills the router
	proxies [2]*guest
	pairs   [2]*pair
	stop    func() // ends the traffic
	// afterProxy and afterRouter are the times from a kill until traffic went on.
	afterProxy, afterRouter []time.Duration
}

// pair is a client on a net that a proxy serves, and a server on the net tcp.
type pair struct {
	client, server *station
	talk           talk
	load           *load
}

func startKillTest(t *testing.T, what killed) *killTest {
	t.Helper()
	x := &killTest{t: t, killed: what}
	gateway := loopback(tcp(0), 40)
	o := order{Role: "router", Socket: filepath.Join(testenv.SocketDir(t), "proxies"), NID: gateway.String(), Port: killPort}
	for k := range x.pairs {
		o.Served = append(o.Served, loopback(x.net(k), byte(41+k)).String())
	}
	x.router, x.kill = o, x.start(o)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	x.stop = sync.OnceFunc(func() {
		cancel()
		work.Wait()
	})
	for k := range x.pairs {
		net, served := x.net(k), loopback(x.net(k), byte(41+k))
		x.proxies[k] = enter(t, order{Role: "proxy", Socket: o.Socket, NID: served.String(), Port: killProxy, Over: x.over, Ahead: k - 1})
		x.proxies[k].Expect("up")
		p := &pair{
			client: x.station(loopback(net, byte(51+k)), newDriver(t, x.over, killProxy), tcp(0), served),
			server: x.station(loopback(tcp(0), byte(61+k)), newDriver(t, "", killPort), net, gateway),
		}
		x.pairs[k] = p
		p.talk.limit = 10 * time.Second
		p.talk.excuse()
		x.awaitTraffic(p, time.Now())
		p.load = startLoad(t, p.client, p.server, 0)
		p.load.restart()
		for j := range uint64(4) {
			work.Go(func() { p.talk.run(ctx, p.client, p.server, 10*uint64(k)+j) })
		}
	}
	t.Cleanup(x.stop)
	return x
}

// station starts a node with a route.
func (x *killTest) station(nid lnet.NID, d lnd.Driver, far lnet.Net, gateway lnet.NID) *station {
	x.t.Helper()
	n := newNode(x.t, node.Config{})
	addNI(x.t, n, d, nid)
	if err := n.Admin().AddRoute(x.t.Context(), far, gateway, node.RouteOptions{}); err != nil {
		x.t.Fatal(err)
	}
	return newStation(x.t, n, uint64(nid.Number()))
}

// awaitTraffic waits until both stations of a pair reach each other. It returns the time since begin.
func (x *killTest) awaitTraffic(p *pair, begin time.Time) time.Duration {
	x.t.Helper()
	r := rand.New(rand.NewPCG(uint64(begin.UnixNano()), 9))
	for _, way := range [][2]*station{{p.client, p.server}, {p.server, p.client}} {
		within(x.t, fmt.Sprintf("traffic from %s to %s", way[0].id, way[1].id), func() bool {
			ctx, cancel := context.WithTimeout(x.t.Context(), time.Second)
			defer cancel()
			return way[0].put(ctx, way[1], r, 10_000) == nil && way[0].get(ctx, way[1], r, 10_000) == nil
		})
	}
	return time.Since(begin)
}

// killProxy kills the proxy of the first pair, and starts another one.
func (x *killTest) killProxy() {
	x.t.Helper()
	other := x.pairs[1]
	errs, failed := other.load.errors(), other.talk.failed.Load()
	done, rpcs := other.talk.done.Load(), other.load.done()
	begin := time.Now()
	_ = x.proxies[0].Kill()
	within(x.t, "the other pair goes on", func() bool { return other.talk.done.Load() > done+20 && other.load.done() > rpcs+20 })
	x.proxies[0] = enter(x.t, x.proxies[0].order)
	x.afterProxy = append(x.afterProxy, x.awaitTraffic(x.pairs[0], begin))
	x.pairs[0].goOn()
	if n := other.load.errors(); n > errs {
		x.t.Errorf("selftest of the other pair has %d errors", n-errs)
	}
	if n := other.talk.failed.Load(); n > failed {
		x.t.Errorf("%d operations of the other pair have failed, the last with %v", n-failed, other.talk.last.Load())
	}
	x.awaitLoad(x.pairs[0])
}

// killRouter kills the router, and starts it again. Its proxies attach again.
func (x *killTest) killRouter() {
	x.t.Helper()
	begin := time.Now()
	x.kill()
	x.kill = x.start(x.router)
	for _, p := range x.pairs {
		x.awaitTraffic(p, begin)
	}
	x.afterRouter = append(x.afterRouter, time.Since(begin))
	for _, p := range x.pairs {
		p.goOn()
	}
	for _, p := range x.pairs {
		x.awaitLoad(p)
	}
}

// goOn gives up the messages of a pair that may be lost, and makes traffic go on.
func (p *pair) goOn() {
	p.talk.excuse()
	p.load.restart()
}

// awaitLoad waits until a pair's traffic has gone on.
func (x *killTest) awaitLoad(p *pair) {
	x.t.Helper()
	done, rpcs := p.talk.done.Load(), p.load.done()
	within(x.t, "checked traffic goes on", func() bool { return p.talk.done.Load() > done+20 && p.load.done() > rpcs+20 })
}
