package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// lnet-core 8.1 add (1)-(4)
// lnetctl 4.6 (2)
func TestRoutesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		n := newNode(t, node.Config{Parameters: &p})
		f.addNI(t, n, "10.77.0.10@tcp")
		f.addNI(t, n, "10.77.3.10@tcp3")
		newActor(t, f, "10.77.0.1@tcp", "10.77.3.1@tcp3")
		addRoute(t, n, "tcp1", "10.77.0.1@tcp", node.RouteOptions{})
		ctx := context.Background()
		add := func(net lnet.Net, gateway lnet.NID, o node.RouteOptions) error {
			return n.Admin().AddRoute(ctx, net, gateway, o)
		}
		tcp1 := parseNet(t, "tcp1")
		for _, c := range []struct {
			name    string
			net     lnet.Net
			gateway lnet.NID
			hops    uint32
			err     error
		}{
			{"any gateway", tcp1, lnet.AnyNID, 0, node.ErrInvalid},
			{"no gateway", tcp1, lnet.NID{}, 0, node.ErrInvalid},
			{"0@lo as gateway", tcp1, lnet.LoopbackNID, 0, node.ErrInvalid},
			{"any net", lnet.AnyNID.Net(), parseNID(t, "10.77.0.1@tcp"), 0, node.ErrInvalid},
			{"no net", 0, parseNID(t, "10.77.0.1@tcp"), 0, node.ErrInvalid},
			{"the net lo", lnet.LoNet, parseNID(t, "10.77.0.1@tcp"), 0, node.ErrInvalid},
			{"the gateway's own net", parseNet(t, "tcp"), parseNID(t, "10.77.0.1@tcp"), 0, node.ErrInvalid},
			{"256 hops", tcp1, parseNID(t, "10.77.0.2@tcp"), 256, node.ErrInvalid},
			{"a local net", parseNet(t, "tcp3"), parseNID(t, "10.77.0.1@tcp"), 0, node.ErrExists},
			{"the same again", tcp1, parseNID(t, "10.77.0.1@tcp"), 0, node.ErrExists},
			{"another NID of the same gateway", tcp1, parseNID(t, "10.77.3.1@tcp3"), 0, node.ErrExists},
			{"no interface there", tcp1, parseNID(t, "10.77.9.1@tcp9"), 0, node.ErrUnreachable},
		} {
			if err := add(c.net, c.gateway, node.RouteOptions{Hops: c.hops}); !errors.Is(err, c.err) {
				t.Errorf("%s: %v; want %v", c.name, err, c.err)
			}
		}
		if r := n.Admin().Routes(); len(r) != 1 {
			t.Errorf("routes %+v", r)
		}
		for _, p := range n.Peers() { // no peer was created for them
			if p.Primary != parseNID(t, "10.77.0.1@tcp") {
				t.Errorf("peer %s", p.Primary)
			}
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if err := add(parseNet(t, "tcp2"), parseNID(t, "10.77.0.1@tcp"), node.RouteOptions{}); !errors.Is(err, node.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// lnet-core 8.1 fields, 8.1 shown, 8.3 (3)
func TestRoutesAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		log := &lineLog{}
		n := newNode(t, node.Config{Parameters: &p, Logger: log.logger()})
		f.addNI(t, n, "10.77.0.10@tcp")
		gateway := newActor(t, f, "10.77.0.1@tcp", "10.77.1.1@tcp1")
		gateway.set(&gateway.silent, true)
		addRoute(t, n, "tcp1", "10.77.0.1@tcp", node.RouteOptions{})
		addRoute(t, n, "tcp2", "10.77.0.1@tcp", node.RouteOptions{Hops: 2, Priority: 7})
		addRoute(t, n, "tcp3", "10.77.0.1@tcp", node.RouteOptions{Hops: 1})
		nid := parseNID(t, "10.77.0.1@tcp")
		shown := func(step string, want ...node.RouteInfo) {
			t.Helper()
			if got := n.Admin().Routes(); !slices.Equal(got, want) {
				t.Errorf("%s:\n%+v; want\n%+v", step, got, want)
			}
		}
		one := node.RouteInfo{Net: parseNet(t, "tcp1"), Gateway: nid, Up: true}
		two := node.RouteInfo{Net: parseNet(t, "tcp2"), Gateway: nid, RouteOptions: node.RouteOptions{Hops: 2, Priority: 7}, Up: true}
		three := node.RouteInfo{Net: parseNet(t, "tcp3"), Gateway: nid, RouteOptions: node.RouteOptions{Hops: 1}, Up: true}
		shown("before the gateway has answered", one, two, three)

		gateway.set(&gateway.silent, false)
		time.Sleep(4 * time.Minute) // it is checked again
		// It has no NID on tcp3, although one hop is configured. That causes a warning, but no NI
		// is up there.
		one.SingleHop, three.Up = true, false
		shown("afterwards", one, two, three)
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, "net=tcp3") || strings.Contains(got, "net=tcp2") {
			t.Errorf("log, which shall warn of tcp3 alone:\n%s", got)
		}
	})
}

