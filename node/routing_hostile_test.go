package node_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A neighbour that makes others answer it through the router, and reads nothing, occupies
// the resources of its answers until the driver gives up. The nodes that answer it are
// slowed down; others are not, and all resources are released.
func TestNeighbourThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{PeerCredits: 4, PeerBufferCredits: 6})
		answer := func(to string, count int) (out []*arrival) {
			for range count {
				out = append(out, r.far.message(t, lnet.MsgAck, behind, to, 0))
			}
			return out
		}
		expect(t, "what it asks", r.puts(t, asker, 1, 0), 1, 0)
		r.far.finishAll(nil)
		stuck := answer(asker, 10)
		expect(t, "answers to who does not read", stuck, 6, 4) // four under way, two wait for a credit
		if n := r.near.waiting(); n != 4 {
			t.Errorf("%d under way", n)
		}
		held := answer(otherAsker, 1)
		expect(t, "an answer to another one", held, 0, 1)

		// Other neighbours are not affected.
		a := r.puts(t, otherAsker, 1, 100)
		b := r.far.message(t, lnet.MsgPut, "10.77.1.30@tcp1", otherAsker, 100)
		expect(t, "between others", append(a, b), 2, 0)
		if n := r.near.waiting(); n != 5 || r.far.waiting() != 1 {
			t.Errorf("%d and %d under way", n, r.far.waiting())
		}

		// The driver gives up.
		before := r.node.Admin().Counters()
		r.near.finish(4, fault(lnd.StatusNetworkTimeout, parseNID(t, asker), lnd.ErrUnreachable))
		synctest.Wait()
		expect(t, "given up", append(stuck, held...), 10, 1)
		r.near.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, asker), Err: lnd.ErrUnreachable})
		for r.near.waiting() > 0 {
			r.near.finish(1, nil)
		}
		expect(t, "all", append(stuck, held...), 11, 0)
		if d := r.node.Admin().Counters().Dropped - before.Dropped; d < 4 {
			t.Errorf("%d dropped", d)
		}
		r.sound(t, "afterwards")
	})
}

// A connection is lost while messages that arrived on it wait in the router. They are
// dropped, those behind them continue in order, and no credit or buffer is lost.
func TestConnectionDiesWhileMessagesWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		tunables lnd.Tunables
		buffers  node.Buffers
	}{
		{"for a router credit", lnd.Tunables{PeerCredits: 2}, node.Buffers{}},
		{"for a buffer", lnd.Tunables{PeerCredits: 20}, node.Buffers{Small: 2}},
		{"for either", lnd.Tunables{PeerCredits: 4}, node.Buffers{Small: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHanded(t, c.buffers, c.tunables)
				sent := r.puts(t, asker, 8, 100)
				expect(t, "at first", sent, 2, 6)
				before := r.node.Admin().Counters().Dropped
				for _, k := range []int{2, 4, 7, 0} { // the last one is not waiting any more
					sent[k].withdraw()
				}
				want := []string{"taken", "taken", "dropped", "waits", "dropped", "waits", "waits", "dropped"}
				if got := were(sent); !slices.Equal(got, want) {
					t.Errorf("withdrawn: %v; want %v", got, want)
				}
				if d := r.node.Admin().Counters().Dropped - before; d != 3 {
					t.Errorf("%d dropped", d)
				}
				for _, k := range []int{3, 5, 6} {
					r.far.finish(1, nil)
					want[k] = "taken"
					if got := were(sent); !slices.Equal(got, want) {
						t.Errorf("one has left: %v; want %v", got, want)
					}
				}
				r.sound(t, "afterwards")
			})
		})
	}
}

// The same after an administrator has deleted the neighbour. It becomes a new peer when
// it sends again, and the messages that still wait are found.
func TestConnectionDiesOfADeletedPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{PeerCredits: 2})
		sent := r.puts(t, asker, 4, 100)
		expect(t, "at first", sent, 2, 2)
		if err := r.node.Admin().DeletePeer(context.Background(), parseNID(t, asker)); err != nil {
			t.Fatal(err)
		}
		sent[2].withdraw() // may coincide with its placement
		synctest.Wait()
		got := were(sent)
		if !slices.Contains([]string{"dropped", "failed", "taken"}, got[2]) {
			t.Errorf("withdrawn: %v", got)
		}
		got[2] = ""
		if !slices.Equal(got, []string{"taken", "taken", "", "taken"}) {
			t.Errorf("not withdrawn: %v", got)
		}
		again := r.puts(t, asker, 1, 100)
		expect(t, "it sends again", again, 1, 0)
		r.far.finish(1, nil)
		expect(t, "one has left", sent[3:], 1, 0)
		r.sound(t, "afterwards")
	})
}

