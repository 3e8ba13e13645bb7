package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// lnet-core 9.3 (3), 9.3 (6), 10.1 routed
// selection 4.4 header, 3 (7), 5.7 (4)
// lnet-wire 4.6 (6), 4.7 (7)
func TestForwardedMessage(t *testing.T) {
	const far, gateway = "10.77.9.9@tcp9", "10.77.1.7@tcp1"
	for _, c := range []struct {
		name, dest, hop string
		pid             lnet.PID // passed to the driver
	}{
		{"to its destination", behind, behind, 9},
		{"to another router", far, gateway, lnet.PIDLustre},
	} {
		for _, typ := range []lnet.MsgType{lnet.MsgPut, lnet.MsgReply} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := static()
					p.RouterCheckInterval = 0
					r := newHandedWith(t, p, node.Buffers{}, lnd.Tunables{})
					addRoute(t, r.node, "tcp9", gateway, node.RouteOptions{})
					before := r.node.Admin().Counters()
					a := r.near.message(t, typ, asker, c.dest, 1000)
					if r.far.waiting() != 1 {
						t.Fatal("not sent")
					}
					tx := r.far.out[0]
					if tx.Header != a.rx.Header {
						t.Errorf("header %+v; came as %+v", tx.Header, a.rx.Header)
					}
					if want := (lnet.ProcessID{NID: parseNID(t, c.hop), PID: c.pid}); tx.To != want {
						t.Errorf("to %v; want %v", tx.To, want)
					}
					if now := r.node.Admin().Counters(); now.Routed != before.Routed {
						t.Errorf("counted before it has left: %+v", now)
					}
					r.sound(t, "afterwards")
					now := r.node.Admin().Counters()
					if now.Routed != before.Routed+1 || now.RoutedBytes != before.RoutedBytes+1000 {
						t.Errorf("routed %d, %d bytes", now.Routed, now.RoutedBytes)
					}
					if now.Sent != before.Sent || now.Received != before.Received || now.SentBytes != before.SentBytes ||
						now.ReceivedBytes != before.ReceivedBytes || now.Dropped != before.Dropped {
						t.Errorf("counted as the node's own: %+v", now)
					}
					nis := r.node.NIs()
					if in, out := nis[1].Traffic, nis[2].Traffic; in.Received.Total() != 1 || out.Sent.Total() != 1 {
						t.Errorf("NIs: %+v, %+v", in, out)
					}
					if in, out := peerNI(t, r.node, asker).Traffic, peerNI(t, r.node, c.hop).Traffic; in.Received.Total() != 1 || out.Sent.Total() != 1 {
						t.Errorf("peer NIs: %+v, %+v", in, out)
					}
				})
			})
		}
	}
}

// Cases in which the last router may choose another NID of the destination.
//
// lnet-core 9.3 (3)
// selection 4.4 last (1)-(3), 4.4 header, 5.7 (4), 8.5 (66)-(68)
// lnet-wire 4.6 (6)
func TestForwardedToAnotherNID(t *testing.T) {
	const second = "10.77.1.21@tcp1"
	for _, c := range []struct {
		name         string
		source, dest bool // source and destination are multi-rail
		down         bool
		health       int
		rewritten    bool
	}{
		{name: "all is well", source: true, dest: true, health: node.MaxHealth},
		{name: "the NID is not well", source: true, dest: true, health: 999, rewritten: true},
		{name: "the NID is down, too", source: true, dest: true, down: true, health: 999, rewritten: true},
		{name: "the source has but one NID", dest: true, health: 0},
		{name: "the destination is not multi-rail", source: true, health: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := static()
				p.HealthSensitivity, p.RetryCount = 0, 0 // no recovery pings
				r := newHandedWith(t, p, node.Buffers{}, lnd.Tunables{})
				ctx := context.Background()
				configure := func(multi bool, nids ...string) {
					var others []lnet.NID
					for _, s := range nids[1:] {
						if multi || s != second {
							others = append(others, parseNID(t, s))
						}
					}
					err := r.node.Admin().ConfigurePeer(ctx, parseNID(t, nids[0]), others, discovery.ConfigureOptions{SingleRail: !multi})
					if err != nil {
						t.Fatal(err)
					}
				}
				configure(c.source, asker)
				configure(c.dest, behind, second)
				if c.down {
					r.far.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, behind), Err: lnd.ErrUnreachable})
				}
				if err := r.node.Admin().SetPeerHealth(parseNID(t, behind), c.health); err != nil {
					t.Fatal(err)
				}
				r.puts(t, asker, 1, 100)
				want := behind
				if c.rewritten {
					want = second
				}
				if r.far.waiting() != 1 {
					t.Fatal("not sent")
				}
				tx := r.far.out[0]
				if tx.Header.Dest != parseNID(t, want) || tx.To.NID != parseNID(t, want) || tx.To.PID != 9 {
					t.Errorf("for %s, to %v; want %s", tx.Header.Dest, tx.To, want)
				}
				if tx.Header.Src != parseNID(t, asker) || tx.Header.SrcPID != 7 || tx.Header.DestPID != 9 {
					t.Errorf("header %+v", tx.Header)
				}
				r.far.finish(1, nil)
				if err := r.node.Admin().SetPeerHealth(parseNID(t, behind), node.MaxHealth); err != nil {
					t.Fatal(err)
				}
				r.sound(t, "afterwards")
			})
		})
	}
}