// lnet-core 8.1 added, 8.1 peer
func TestGatewayIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		n := newNode(t, node.Config{Parameters: &p})
		f.addNI(t, n, "10.77.0.10@tcp")
		gateway := newActor(t, f, "10.77.0.1@tcp", "10.77.1.1@tcp1")
		nid, ctx := gateway.ports[0].nid, context.Background()
		begin := time.Now()
		addRoute(t, n, "tcp1", "10.77.0.1@tcp", node.RouteOptions{})
		if seen := pings(gateway.take()); len(seen) == 0 || !seen[0].at.Equal(begin) {
			t.Errorf("pings %+v; want one at once", seen)
		}
		peer, ok := n.Peer(nid)
		if !ok || !peer.Gateway || peer.Primary != nid {
			t.Errorf("peer %+v", peer)
		}
		time.Sleep(90 * time.Second)
		gateway.take()
		begin = time.Now()
		addRoute(t, n, "tcp2", "10.77.0.1@tcp", node.RouteOptions{})
		time.Sleep(time.Second)
		if seen := pings(gateway.take()); len(seen) == 0 || seen[0].at.Sub(begin) > time.Second {
			t.Errorf("pings %+v; want one at once for the second route too", seen)
		}
		refused := func(step string, err error) {
			t.Helper()
			if !errors.Is(err, discovery.ErrBusy) {
				t.Errorf("%s: %v", step, err)
			}
		}
		refused("delete", n.Admin().DeletePeer(ctx, nid))
		refused("delete with force", n.Admin().ForceDeletePeer(ctx, nid))
		refused("delete its NID", n.Admin().DeletePeerNIDs(ctx, nid, []lnet.NID{nid}))
		refused("delete its other NID", n.Admin().DeletePeerNIDs(ctx, nid, []lnet.NID{gateway.ports[1].nid}))
		if err := n.Admin().DeleteRoute(ctx, 0, lnet.NID{}); err != nil {
			t.Fatal(err)
		}
		if peer, _ := n.Peer(nid); peer.Gateway {
			t.Error("still a gateway")
		}
		if err := n.Admin().DeletePeer(ctx, nid); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
}

// A gateway cannot be configured like an ordinary peer.
//
// sanity-lnet 4 (105)
// lnetctl 4.10 (4)
func TestGatewayIsNotConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		n := newNode(t, node.Config{Parameters: &p})
		f.addNI(t, n, "10.77.0.10@tcp")
		gateway := newActor(t, f, "10.77.0.1@tcp", "10.77.1.1@tcp1")
		addRoute(t, n, "tcp1", "10.77.0.1@tcp", node.RouteOptions{})
		err := n.Admin().ConfigurePeer(context.Background(), gateway.ports[0].nid, nil, discovery.ConfigureOptions{})
		if !errors.Is(err, discovery.ErrBusy) {
			t.Errorf("configure the gateway: %v", err)
		}
		if r := routeTo(t, n, "tcp1"); !r.Up {
			t.Errorf("route %+v", r)
		}
	})
}

// lnet-core 8.1 net
// lnetctl 4.2 (3)
func TestNoNIOnARoutedNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		n := newNode(t, node.Config{Parameters: &p})
		f.addNI(t, n, "10.77.0.10@tcp")
		newActor(t, f, "10.77.0.1@tcp", "10.77.1.1@tcp1")
		addRoute(t, n, "tcp1", "10.77.0.1@tcp", node.RouteOptions{})
		c := lnd.Config{Net: parseNet(t, "tcp1"), NID: parseNID(t, "10.77.1.10@tcp1")}
		add := func() error {
			_, err := n.AddNI(context.Background(), &driver{fabric: f, typ: lnet.TypeTCP}, c)
			return err
		}
		if err := add(); !errors.Is(err, node.ErrRouted) {
			t.Errorf("with a route: %v", err)
		}
		if err := n.Admin().DeleteRoute(context.Background(), c.Net, lnet.NID{}); err != nil {
			t.Fatal(err)
		}
		if err := add(); err != nil {
			t.Errorf("without: %v", err)
		}
	})
}

