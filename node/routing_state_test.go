package node_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// between is a node on tcp and tcp1 that knows a multi-rail neighbour on each net.
type between struct {
	fabric    *fabric
	node      *node.Node
	near, far *actor
	ports     [2]*port
}

func newBetween(t testing.TB, c node.Config) *between {
	t.Helper()
	b := &between{fabric: newFabric()}
	if c.Parameters == nil {
		c.Parameters = new(node.DefaultParameters())
	}
	b.node = newNode(t, c)
	b.ports = [2]*port{b.fabric.addNI(t, b.node, gatewayNear), b.fabric.addNI(t, b.node, gatewayFar)}
	b.near, b.far = newActor(t, b.fabric, "10.77.0.10@tcp"), newActor(t, b.fabric, behind)
	for _, a := range []*actor{b.near, b.far} {
		if _, err := b.node.Discover(context.Background(), a.ports[0].nid); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	b.take()
	return b
}

func (b *between) take() (near, far []arrived) { return b.near.take(), b.far.take() }

// send makes the near neighbour send a PUT to the far one, and reports whether it
// arrived.
func (b *between) send(t testing.TB) bool {
	t.Helper()
	b.far.take()
	b.near.send(0, b.ports[0].nid, lnet.Header{
		Src: b.near.ports[0].nid, Dest: b.far.ports[0].nid, Type: lnet.MsgPut, Portal: 4, Handle: lnet.NoHandle,
	}, []byte("payload"))
	synctest.Wait()
	return slices.ContainsFunc(b.far.take(), func(a arrived) bool { return a.header.Portal == 4 && string(a.payload) == "payload" })
}

// ping makes an actor ping the node.
func (b *between) ping(a *actor, to lnet.NID) {
	a.send(0, to, lnet.Header{
		Src: a.ports[0].nid, Dest: to, Type: lnet.MsgGet, MatchBits: lnet.PingMatchBits, Length: lnet.PingBufferMin,
		Handle: lnet.Handle{Interface: 1, Object: 1},
	}, nil)
	synctest.Wait()
}

// pushed returns the ping infos that were pushed to an actor since the last take.
func pushed(t testing.TB, a *actor) (infos []lnet.PingInfo) {
	t.Helper()
	for _, p := range pushes(a.take()) {
		info, err := lnet.DecodePingInfo(p.payload, lnet.InterfacesMax)
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	return infos
}

// toldBoth checks that the node's current ping info was pushed to both neighbours.
func (b *between) toldBoth(t testing.TB, step string) {
	t.Helper()
	now := b.node.PingInfo()
	for _, a := range []*actor{b.near, b.far} {
		infos := pushed(t, a)
		if len(infos) == 0 {
			t.Errorf("%s: %s was not told", step, a.ports[0].nid)
			continue
		}
		last := infos[len(infos)-1]
		if last.Features != now.Features || last.Seq != now.Seq || !slices.Equal(last.NIs, now.NIs) {
			t.Errorf("%s: %s was told %+v; now it is %+v", step, a.ports[0].nid, last, now)
		}
	}
}

// lnet-core 9.1 (1)-(2), 9.3 (1), 5.2 (3d)
// lnet-wire 7.3 (1)
func TestRoutingIsTurnedOnAndOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{})
		n := b.node
		state := func(step string, want node.RoutingState) {
			t.Helper()
			if s := n.Admin().Routing().State; s != want {
				t.Errorf("%s: state %d; want %d", step, s, want)
			}
			if silent := n.PingInfo().Features&lnet.FeatRoutingDisabled != 0; silent != (want != node.RoutingEnabled) {
				t.Errorf("%s: says that it does not forward: %v", step, silent)
			}
		}
		state("at first", node.RoutingDisabled)
		if n.Admin().Routing().Ever {
			t.Error("pools were made")
		}
		dropped := n.Admin().Counters().Dropped
		if b.send(t) || n.Admin().Counters().Dropped != dropped+1 {
			t.Errorf("forwarded though disabled, or not dropped: %+v", n.Admin().Counters())
		}
		seq := n.PingInfo().Seq

		if err := n.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		state("enabled", node.RoutingStarting)
		if !b.send(t) {
			t.Error("starting: not forwarded")
		}
		if err := n.Admin().EnableRouting(); err != nil {
			t.Errorf("enabled again: %v", err)
		}
		b.take()
		time.Sleep(108 * time.Second)
		state("after 108 s", node.RoutingStarting)
		time.Sleep(4 * time.Second)
		state("after 112 s", node.RoutingEnabled)
		if s := n.PingInfo().Seq; s != seq {
			t.Errorf("number %d; was %d", s, seq)
		}
		b.toldBoth(t, "enabled")
		if !b.send(t) {
			t.Error("enabled: not forwarded")
		}
		if err := n.Admin().EnableRouting(); err != nil {
			t.Errorf("enabled again: %v", err)
		}

		b.take()
		n.Admin().DisableRouting()
		synctest.Wait()
		state("disabled", node.RoutingStopping)
		b.toldBoth(t, "disabled")
		if !b.send(t) {
			t.Error("stopping: not forwarded")
		}
		if err := n.Admin().EnableRouting(); !errors.Is(err, node.ErrBusy) {
			t.Errorf("enabled while stopping: %v", err)
		}
		n.Admin().DisableRouting() // changes nothing
		time.Sleep(4 * time.Second)
		state("idle", node.RoutingDisabled)
		if b.send(t) {
			t.Error("disabled: forwarded")
		}
		if r := n.Admin().Routing(); !r.Ever {
			t.Errorf("%+v", r)
		}
		for _, p := range n.Admin().Routing().Pools {
			if p.Buffers != 0 || p.Credits != 0 {
				t.Errorf("pool %+v", p)
			}
		}
		n.Admin().DisableRouting()
		state("disabled again", node.RoutingDisabled)
		if err := n.Admin().EnableRouting(); err != nil {
			t.Errorf("enabled anew: %v", err)
		}
		state("enabled anew", node.RoutingStarting)
		sound(t, "at the end", n)
	})
}

