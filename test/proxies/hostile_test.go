package proxies

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

const (
	// hostilePeers is the number of peers that hostile proxies often speak of.
	hostilePeers = 64
	// hostilePID is the PID of their peers on an honest NI.
	hostilePID = 77
	// attackedPortal accepts PUTs and GETs of hostile proxies. On lazyPortal PUTs wait.
	attackedPortal = 42
	lazyPortal     = 43
)

// hostilePeer returns the NID of a peer of hostile proxies. Its address is one of the loopback device, which loopback
// does not return.
func hostilePeer(net lnet.Net, k int) lnet.NID { return lnet.NIDFromNumber(net, 0x7f080000+uint32(k)) }

// Proxies violate the protocol in every way that we know, while two others of the same server carry messages with
// checked content. The hostile ones attach to one NI, where they have the PID of nodes, and to an honest
// NI, where they have another PID and speak of other peers. All honest messages arrive. lnetd names a reason
// whenever it cuts off a proxy, all messages end, and afterwards lnetd holds what it held before. The long form takes
// five minutes.
//
// UP-2, UP-8
func TestHostile(t *testing.T) {
	x := startHostileTest(t)
	kinds := slices.Sorted(maps.Keys(hostileKinds))
	x.attack(time.Second, kinds...) // creates what is created once
	before := x.figures()
	together := 2 * time.Second
	if *long {
		together = 2 * time.Minute
		for _, kind := range kinds {
			x.attack(15*time.Second, kind)
		}
	}
	x.attack(together, kinds...)
	t.Logf("honest operations: %d, failed: %d, wrong: %d", x.honest.done.Load(), x.honest.failed.Load(), x.a.spoilt.Load()+x.b.spoilt.Load())
	t.Logf("messages to hostile proxies: %d sent, %d failed", x.sent.Load(), x.failed.Load())
	for _, nid := range []lnet.NID{x.nid, x.a.id.NID} {
		for _, c := range niOf(x.a.node, nid).Driver {
			t.Logf("%s of %s: %d", c.Name, nid, c.Value)
		}
	}
	now := x.figures()
	if n := x.honest.failed.Load(); n > 0 {
		t.Errorf("%d honest operations have failed, the last with %v", n, x.honest.last.Load())
	}
	t.Logf("with honest traffic, before %v", before)
	t.Logf("with honest traffic, after  %v", now)
	x.stop()
	wantUnchanged(t, before)
	within(t, "all credits are back", func() bool { // messages whose operations were cancelled may still be on the way
		return !slices.ContainsFunc(x.a.node.NIs(), func(i node.NIInfo) bool { return i.Credits.Available != i.Credits.Max })
	})
	x.removeNI()
}

// hostileTest is the state of TestHostile.
type hostileTest struct {
	t      *testing.T
	s      *server
	a, b   *station
	nid    lnet.NID // of the attacked NI, which is a's
	honest talk
	stop   func() // ends the traffic
	seed   uint64
	// attacks is the number of calls of attack.
	attacks int

	// sent and failed count messages to peers of hostile proxies.
	sent, failed atomic.Uint64
}