// An NI is removed with messages in the router that arrived on it or are to be sent over
// it.
func TestNIGoesWhileMessagesAreInTheRouter(t *testing.T) {
	for _, nid := range []string{gatewayNear, gatewayFar} {
		t.Run(nid, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHanded(t, node.Buffers{Small: 12, Tiny: 1}, lnd.Tunables{PeerCredits: 4, PeerBufferCredits: 6})
				out := r.puts(t, asker, 8, 100)                   // 4 under way, 2 wait for a tx credit, 2 for a router credit
				out = append(out, r.puts(t, otherAsker, 3, 0)...) // 1 holds the only buffer, 2 wait for it
				var in []*arrival
				for range 8 {
					in = append(in, r.far.message(t, lnet.MsgPut, behind, asker, 100))
				}
				if err := r.node.RemoveNI(context.Background(), parseNID(t, nid)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				r.near.finishAll(nil)
				r.far.finishAll(nil)
				synctest.Wait()
				for k, w := range were(append(out, in...)) {
					if w != "taken" && w != "dropped" && w != "failed" {
						t.Errorf("message %d: %s", k, w)
					}
				}
				r.sound(t, "afterwards")
			})
		})
	}
}

// A router that is stopped continues for at most 10 s. Messages that still wait then are
// dropped and counted.
//
// lnet-core 9.1 (2), 9.3 (1), 7.4 return (2)
func TestRouterStopsWithMessagesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{Small: 1}, lnd.Tunables{PeerCredits: 3})
		sent := r.puts(t, asker, 5, 100) // 1 under way, 2 wait for a buffer, 2 for a router credit
		expect(t, "at first", sent, 1, 4)
		r.node.Admin().DisableRouting()
		begin := time.Now()
		before := r.node.Admin().Counters()
		time.Sleep(9 * time.Second)
		expect(t, "after 9 s", sent, 1, 4)
		for r.node.Admin().Routing().State != node.RoutingDisabled {
			time.Sleep(100 * time.Millisecond)
			if time.Since(begin) > 12*time.Second {
				t.Fatalf("still stopping")
			}
		}
		synctest.Wait() // waiting messages are dropped right after that
		if got := were(sent); !slices.Equal(got, []string{"taken", "dropped", "dropped", "dropped", "dropped"}) {
			t.Errorf("stopped: %v", got)
		}
		if c := r.node.Admin().Counters(); c.Dropped != before.Dropped+4 || c.DroppedBytes != before.DroppedBytes+400 {
			t.Errorf("dropped %d, %d bytes", c.Dropped-before.Dropped, c.DroppedBytes-before.DroppedBytes)
		}
		late := r.puts(t, asker, 1, 100)
		if got := were(late); !slices.Equal(got, []string{"dropped"}) {
			t.Errorf("a late one: %v", got)
		}
		// Enable routing again while that message is still under way.
		if err := r.node.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		sent = r.puts(t, asker, 2, 100)
		r.far.finish(1, nil)
		r.far.finish(1, nil)
		r.far.finish(1, nil)
		expect(t, "on again", sent, 2, 0)
		r.sound(t, "afterwards")
	})
}

// A router is closed with messages in it.
func TestRouterIsClosedWithMessagesInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{Small: 2}, lnd.Tunables{PeerCredits: 4})
		out := r.puts(t, asker, 6, 100)
		out = append(out, r.puts(t, otherAsker, 6, 5000)...)
		begin := time.Now()
		if err := r.node.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 12*time.Second {
			t.Errorf("it took %v", d)
		}
		for k, w := range were(out) {
			if w != "taken" && w != "dropped" {
				t.Errorf("message %d: %s", k, w)
			}
		}
		sound(t, "afterwards", r.node)
	})
}

