package node_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// trio is a client H on tcp, a server P on tcp1 and the router RT between them, without
// routes.
type trio struct {
	fabric   *fabric
	h, rt, p *node.Node
	hID, pID lnet.ProcessID
	ports    [2]*port // of RT
}

func newTrio(t testing.TB, p node.Parameters, also ...string) *trio {
	t.Helper()
	o := &trio{fabric: newFabric(), hID: process(t, asker), pID: process(t, behind)}
	add := func(routing bool) *node.Node {
		return newNode(t, node.Config{Parameters: new(p), Routing: routing, Seed: 1})
	}
	o.h, o.rt, o.p = add(false), add(true), add(false)
	o.ports = [2]*port{o.fabric.addNI(t, o.rt, gatewayNear), o.fabric.addNI(t, o.rt, gatewayFar)}
	o.fabric.addNI(t, o.h, asker)
	o.fabric.addNI(t, o.p, behind)
	return o
}

func (o *trio) route(t testing.TB) {
	t.Helper()
	o.routeOfH(t)
	o.routeOfP(t)
}

func (o *trio) routeOfH(t testing.TB) { addRoute(t, o.h, "tcp1", gatewayNear, node.RouteOptions{}) }
func (o *trio) routeOfP(t testing.TB) { addRoute(t, o.p, "tcp", gatewayFar, node.RouteOptions{}) }

// ping makes a node ping another one, for at most a minute.
func ping(n *node.Node, to lnet.ProcessID, source lnet.NID) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := n.Ping(ctx, to, node.PingOptions{Source: source})
	return err
}

// sanity-lnet 8 (222), 8 (224)
func TestRouterTellsWhichNetsLive(t *testing.T) {
	for _, asymmetric := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := node.DefaultParameters()
			p.AsymmetricRoutes = asymmetric
			o := newTrio(t, p)
			nis := func(step string, near, far lnet.NIStatus) {
				t.Helper()
				if s := statuses(o.rt); s[gatewayNear] != near || s[gatewayFar] != far {
					t.Errorf("asymmetric %v, %s: %v", asymmetric, step, s)
				}
			}
			route := func(step string, n *node.Node, net string, up bool) {
				t.Helper()
				if r := routeTo(t, n, net); r.Up != up {
					t.Errorf("asymmetric %v, %s: %+v", asymmetric, step, r)
				}
			}
			pings := func(step string, works bool) {
				t.Helper()
				for _, err := range []error{ping(o.h, o.pID, lnet.NID{}), ping(o.p, o.hID, lnet.NID{})} {
					if works != (err == nil) {
						t.Errorf("asymmetric %v, %s: ping: %v", asymmetric, step, err)
					}
				}
			}
			up, down := lnet.StatusUp, lnet.StatusDown

			time.Sleep(2 * time.Minute)
			nis("nobody has a route", down, down)
			pings("nobody has a route", false)

			o.routeOfH(t)
			time.Sleep(90 * time.Second)
			nis("H has a route", up, down)
			route("H has a route", o.h, "tcp1", asymmetric)

			o.routeOfP(t)
			time.Sleep(90 * time.Second)
			nis("P has one too", up, up)
			route("P has one too", o.h, "tcp1", true)
			route("P has one too", o.p, "tcp", true)
			pings("P has one too", true)

			if err := o.h.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Minute)
			nis("H is gone", down, up)
			route("H is gone", o.p, "tcp", asymmetric)
			if err := ping(o.p, o.hID, lnet.NID{}); err == nil || errors.Is(err, node.ErrUnreachable) == asymmetric {
				t.Errorf("asymmetric %v, H is gone: ping: %v", asymmetric, err)
			}
			sound(t, "RT", o.rt)
		})
	}
}

// sanity-lnet 8 (227)
func TestPeerBehindTheRouterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.Discovery, p.HealthSensitivity, p.RetryCount, p.TransactionTimeout = discovery.Off, 0, 0, 10*time.Second
		o := newTrio(t, p)
		other := newNode(t, node.Config{Parameters: new(p)})
		o.fabric.addNI(t, other, "10.77.1.21@tcp1")
		addRoute(t, other, "tcp", gatewayFar, node.RouteOptions{})
		o.route(t)
		second := process(t, "10.77.1.21@tcp1")
		for _, id := range []lnet.ProcessID{o.pID, second} {
			if err := ping(o.h, id, lnet.NID{}); err != nil {
				t.Errorf("ping %s: %v", id, err)
			}
		}
		if err := o.p.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		o.ports[1].upper.PeerDown(lnd.PeerDown{Peer: o.pID.NID, Err: lnd.ErrUnreachable})
		before := o.rt.Admin().Counters().Dropped
		for range 2 {
			if err := ping(o.h, o.pID, lnet.NID{}); err == nil {
				t.Error("a ping was answered")
			}
		}
		if d := o.rt.Admin().Counters().Dropped - before; d != 2 {
			t.Errorf("RT dropped %d", d)
		}
		if i := peerNI(t, o.rt, behind); i.Traffic.Dropped.Get != 2 {
			t.Errorf("RT dropped for P: %+v", i.Traffic.Dropped)
		}
		if err := ping(o.h, second, lnet.NID{}); err != nil {
			t.Errorf("ping the other: %v", err)
		}
		if r := routeTo(t, o.h, "tcp1"); !r.Up {
			t.Errorf("%+v", r)
		}
		sound(t, "RT", o.rt)
	})
}