func startHostileTest(t *testing.T) *hostileTest {
	t.Helper()
	const port = 9971
	s := newServer(t, uplnd.Config{AreaSize: 8 << 20, Quarantine: -1, Patience: time.Second})
	driver := s.Driver(lnet.TypeTCP, "")
	x := &hostileTest{t: t, s: s, nid: loopback(tcp(9), 3)}
	p := parameters()
	p.PeerNIsMax = 256
	p.Discovery = discovery.Static // a message to a hostile proxy's peer does not wait until that has answered
	var stations []*station
	for k := range byte(2) {
		n, nid := newNode(t, node.Config{Parameters: p}), loopback(tcp(7), 1+k)
		addNI(t, n, driver, nid)
		stations = append(stations, newStation(t, n, uint64(1+k)))
		enter(t, order{Role: "proxy", Socket: s.socket, NID: nid.String(), Port: port})
		awaitLink(t, n, nid, lnd.LinkUp)
	}
	x.a, x.b = stations[0], stations[1]
	addNI(t, x.a.node, driver, x.nid)
	if err := x.a.node.SetLazy(lazyPortal); err != nil {
		t.Fatal(err)
	}
	// Hostile proxies write and read the same bytes at the same time. The race detector does not watch memory outside of
	// Go's heap.
	shared, err := unix.Mmap(-1, 0, lnet.MTU, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.a.node.Attach(portals.Entry{Portal: attackedPortal, IgnoreBits: ^uint64(0)}, portals.MD{
		Bytes: shared, Threshold: portals.Unlimited,
		Options: portals.OpPut | portals.OpGet | portals.ManageRemote | portals.Truncate,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	x.honest.excuse()
	for k := range uint64(4) {
		work.Go(func() { x.honest.run(ctx, x.a, x.b, k) })
	}
	for k := range uint64(16) {
		work.Go(func() { x.send(ctx, k) })
	}
	x.stop = sync.OnceFunc(func() {
		cancel()
		work.Wait()
	})
	t.Cleanup(x.stop)
	within(t, "honest messages arrive", func() bool { return x.honest.done.Load() > 100 })
	return x
}

// send sends messages to the peers of hostile proxies, and asks them for pings, until ctx is done.
func (x *hostileTest) send(ctx context.Context, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	for ctx.Err() == nil {
		to := lnet.ProcessID{NID: hostilePeer(x.nid.Net(), r.IntN(hostilePeers)), PID: lnet.PIDLustre}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		var err error
		if r.IntN(10) == 0 {
			_, err = x.a.node.Ping(limited, to, node.PingOptions{})
		} else {
			_, err = x.a.node.PutWait(limited, make([]byte, r.IntN(1<<r.IntN(21))), to, node.PutOptions{Portal: 1})
		}
		cancel()
		if err == nil {
			x.sent.Add(1)
		} else {
			x.failed.Add(1)
		}
		rest(ctx, time.Millisecond)
	}
}

// removeNI removes the attacked NI under attack.
func (x *hostileTest) removeNI() {
	x.t.Helper()
	for _, kind := range []string{"random reports", "withheld payloads", "reports at leave", "unread orders"} {
		g := enter(x.t, order{Role: "hostile", Kind: kind, Socket: x.s.socket, NID: x.nid.String(), PID: lnet.PIDLustre})
		g.Expect("up")
	}
	attached := func() uint64 { return niOf(x.a.node, x.nid).Driver[1].Value }
	before := attached()
	within(x.t, "hostile proxies attach", func() bool { return attached() > before+10 })
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	if err := x.a.node.RemoveNI(ctx, x.nid); err != nil {
		x.t.Error(err)
	}
}

// figures are taken when no hostile proxy is attached.
func (x *hostileTest) figures() figures {
	x.t.Helper()
	for nid, honest := range map[lnet.NID]uint64{x.nid: 0, x.a.id.NID: 1} {
		within(x.t, "hostile proxies are gone", func() bool { return niOf(x.a.node, nid).Driver[0].Value == honest })
	}
	return takeFigures(x.t)
}

// attack runs hostile proxies for a while: one of each kind at the attacked NI, and another one at an honest NI, or,
// if there are several kinds, each at one of both, which is the other one in the next attack.
func (x *hostileTest) attack(length time.Duration, kinds ...string) {
	x.t.Helper()
	x.attacks++
	var all []*guest
	for k, kind := range kinds {
		for honest, o := range []order{{NID: x.nid.String(), PID: lnet.PIDLustre}, {NID: x.a.id.NID.String(), PID: hostilePID}} {
			if len(kinds) > 1 && (k+x.attacks)%2 != honest {
				continue
			}
			x.seed++
			o.Role, o.Kind, o.Seed, o.Socket = "hostile", kind, x.seed, x.s.socket
			g := enter(x.t, o)
			g.Expect("up")
			all = append(all, g)
		}
	}
	done, begin := x.honest.done.Load(), time.Now()
	rest(x.t.Context(), length)
	within(x.t, "honest messages arrive", func() bool { return x.honest.done.Load() > done+10 })
	rate := float64(x.honest.done.Load()-done) / time.Since(begin).Seconds()
	for k, g := range all {
		if len(kinds) > 1 && k%3 == 0 {
			_ = g.Kill()
			continue
		}
		_ = g.Stdin.Close()
		var did hostileReport
		g.ExpectInto("did", &did)
		g.Leave()
		x.t.Logf("%s at %s: %d rounds, %d reports, %d orders read; cut off: %v", g.order.Kind, g.order.NID, did.Rounds, did.Reports, did.Orders, did.Reasons)
	}
	x.t.Logf("beside %d kinds, such as %s: %.0f honest operations per second", len(kinds), kinds[0], rate)
}