// A message to an unreachable net among routers that each have a route through the next
// one. There is no hop count. A message is never sent back to the node that sent it, so
// it ends with two routers (decisions 23); but among three it circulates until something
// fails. Then all resources are released.
//
// lnet-core 9.3 back
func TestRoutersPointAtEachOther(t *testing.T) {
	nids := func(k int, nets ...string) (out []string) {
		for _, net := range nets {
			out = append(out, "10.77."+net[3:]+"."+string(rune('1'+k))+"@"+net)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		routers [][]string // their NIDs; each has a route to tcp9 through the next one's first NID
		ends    bool       // without intervention
	}{
		{"two on one net", [][]string{nids(0, "tcp5", "tcp6"), nids(1, "tcp5", "tcp7")}, true},
		{"two on two nets", [][]string{nids(0, "tcp5", "tcp6"), nids(1, "tcp5", "tcp6")}, true},
		{"three", [][]string{nids(0, "tcp5", "tcp6"), nids(1, "tcp5", "tcp6"), nids(2, "tcp5", "tcp6")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, p := newFabric(), node.DefaultParameters()
				var routers []*node.Node
				for _, nids := range c.routers {
					n := newNode(t, node.Config{Parameters: &p, Routing: true})
					for _, nid := range nids {
						f.addNI(t, n, nid)
					}
					routers = append(routers, n)
				}
				client := newNode(t, node.Config{Parameters: &p})
				f.addNI(t, client, "10.77.5.99@tcp5")
				for k, n := range routers {
					addRoute(t, n, "tcp9", c.routers[(k+1)%len(routers)][0], node.RouteOptions{Hops: 2})
				}
				addRoute(t, client, "tcp9", c.routers[0][0], node.RouteOptions{Hops: 2})
				hops := 0
				const limit = 1000
				f.failBy(func(tx *lnd.Tx) error {
					if tx.Header.Dest.Net() != parseNet(t, "tcp9") {
						return nil
					}
					if hops++; hops > limit {
						return fault(lnd.StatusRemoteTimeout, tx.To.NID, lnd.ErrUnreachable)
					}
					return nil
				})
				if err := ping(client, process(t, "10.77.9.9@tcp9"), lnet.NID{}); err == nil {
					t.Error("answered")
				}
				synctest.Wait()
				if ends := hops < 10; ends != c.ends {
					t.Errorf("%d hops", hops)
				}
				for _, n := range routers {
					sound(t, "router", n)
				}
			})
		})
	}
}

// A gateway's NID moves to another node. The routes move with it, and of two routes to
// one net the better one remains.
func TestGatewaysNIDMoves(t *testing.T) {
	const moving, other, otherFar = "10.77.0.3@tcp", "10.77.0.2@tcp", "10.77.1.2@tcp1"
	for _, duplicate := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuided(t, node.DefaultParameters(), moving)
			b := newActor(t, g.fabric, other, otherFar)
			addRoute(t, g.node, "tcp1", moving, node.RouteOptions{})
			addRoute(t, g.node, "tcp2", moving, node.RouteOptions{Hops: 2})
			if duplicate {
				addRoute(t, g.node, "tcp1", other, node.RouteOptions{})
			} else {
				addRoute(t, g.node, "tcp5", other, node.RouteOptions{Hops: 2})
			}
			nid := parseNID(t, moving)
			g.gateway.tell(func(info *lnet.PingInfo) {
				info.NIs = slices.DeleteFunc(info.NIs, func(i lnet.PingNI) bool { return i.NID == nid })
				info.Seq++
			})
			b.tell(func(info *lnet.PingInfo) {
				info.NIs = append(info.NIs, lnet.PingNI{NID: nid, Status: lnet.StatusUp})
				info.Seq++
			})
			g.fabric.mu.Lock()
			p := g.gateway.ports[2]
			p.upper = &stage{actor: b, port: p}
			g.fabric.mu.Unlock()
			time.Sleep(5 * time.Minute)

			owner, _ := g.node.Peer(nid)
			if owner.Primary != parseNID(t, other) || !owner.Gateway {
				t.Errorf("the NID belongs to %+v", owner)
			}
			if r := routeTo(t, g.node, "tcp1"); !r.Up || duplicate && r.Gateway != parseNID(t, other) {
				t.Errorf("duplicate %v: %+v", duplicate, r)
			}
			if r := routeTo(t, g.node, "tcp2"); !r.Up {
				t.Errorf("duplicate %v: %+v", duplicate, r)
			}
			g.gateway.take()
			b.take()
			_ = ping(g.node, process(t, "10.77.2.9@tcp2"), lnet.NID{})
			used := slices.ContainsFunc(b.take(), func(a arrived) bool { return a.header.Dest.Net() == parseNet(t, "tcp2") })
			if !used {
				t.Error("the new owner got nothing to forward")
			}
			ctx := context.Background()
			if p, _ := g.node.Peer(parseNID(t, gatewayNear)); p.Gateway {
				// The routes may still belong to the first owner, which has other NIDs.
				t.Errorf("the old owner is still a gateway: %+v; routes %+v", p, g.node.Admin().Routes())
			}
			if err := g.node.Admin().DeletePeer(ctx, parseNID(t, gatewayNear)); err != nil {
				t.Errorf("delete the old owner: %v", err)
			}
			if err := g.node.Admin().DeleteRoute(ctx, 0, nid); err != nil || len(g.node.Admin().Routes()) != 0 {
				t.Errorf("delete its routes: %v, %+v", err, g.node.Admin().Routes())
			}
			if err := g.node.Admin().DeletePeer(ctx, parseNID(t, other)); err != nil {
				t.Errorf("delete the new owner: %v", err)
			}
		})
	}
}