// A router that is stopped at once does not forward any more, can be enabled again at
// once, and counts as never having forwarded.
//
// lnetctl 4.1
func TestRoutingIsStoppedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{Routing: true})
		for _, disable := range []func(){func() {}, b.node.Admin().DisableRouting} {
			disable()
			b.node.Admin().StopRouting()
			synctest.Wait()
			r := b.node.Admin().Routing()
			if r.State != node.RoutingDisabled || r.Ever || r.Pools[0].Buffers != 0 || b.node.PingInfo().Features&lnet.FeatRoutingDisabled == 0 {
				t.Errorf("%+v", r)
			}
			if b.send(t) {
				t.Error("forwarded")
			}
			if err := b.node.Admin().EnableRouting(); err != nil {
				t.Error(err)
			}
			if !b.send(t) {
				t.Error("enabled again: not forwarded")
			}
		}
		sound(t, "at the end", b.node)
	})
}

// lnet-core 9.1 (3)
func TestRoutingFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, node.Config{Routing: true})
		if s, f := n.Admin().Routing().State, n.PingInfo().Features; s != node.RoutingEnabled || f&lnet.FeatRoutingDisabled != 0 {
			t.Errorf("at once: state %d, features %v", s, f)
		}
		b := newBetween(t, node.Config{Routing: true})
		if s := b.node.Admin().Routing(); s.State != node.RoutingEnabled || !s.Ever {
			t.Errorf("%+v", s)
		}
		if f := b.node.PingInfo().Features; f&lnet.FeatRoutingDisabled != 0 {
			t.Errorf("features %v", f)
		}
		if !b.send(t) {
			t.Error("not forwarded")
		}
	})
}

// While routing starts and stops, adding or removing an NI does not make the node
// announce that it forwards.
//
// lnet-core 9.1 rebuilt
func TestNIsChangeWhileRoutingDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{})
		n := b.node
		change := func(step string) {
			t.Helper()
			seq := n.PingInfo().Seq
			silent := func(when string) {
				t.Helper()
				info := n.PingInfo()
				seq++
				if info.Features&lnet.FeatRoutingDisabled == 0 || info.Seq != seq {
					t.Errorf("%s, %s: features %v, number %d; want %d", step, when, info.Features, info.Seq, seq)
				}
			}
			b.fabric.addNI(t, n, "10.77.2.1@tcp2")
			silent("an NI came")
			if err := n.RemoveNI(context.Background(), parseNID(t, "10.77.2.1@tcp2")); err != nil {
				t.Fatal(err)
			}
			silent("it went")
		}
		if err := n.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		change("starting")
		time.Sleep(112 * time.Second)
		if s := n.Admin().Routing().State; s != node.RoutingEnabled {
			t.Fatalf("state %d", s)
		}
		n.Admin().DisableRouting()
		change("stopping")
		time.Sleep(4 * time.Second)
		if s := n.Admin().Routing().State; s != node.RoutingDisabled {
			t.Errorf("state %d", s)
		}
		change("disabled")
	})
}