// lnet-core 8.1 delete
func TestDeleteRoutes(t *testing.T) {
	const a, a3, b = "10.77.0.1@tcp", "10.77.3.1@tcp3", "10.77.0.2@tcp"
	all := []string{"tcp1 " + a, "tcp1 " + b, "tcp2 " + a3, "tcp2 " + b}
	for _, c := range []struct {
		name, net, gateway string
		err                error
		left               []string
	}{
		{"one", "tcp1", b, nil, []string{"tcp1 " + a, "tcp2 " + a3, "tcp2 " + b}},
		{"all to a net", "tcp1", "", nil, []string{"tcp2 " + a3, "tcp2 " + b}},
		{"all by a gateway", "", b, nil, []string{"tcp1 " + a, "tcp2 " + a3}},
		{"all by a gateway, whatever the NID", "", a, nil, []string{"tcp1 " + b, "tcp2 " + b}},
		{"by another NID of the gateway", "tcp1", a3, nil, []string{"tcp1 " + b, "tcp2 " + a3, "tcp2 " + b}},
		{"all", "", "", nil, nil},
		{"a net without", "tcp5", b, node.ErrNotFound, all},
		{"a net without, any gateway", "tcp5", "", node.ErrNotFound, all},
		{"no such gateway", "tcp1", "10.77.0.99@tcp", nil, all},
		{"no such gateway, any net", "", "10.77.0.99@tcp", nil, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFabric()
				p := node.DefaultParameters()
				n := newNode(t, node.Config{Parameters: &p})
				f.addNI(t, n, "10.77.0.10@tcp")
				f.addNI(t, n, "10.77.3.10@tcp3")
				newActor(t, f, a, a3, "10.77.1.1@tcp1", "10.77.2.1@tcp2")
				newActor(t, f, b, "10.77.1.2@tcp1", "10.77.2.2@tcp2")
				addRoute(t, n, "tcp1", a, node.RouteOptions{})
				addRoute(t, n, "tcp1", b, node.RouteOptions{})
				addRoute(t, n, "tcp2", a3, node.RouteOptions{})
				addRoute(t, n, "tcp2", b, node.RouteOptions{})
				var net lnet.Net
				var gateway lnet.NID
				if c.net != "" {
					net = parseNet(t, c.net)
				}
				if c.gateway != "" {
					gateway = parseNID(t, c.gateway)
				}
				if err := n.Admin().DeleteRoute(context.Background(), net, gateway); !errors.Is(err, c.err) {
					t.Errorf("%v; want %v", err, c.err)
				}
				var left []string
				for _, r := range n.Admin().Routes() {
					left = append(left, fmt.Sprint(r.Net, " ", r.Gateway))
				}
				slices.Sort(left)
				want := slices.Sorted(slices.Values(c.left))
				if !slices.Equal(left, want) {
					t.Errorf("left %v; want %v", left, want)
				}
				// This agrees with the discovery machine: a peer is released when its last route is
				// deleted, and not before.
				for _, s := range []string{a, b} {
					held := false
					for _, r := range n.Admin().Routes() {
						held = held || r.Gateway == parseNID(t, s) || s == a && r.Gateway == parseNID(t, a3)
					}
					err := n.Admin().DeletePeer(context.Background(), parseNID(t, s))
					if held != errors.Is(err, discovery.ErrBusy) {
						t.Errorf("delete the peer %s: %v", s, err)
					}
				}
			})
		})
	}
}