// Messages that wait at a router for discovery of their destination, and their end if
// that fails.
//
// lnet-core 9.3 (4)
// discovery 5.1 routed
func TestForwardsWaitForDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		f := newFabric()
		n := newNode(t, node.Config{Parameters: &p, Routing: true, Buffers: node.Buffers{Tiny: 20, Small: 20, Large: 20}})
		near := f.addNI(t, n, gatewayNear)
		f.addNI(t, n, gatewayFar)
		source, dest := newActor(t, f, asker), newActor(t, f, behind)
		dest.set(&dest.silent, true)
		send := func(typ lnet.MsgType, portal uint32) {
			source.send(0, near.nid, lnet.Header{
				Src: source.ports[0].nid, Dest: dest.ports[0].nid, Type: typ, Portal: portal,
				Handle: lnet.Handle{Interface: 3, Object: 4},
			}, nil)
			synctest.Wait()
		}
		got := func(typ lnet.MsgType, portal uint32) (n int) {
			for _, a := range dest.take() {
				if a.header.Type == typ && a.header.Portal == portal && a.header.Src == source.ports[0].nid {
					n++
				}
			}
			return n
		}
		for _, c := range []struct {
			typ    lnet.MsgType
			portal uint32
		}{{lnet.MsgAck, 0}, {lnet.MsgReply, 0}, {lnet.MsgGet, 0}, {lnet.MsgPut, 0}} {
			send(c.typ, c.portal)
			if n := got(c.typ, c.portal); n != 1 {
				t.Errorf("%v to portal %d arrived %d times", c.typ, c.portal, n)
			}
		}
		if _, known := n.Peer(dest.ports[0].nid); !known {
			t.Error("the destination is no peer")
		}
		for _, typ := range []lnet.MsgType{lnet.MsgPut, lnet.MsgGet} {
			send(typ, 4)
			if n := got(typ, 4); n != 0 {
				t.Errorf("%v arrived before its destination was known", typ)
			}
		}
		if c := n.Admin().Routing().Pools[tiny]; c.Credits != c.Buffers-2 {
			t.Errorf("pool %+v; two messages wait", c)
		}
		// No more messages wait than leave half of the neighbour's credits free, because the
		// answers that they wait for must pass too.
		for range 8 {
			send(lnet.MsgPut, 4)
		}
		if c := peerNI(t, n, asker).RouterCredits; c.Available < c.Max/2 || got(lnet.MsgPut, 4) < 8-c.Max/2 {
			t.Errorf("credits %+v", c)
		}

		// It never answers: waiting messages are dropped, and their buffers are released.
		wait := n.Admin().Routing().Pools[tiny].Buffers - n.Admin().Routing().Pools[tiny].Credits
		before := n.Admin().Counters().Dropped
		time.Sleep(5 * time.Minute)
		if d := n.Admin().Counters().Dropped - before; d != uint64(wait) {
			t.Errorf("%d dropped; %d waited", d, wait)
		}
		sound(t, "the destination is silent", n)

		dest.set(&dest.silent, false)
		time.Sleep(5 * time.Minute) // rounds that started while it was silent are over
		dest.take()
		send(lnet.MsgPut, 4)
		send(lnet.MsgGet, 4)
		arrived := map[lnet.MsgType]int{}
		for _, a := range dest.take() {
			if a.header.Portal == 4 {
				arrived[a.header.Type]++
			}
		}
		if arrived[lnet.MsgPut] != 1 || arrived[lnet.MsgGet] != 1 {
			t.Errorf("arrived: %v", arrived)
		}
		sound(t, "the destination answers", n)
	})
}