// lnet-core 9.2 silent, 9.2 heard, 5.2 (2), 12.2
// lnet-wire 7.9
func TestSilentNets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{Routing: true})
		second := b.fabric.addNI(t, b.node, "10.77.1.2@tcp1")
		n := b.node
		check := func(step string, near, far, also lnet.NIStatus) {
			t.Helper()
			want := map[string]lnet.NIStatus{gatewayNear: near, gatewayFar: far, "10.77.1.2@tcp1": also}
			for nid, s := range statuses(n) {
				if s != want[nid] {
					t.Errorf("%s: %s is %v", step, nid, s)
				}
			}
		}
		up, down := lnet.StatusUp, lnet.StatusDown
		begin := time.Now()
		b.take()
		for time.Since(begin) < 100*time.Second { // pings only on tcp
			time.Sleep(20 * time.Second)
			b.ping(b.near, b.ports[0].nid)
		}
		check("after 100 s", up, up, up)
		seq := n.PingInfo().Seq
		b.take()
		time.Sleep(13 * time.Second)
		check("after 113 s", up, down, down)
		b.toldBoth(t, "tcp1 is silent")
		if s := n.PingInfo().Seq; s != seq {
			t.Errorf("number %d; was %d", s, seq)
		}

		// Our own pings do not count, nor do messages that are not pings.
		if _, err := n.ForceDiscover(context.Background(), b.far.ports[0].nid); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Ping(context.Background(), lnet.ProcessID{NID: second.nid}, node.PingOptions{Source: b.ports[1].nid}); err != nil {
			t.Fatal(err)
		}
		for _, h := range []lnet.Header{{Type: lnet.MsgPut, Portal: 9}, {Type: lnet.MsgGet, Portal: 9}, {Type: lnet.MsgPut}} {
			h.Src, h.Dest, h.Handle = b.far.ports[0].nid, b.ports[1].nid, lnet.NoHandle
			b.far.send(0, b.ports[1].nid, h, nil)
		}
		time.Sleep(3 * time.Second)
		check("no pings from elsewhere", up, down, down)

		// A ping marks only the NI on which it arrived as up.
		b.take()
		b.ping(b.far, second.nid)
		check("a ping over the second NI", up, down, up)
		b.toldBoth(t, "a ping over the second NI")
		b.ping(b.far, b.ports[1].nid)
		check("and over the first", up, up, up)
		b.toldBoth(t, "and over the first")
		b.ping(b.far, b.ports[1].nid)
		if near, _ := b.take(); len(pushes(near)) != 0 {
			t.Error("no news was pushed")
		}

		// A ping that is forwarded counts as one from another node.
		time.Sleep(3 * time.Minute)
		check("all are silent", down, down, down)
		b.near.send(0, b.ports[0].nid, lnet.Header{
			Src: b.near.ports[0].nid, Dest: b.far.ports[0].nid, Type: lnet.MsgGet, MatchBits: lnet.PingMatchBits,
			Length: 272, Handle: lnet.Handle{Interface: 1, Object: 1},
		}, nil)
		synctest.Wait()
		check("a ping went through", up, down, down)
	})
}

// Given a router's NI that is down for lack of health, when a ping arrives on it, then it
// is up, and peers are notified.
//
// lnet-core 5.2 (2), 9.2 heard
func TestPingOverAnNIWithoutHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{Routing: true})
		far := b.ports[1].nid
		if err := b.node.Admin().SetNIHealth(far, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := statuses(b.node)[gatewayFar]; s != lnet.StatusDown {
			t.Fatalf("without health it is %v", s)
		}
		b.take()
		b.ping(b.far, far)
		if s := statuses(b.node)[gatewayFar]; s != lnet.StatusUp {
			t.Errorf("after a ping it is %v", s)
		}
		b.toldBoth(t, "it is up")
	})
}