// Which of two routes remains when their gateways prove to be one node. The moved one is
// that through the NID that is not the primary one.
//
// discovery 7.2 (6)
// lnet-core 8.1 merge
func TestRoutesOfOneGatewayMerge(t *testing.T) {
	const existing, moved = "10.77.0.1@tcp", "10.77.3.1@tcp3"
	for _, c := range []struct {
		name            string
		existing, moved node.RouteOptions
		stays           string
	}{
		{"alike", node.RouteOptions{}, node.RouteOptions{}, existing},
		{"a better priority moves in, as far away", node.RouteOptions{Priority: 1}, node.RouteOptions{}, existing},
		{"a better priority and fewer hops", node.RouteOptions{Priority: 1, Hops: 2}, node.RouteOptions{}, moved},
		{"a worse priority", node.RouteOptions{Hops: 2}, node.RouteOptions{Priority: 1}, existing},
		{"fewer hops alone", node.RouteOptions{Hops: 2}, node.RouteOptions{Hops: 1}, existing},
		{"more hops, a better priority", node.RouteOptions{Priority: 1}, node.RouteOptions{Hops: 3}, existing},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFabric()
				p := node.DefaultParameters()
				n := newNode(t, node.Config{Parameters: &p})
				f.addNI(t, n, "10.77.0.10@tcp")
				f.addNI(t, n, "10.77.3.10@tcp3")
				gateway := newActor(t, f, existing, moved, "10.77.1.1@tcp1")
				gateway.set(&gateway.silent, true)
				addRoute(t, n, "tcp1", existing, c.existing)
				addRoute(t, n, "tcp1", moved, c.moved)
				addRoute(t, n, "tcp2", moved, node.RouteOptions{Hops: 2}) // not a duplicate: it remains in any case
				if len(n.Admin().Routes()) != 3 {
					t.Fatalf("routes %+v", n.Admin().Routes())
				}
				gateway.set(&gateway.silent, false)
				time.Sleep(4 * time.Minute) // it is checked again
				if r := routeTo(t, n, "tcp1"); r.Gateway != parseNID(t, c.stays) || !r.Up {
					t.Errorf("route %+v; want that by %s", r, c.stays)
				}
				if r := routeTo(t, n, "tcp2"); !r.Up {
					t.Errorf("the other route: %+v", r)
				}
				if peers := n.Peers(); len(peers) != 1 || !peers[0].Gateway {
					t.Errorf("peers %+v", peers)
				}
				// Deleting the last route releases the peer.
				ctx := context.Background()
				for _, net := range []string{"tcp1", "tcp2"} {
					if err := n.Admin().DeletePeer(ctx, parseNID(t, existing)); !errors.Is(err, discovery.ErrBusy) {
						t.Errorf("delete the peer: %v", err)
					}
					if err := n.Admin().DeleteRoute(ctx, parseNet(t, net), parseNID(t, existing)); err != nil {
						t.Error(err)
					}
				}
				if err := n.Admin().DeletePeer(ctx, parseNID(t, existing)); err != nil {
					t.Errorf("delete the peer: %v", err)
				}
			})
		})
	}
}

// Each node has its own order of the routes to a net, so that not all nodes use the same
// router. It depends on the seed.
//
// lnet-core 8.1 order
func TestRoutesStandInAnOrderOfTheirOwn(t *testing.T) {
	order := func(seed uint64) (gateways string) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, node.Config{Seed: seed})
			newFabric().addNI(t, n, "10.77.0.10@tcp")
			for k := range 4 {
				addRoute(t, n, "tcp1", fmt.Sprintf("10.77.0.%d@tcp", k+1), node.RouteOptions{})
			}
			for _, r := range n.Admin().Routes() {
				gateways += " " + r.Gateway.String()
			}
		})
		return gateways
	}
	orders := map[string]bool{}
	for seed := range uint64(20) {
		orders[order(seed+1)] = true
	}
	if len(orders) < 5 {
		t.Errorf("20 nodes have but these orders: %v", orders)
	}
	if first, again := order(1), order(1); first != again {
		t.Errorf("one seed, two orders: %s and %s", first, again)
	}
}

// Many routes cause no more checks of their gateway than one.
//
// sanity-lnet 4 (111)
func TestManyRoutesByOneGateway(t *testing.T) {
	checks := func(t *testing.T, count int) (pinged int) {
		synctest.Test(t, func(t *testing.T) {
			f := newFabric()
			p := node.DefaultParameters()
			n := newNode(t, node.Config{Parameters: &p})
			f.addNI(t, n, "10.77.0.10@tcp")
			gateway := newActor(t, f, "10.77.0.1@tcp", "10.77.9.1@tcp1499")
			for k := range count {
				addRoute(t, n, fmt.Sprintf("tcp1%d", k+2), "10.77.0.1@tcp", node.RouteOptions{})
			}
			routes := n.Admin().Routes()
			if len(routes) != count {
				t.Errorf("%d routes; want %d", len(routes), count)
			}
			for _, r := range routes {
				if !r.Up {
					t.Errorf("%+v is down", r)
				}
			}
			gateway.take() // each new route causes a check
			time.Sleep(5 * time.Minute)
			pinged = len(pings(gateway.take()))
			if err := n.Admin().DeleteRoute(context.Background(), 0, parseNID(t, "10.77.0.1@tcp")); err != nil || len(n.Admin().Routes()) != 0 {
				t.Errorf("delete: %v, %d are left", err, len(n.Admin().Routes()))
			}
		})
		return pinged
	}
	// The time of the first check may make a difference of one.
	if one, many := checks(t, 1), checks(t, 499); many > one+1 || one == 0 {
		t.Errorf("%d pings with one route, %d with many", one, many)
	}
}