// lnet-core 9.3 (5)
func TestForwardFails(t *testing.T) {
	begin := func(t *testing.T) (r *handed, second *hand) {
		r, second = newHanded(t, node.Buffers{}, lnd.Tunables{}), &hand{}
		addHand(t, r.node, second, "10.77.1.2@tcp1", lnd.Tunables{})
		return r, second
	}
	local := fault(lnd.StatusLocalDropped, parseNID(t, behind), errNoDevice)
	remote := fault(lnd.StatusRemoteTimeout, parseNID(t, behind), errNoDevice)
	t.Run("resent by the other NI", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, second := begin(t)
			a := r.puts(t, asker, 1, 100)
			first, other := r.far, second
			if first.waiting() == 0 {
				first, other = second, r.far
			}
			tx := first.out[0].Header
			first.finish(1, local)
			synctest.Wait()
			if other.waiting() != 1 || other.out[0].Header != tx {
				t.Fatalf("not resent: %d, %d", first.waiting(), other.waiting())
			}
			expect(t, "resent", a, 1, 0)
			before := r.node.Admin().Counters()
			other.finish(1, nil)
			c := r.node.Admin().Counters()
			if c.Routed != before.Routed+1 || c.Dropped != before.Dropped || c.Resent != 1 || c.SuccessfulResends != 1 {
				t.Errorf("%+v", c)
			}
			r.sound(t, "afterwards")
		})
	})
	t.Run("resent in vain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, second := begin(t)
			r.puts(t, asker, 1, 100)
			before := r.node.Admin().Counters()
			for r.far.waiting()+second.waiting() > 0 {
				r.far.finish(1, local)
				second.finish(1, local)
				synctest.Wait()
			}
			c := r.node.Admin().Counters()
			tries := c.LocalDropped - before.LocalDropped
			if tries != 3 || c.Routed != before.Routed || c.Dropped != before.Dropped+1 ||
				c.DroppedBytes != before.DroppedBytes+100 || c.FailedResends != 1 {
				t.Errorf("%d tries, %+v", tries, c)
			}
			r.sound(t, "afterwards")
		})
	})
	t.Run("not resent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, second := begin(t)
			r.puts(t, asker, 1, 100)
			before := r.node.Admin().Counters()
			r.far.finish(1, remote)
			second.finish(1, remote)
			synctest.Wait()
			c := r.node.Admin().Counters()
			if r.far.waiting()+second.waiting() != 0 || c.Dropped != before.Dropped+1 || c.Routed != before.Routed {
				t.Errorf("%+v", c)
			}
			r.sound(t, "afterwards")
		})
	})
	t.Run("there is no way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _ := begin(t)
			before := r.node.Admin().Counters()
			a := r.near.message(t, lnet.MsgPut, asker, "10.77.8.8@tcp8", 100)
			expect(t, "no route", []*arrival{a}, 1, 0)
			if c := r.node.Admin().Counters(); c.Dropped != before.Dropped+1 || c.DroppedBytes != before.DroppedBytes+100 {
				t.Errorf("%+v", c)
			}
			r.sound(t, "afterwards")
		})
	})
}