// Everything concurrently: neighbours that send and whose connections are lost, a far
// side that fails at random, pools that are resized, routing that is turned off and on,
// peers that are deleted. In the end all resources are released.
func TestRouterInAStorm(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			r := newHanded(t, node.Buffers{Tiny: 2, Small: 3, Large: 1}, lnd.Tunables{PeerCredits: 3, Credits: 5})
			const messages = 1000
			askers := []string{asker, otherAsker, "10.77.0.12@tcp", "10.77.0.13@tcp"}
			sizes := []int{0, 1, 100, 4096, 5000}
			var all [4][]*arrival
			var senders, others sync.WaitGroup
			done := make(chan struct{})
			for k, from := range askers {
				senders.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(k)))
					for range messages {
						time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
						to := behind
						if rng.IntN(3) == 0 {
							to = "10.77.1.21@tcp1"
						}
						a := r.near.message(t, lnet.MsgPut, from, to, sizes[rng.IntN(len(sizes))])
						all[k] = append(all[k], a)
						if rng.IntN(4) == 0 {
							all[k][rng.IntN(len(all[k]))].withdrawOnce()
						}
					}
				})
			}
			until := func(step func(rng *rand.Rand)) {
				others.Go(func() {
					rng := rand.New(rand.NewPCG(seed, 77))
					for {
						select {
						case <-done:
							return
						default:
							step(rng)
							time.Sleep(time.Duration(1+rng.IntN(20)) * time.Millisecond)
						}
					}
				})
			}
			until(func(rng *rand.Rand) {
				var err error
				switch rng.IntN(5) {
				case 0:
					err = fault(lnd.StatusLocalDropped, parseNID(t, behind), lnd.ErrUnreachable)
				case 1:
					err = fault(lnd.StatusRemoteError, parseNID(t, behind), lnd.ErrUnreachable)
				}
				r.far.finish(1+rng.IntN(3), err)
			})
			until(func(rng *rand.Rand) {
				r.node.Admin().SetBuffers(node.Buffers{Tiny: 1 + rng.IntN(3), Small: 1 + rng.IntN(6), Large: 1 + rng.IntN(2)})
			})
			until(func(rng *rand.Rand) {
				switch rng.IntN(8) {
				case 0:
					_ = r.node.Admin().ForceDeletePeer(context.Background(), parseNID(t, askers[rng.IntN(4)]))
				case 1:
					r.far.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, behind), Err: lnd.ErrUnreachable})
				case 2:
					if rng.IntN(20) == 0 {
						r.node.Admin().DisableRouting()
					}
				default:
					_ = r.node.Admin().EnableRouting() // may be busy
				}
			})
			senders.Wait()
			close(done)
			others.Wait()
			for range 100 {
				time.Sleep(time.Second)
				r.far.finish(1000, nil)
			}
			synctest.Wait()
			for _, sent := range all {
				for k, w := range were(sent) {
					if w != "taken" && w != "dropped" && w != "failed" {
						t.Fatalf("seed %d: message %d: %s", seed, k, w)
					}
				}
			}
			r.sound(t, "after the storm")
			if err := r.node.Admin().EnableRouting(); err != nil {
				t.Fatal(err)
			}
			for _, from := range askers {
				expect(t, "it forwards as ever", r.puts(t, from, 1, 100), 1, 0)
				r.sound(t, "at last")
			}
		})
	}
}