// lnet-core 9.2 fatal
func TestRouterLosesALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{Routing: true})
		b.ports[1].setLink(lnd.LinkDown)
		synctest.Wait()
		if s := statuses(b.node); s[gatewayNear] != lnet.StatusUp || s[gatewayFar] != lnet.StatusDown {
			t.Errorf("%v", s)
		}
		b.toldBoth(t, "link down")
		b.ports[1].setLink(lnd.LinkUp)
		synctest.Wait()
		if s := statuses(b.node); s[gatewayFar] != lnet.StatusUp {
			t.Errorf("%v", s)
		}
		b.toldBoth(t, "link up")
	})
}

// A node that was not a router for long does not mark its nets as silent at once.
//
// lnet-core 9.2 begun
func TestSilenceBeginsWithRouting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{})
		time.Sleep(time.Hour)
		if s := statuses(b.node); s[gatewayNear] != lnet.StatusUp || s[gatewayFar] != lnet.StatusUp {
			t.Errorf("before: %v", s)
		}
		if err := b.node.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Second)
		if s := statuses(b.node); s[gatewayNear] != lnet.StatusUp || s[gatewayFar] != lnet.StatusUp {
			t.Errorf("100 s later: %v", s)
		}
		time.Sleep(13 * time.Second)
		if s := statuses(b.node); s[gatewayNear] != lnet.StatusDown || s[gatewayFar] != lnet.StatusDown {
			t.Errorf("113 s later: %v", s)
		}
	})
}

// Given a router that marked an NI as down because no pings arrived on its net, when
// routing is disabled, then the NI is up again, and peers are notified. An NI that is
// down for another reason too stays down for that reason. The node shows the reasons at
// any time.
//
// lnet-core 9.2 silent, 12.1
func TestSilenceEndsWithRouting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{Routing: true})
		n := b.node
		check := func(step string, near, far node.DownReason, shown string) {
			t.Helper()
			nis := n.NIs()[1:]
			if nis[0].Down != near || nis[1].Down != far {
				t.Errorf("%s: down for %q, %q; want %q, %q", step, nis[0].Down, nis[1].Down, near, far)
			}
			if got := nis[1].Down.String(); got != shown {
				t.Errorf("%s: shown as %q, want %q", step, got, shown)
			}
			for _, i := range nis {
				if (i.Status == lnet.StatusDown) != (i.Down != 0) {
					t.Errorf("%s: %s is %v for %q", step, i.NID, i.Status, i.Down)
				}
			}
		}
		check("at first", 0, 0, "")
		time.Sleep(112 * time.Second)
		check("silence", node.DownSilence, node.DownSilence, "no pings arrive from the net")
		b.ports[1].setLink(lnd.LinkDown)
		b.fabric.failBy(func(tx *lnd.Tx) error { return fault(lnd.StatusRemoteError, tx.To.NID, lnd.ErrDisconnected) })
		if err := n.Admin().SetNIHealth(b.ports[1].nid, 0); err != nil {
			t.Fatal(err)
		}
		check("all at once", node.DownSilence, node.DownSilence|node.DownLink|node.DownHealth, "link down, health is 0, no pings arrive from the net")
		n.Admin().DisableRouting()
		time.Sleep(11 * time.Second)
		check("routing is off", 0, node.DownLink|node.DownHealth, "link down, health is 0")
		b.ports[1].setLink(lnd.LinkUp)
		check("the link is up", 0, node.DownHealth, "health is 0")
		b.fabric.failBy(nil)
		b.take()
		if err := n.Admin().SetNIHealth(b.ports[1].nid, 1000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		check("all is well", 0, 0, "")
	})
}

// lnet-core 9.2 silent
func TestTheEndOfSilenceIsPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBetween(t, node.Config{Routing: true})
		time.Sleep(112 * time.Second)
		b.node.Admin().DisableRouting()
		synctest.Wait()
		b.take()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		told := pushed(t, b.near)
		if len(told) == 0 {
			t.Fatal("nobody is told")
		}
		for _, i := range told[len(told)-1].NIs {
			if i.Status == lnet.StatusDown {
				t.Errorf("%s is said to be down", i.NID)
			}
		}
	})
}