// A router holds messages longer than any sender waits, and drops none.
//
// lnet-core 9.3 aged
// sanity-lnet 8 (256)
func TestAgedForwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.Discovery, p.TransactionTimeout = discovery.Static, 10*time.Minute
		p.RouterCheckInterval = 0 // the router's own answers do not wait so long
		r := newRouted(t, 1, p)
		router := r.routers[0]
		short := router.Admin().Parameters()
		short.RetryCount = 0 // its own messages have a limit of 51 s
		if err := router.Admin().SetParameters(short); err != nil {
			t.Fatal(err)
		}
		other := newNode(t, node.Config{Parameters: &p})
		r.fabric.addNI(t, other, "10.77.0.30@tcp")
		addRoute(t, other, "tcp1", routerNIDs[0][0], node.RouteOptions{})
		addFault(t, router, faults.Rule{
			Kind: faults.Delay, Dest: faults.On(r.ids.NID.Net()), Rate: 1, Latency: time.Minute,
		})
		// As many of each as there are router credits, and one more. Half of them wait for a
		// credit of the server that others hold for a minute.
		const gets = 18
		q := node.NewEventQueue(node.AllEvents)
		for range gets / 2 {
			getMD(t, r.client, q, r.ids)
			getMD(t, other, q, r.ids)
		}
		time.Sleep(8 * time.Minute)
		if n := replies(q); n != gets {
			t.Errorf("%d of %d were answered", n, gets)
		}
		if c := router.Admin().Counters(); c.Dropped != 0 || c.NetworkTimeouts != 0 || c.Routed != 2*gets {
			t.Errorf("router: %+v", c)
		}
		sound(t, "router", router)
	})
}

// A router sets the health of a peer NI to full as soon as a message arrives from it.
//
// lnet-core 9.3 health
func TestWhoIsHeardByARouterIsWell(t *testing.T) {
	for _, routing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := static()
			f := newFabric()
			n := newNode(t, node.Config{Parameters: &p, Routing: routing})
			here := f.addNI(t, n, gatewayNear)
			took := takesPuts(t, n)
			a := newActor(t, f, asker)
			send := func() {
				a.send(0, here.nid, lnet.Header{
					Src: a.ports[0].nid, Dest: here.nid, Type: lnet.MsgPut, Portal: 4, Handle: lnet.NoHandle,
				}, nil)
				synctest.Wait()
			}
			send()
			a.set(&a.silent, true) // no recovery ping raises its health
			if err := n.Admin().SetPeerHealth(a.ports[0].nid, 100); err != nil {
				t.Fatal(err)
			}
			send()
			want := map[bool]int{true: node.MaxHealth, false: 200}[routing]
			if h := peerNI(t, n, asker).Health.Value; h != want || len(took.take()) != 2 {
				t.Errorf("routing %v: health %d; want %d", routing, h, want)
			}
		})
	}
}

// lnet-core 12.7
func TestDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		n := newNode(t, node.Config{Parameters: &p})
		f := newFabric()
		own := []string{"10.77.0.10@tcp", "10.77.3.10@tcp3", "10.77.3.11@tcp3"}
		for _, s := range own {
			f.addNI(t, n, s)
		}
		addRoute(t, n, "tcp1", gatewayNear, node.RouteOptions{Hops: 3})
		addRoute(t, n, "tcp1", "10.77.3.1@tcp3", node.RouteOptions{Hops: 2})
		addRoute(t, n, "tcp2", gatewayNear, node.RouteOptions{})
		order := -1
		for _, c := range []struct {
			to, from string
			hops     int
		}{
			{"0@lo", "0@lo", 0},
			{own[1], own[1], 0},
			{"10.77.0.99@tcp", own[0], 1},
			{"10.77.3.99@tcp3", own[1], 1},
			{behind, own[1], 3},
		} {
			d, err := n.Distance(parseNID(t, c.to))
			if err != nil || d.Hops != c.hops || d.From != parseNID(t, c.from) {
				t.Errorf("%s: %+v, %v; want %d hops from %s", c.to, d, err, c.hops, c.from)
			}
			if d.Order <= order {
				t.Errorf("%s: order %d; before it there is %d", c.to, d.Order, order)
			}
			order = d.Order
		}
		if d, err := n.Distance(parseNID(t, "10.77.2.9@tcp2")); err != nil || d.Hops != 2 {
			t.Errorf("hops undefined: %+v, %v", d, err)
		}
		if _, err := n.Distance(parseNID(t, "10.77.9.9@tcp9")); !errors.Is(err, node.ErrUnreachable) {
			t.Errorf("nowhere: %v", err)
		}
	})
}