// sanity-lnet 8 (236)
func TestRouterShowsNIThatIsNotWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTrio(t, node.DefaultParameters())
		const second = "10.77.3.10@tcp3"
		o.fabric.addNI(t, o.rt, "10.77.3.1@tcp3")
		o.fabric.addNI(t, o.h, second)
		o.route(t)
		time.Sleep(2 * time.Minute)
		if p, _ := o.rt.Peer(o.hID.NID); len(p.NIs) != 2 || !p.MultiRail {
			t.Fatalf("RT knows H as %+v", p)
		}
		var ill atomic.Bool
		ill.Store(true)
		o.fabric.failBy(func(tx *lnd.Tx) error {
			if ill.Load() && tx.Header.Src == o.hID.NID && tx.Header.Dest == o.hID.NID {
				return fault(lnd.StatusLocalError, tx.To.NID, errNoDevice) // a recovery ping
			}
			return nil
		})
		if err := o.h.Admin().SetNIHealth(o.hID.NID, 0); err != nil {
			t.Fatal(err)
		}
		within := func(want node.Aliveness) bool {
			for range 1300 { // while no message arrives from the NI, such as an answer to a recovery ping
				time.Sleep(100 * time.Millisecond)
				first, other := peerNI(t, o.rt, asker).Aliveness, peerNI(t, o.rt, second).Aliveness
				if other != node.AliveUp {
					t.Errorf("the other NI is %v", other)
				}
				if first == want {
					return true
				}
			}
			return false
		}
		if !within(node.AliveDown) {
			t.Error("RT does not show that the NI is down")
		}
		ill.Store(false)
		if err := o.h.Admin().SetNIHealth(o.hID.NID, node.MaxHealth); err != nil {
			t.Fatal(err)
		}
		if !within(node.AliveUp) {
			t.Error("RT does not show that it is up again")
		}
	})
}

// sanity-lnet 8 (237)
func TestRouterTakesAnotherNID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTrio(t, node.DefaultParameters())
		const second = "10.77.1.21@tcp1"
		o.fabric.addNI(t, o.p, second)
		o.route(t)
		ctx := context.Background()
		for _, nid := range []lnet.NID{o.hID.NID, o.pID.NID} {
			if p, err := o.rt.Discover(ctx, nid); err != nil || !p.MultiRail {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		p := o.rt.Admin().Parameters()
		p.HealthSensitivity = 0
		if err := o.rt.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		arrived := map[lnet.NID]int{}
		o.fabric.failBy(func(tx *lnd.Tx) error {
			switch h := &tx.Header; {
			case h.Type != lnet.MsgGet:
			case h.Src == o.hID.NID:
				mu.Lock()
				arrived[tx.To.NID]++
				mu.Unlock()
			case h.Src == o.ports[1].nid && h.Dest == o.pID.NID:
				return fault(lnd.StatusRemoteError, tx.To.NID, errNoDevice) // a recovery ping
			}
			return nil
		})
		if err := o.rt.Admin().SetPeerHealth(o.pID.NID, 0); err != nil {
			t.Fatal(err)
		}
		const count = 50
		for range count {
			if err := ping(o.h, o.pID, o.hID.NID); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if arrived[parseNID(t, second)] < count || arrived[o.pID.NID] != 0 {
			t.Errorf("arrived: %v", arrived)
		}
	})
}

// The failure of one of the client's NIs does not affect the state of the router.
//
// sanity-lnet 8 (550)
func TestRouteStaysUpWhenAnNIFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.Discovery = discovery.Off
		o := newTrio(t, p)
		second := parseNID(t, "10.77.0.11@tcp")
		o.fabric.addNI(t, o.h, second.String())
		for _, n := range []*node.Node{o.rt, o.p} {
			err := n.Admin().ConfigurePeer(context.Background(), o.hID.NID, []lnet.NID{second}, discovery.ConfigureOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		o.route(t)
		if err := ping(o.h, o.pID, second); err != nil {
			t.Fatal(err)
		}
		localError, err := faults.ParseStatus("local_error")
		if err != nil {
			t.Fatal(err)
		}
		err = o.h.Admin().AddFault(faults.Rule{Kind: faults.Drop, Source: faults.Only(second), Rate: 1, Statuses: localError})
		if err != nil {
			t.Fatal(err)
		}
		if err := ping(o.h, o.pID, second); err == nil {
			t.Error("a ping from the NI that fails was answered")
		}
		for range 300 {
			time.Sleep(time.Second)
			if r := routeTo(t, o.h, "tcp1"); !r.Up {
				t.Fatalf("%+v", r)
			}
		}
		if err := ping(o.h, o.pID, o.hID.NID); err != nil {
			t.Errorf("ping from the other NI: %v", err)
		}
		if err := o.rt.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if r := routeTo(t, o.h, "tcp1"); r.Up {
			t.Errorf("RT is gone: %+v", r)
		}
	})
}
