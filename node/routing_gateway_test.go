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
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// guided is a node on tcp with an actor as its gateway to tcp1.
type guided struct {
	fabric  *fabric
	node    *node.Node
	port    *port
	gateway *actor
}

const (
	gatewayNear = "10.77.0.1@tcp"
	gatewayFar  = "10.77.1.1@tcp1"
	behind      = "10.77.1.20@tcp1" // a node on the far net
)

func newGuided(t testing.TB, p node.Parameters, also ...string) *guided {
	t.Helper()
	g := &guided{fabric: newFabric()}
	g.node = newNode(t, node.Config{Parameters: &p})
	g.port = g.fabric.addNI(t, g.node, "10.77.0.10@tcp")
	g.gateway = newActor(t, g.fabric, append([]string{gatewayNear, gatewayFar}, also...)...)
	return g
}

// bring makes the gateway deliver a PUT on portal 4 from a NID.
func (g *guided) bring(t testing.TB, from string) {
	t.Helper()
	g.gateway.send(0, g.port.nid, lnet.Header{
		Src: parseNID(t, from), Dest: g.port.nid, Type: lnet.MsgPut, Portal: 4, Handle: lnet.NoHandle,
	}, nil)
	synctest.Wait()
}

// takesPuts attaches an MD for PUTs on portal 4, and records the events.
func takesPuts(t testing.TB, n *node.Node) *recorder {
	t.Helper()
	r := &recorder{}
	attach(t, n, portals.Entry{Portal: 4, Match: lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDAny}}, portals.MD{
		Bytes: make([]byte, 4096), Options: portals.OpPut | portals.ManageRemote, Threshold: portals.Unlimited, Handler: r,
	})
	return r
}

// lnet-core 8.2 fresh, 8.1 shown
// lnet-wire 8 (1)
func TestFreshRoute(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // CheckRoutersBeforeUse
		multi  bool // the gateway was configured as a multi-rail peer
		up     bool
	}{
		{"a new gateway", false, false, true},
		{"routers are checked before use", true, false, false},
		{"a gateway that is known to be multi-rail", false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := node.DefaultParameters()
				p.CheckRoutersBeforeUse = c.before
				g := newGuided(t, p)
				ctx := context.Background()
				if c.multi {
					err := g.node.Admin().ConfigurePeer(ctx, parseNID(t, gatewayNear), []lnet.NID{parseNID(t, gatewayFar)},
						discovery.ConfigureOptions{})
					if err != nil {
						t.Fatal(err)
					}
				}
				g.gateway.set(&g.gateway.silent, true)
				addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
				if r := routeTo(t, g.node, "tcp1"); r.Up != c.up {
					t.Errorf("unchecked: %+v", r)
				}
				g.gateway.take()
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := g.node.Ping(ctx, process(t, behind), node.PingOptions{})
				used := false
				for _, a := range g.gateway.take() {
					used = used || a.header.Dest == parseNID(t, behind)
				}
				if used != c.up || errors.Is(err, node.ErrUnreachable) == c.up {
					t.Errorf("ping: %v; the gateway had it: %v", err, used)
				}
				g.gateway.set(&g.gateway.silent, false)
				time.Sleep(4 * time.Minute) // the unanswered check ends, and the next one finds it up
				if r := routeTo(t, g.node, "tcp1"); !r.Up {
					t.Errorf("checked: %+v", r)
				}
			})
		})
	}
}

// discovery 7.1 (1), 7.1 (8)
// lnet-core 8.2 (1)-(5), 8.3 (1)-(3)
// lnet-wire 8 (1)-(2)
// selection 5.5 (3), 8.4 (55)-(58)
func TestRouteFollowsPingInfo(t *testing.T) {
	const none = lnet.NIStatus(0)
	up, down := lnet.StatusUp, lnet.StatusDown
	for _, kind := range []struct {
		name  string
		mode  discovery.Mode
		multi bool
	}{
		{"multi-rail gateway", discovery.On, true},
		{"gateway that is not multi-rail", discovery.On, false},
		{"discovery is off", discovery.Off, true},
	} {
		for _, c := range []struct {
			name       string
			disabled   bool // the gateway does not forward
			near, far  lnet.NIStatus
			second     lnet.NIStatus // of another far NID
			hops       uint32
			asymmetric bool
			up, single bool
		}{
			{name: "all is well", near: up, far: up, up: true, single: true},
			{name: "it does not forward", disabled: true, near: up, far: up},
			{name: "it does not forward, whatever may be down", disabled: true, near: up, far: up, asymmetric: true},
			{name: "far net down", near: up, far: down, single: true},
			{name: "far net down, two hops said", near: up, far: down, hops: 2, single: true},
			{name: "far net down, which does not matter", near: up, far: down, asymmetric: true, up: true, single: true},
			{name: "one of two far NIDs down", near: up, far: down, second: up, up: true, single: true},
			{name: "the other of two far NIDs down", near: up, far: up, second: down, up: true, single: true},
			{name: "further away", near: up, up: true},
			{name: "further away, two hops said", near: up, hops: 2, up: true},
			{name: "further away, one hop said", near: up, hops: 1},
			{name: "further away, one hop said, which does not matter", near: up, hops: 1, asymmetric: true, up: true},
		} {
			t.Run(kind.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := node.DefaultParameters()
					p.AsymmetricRoutes, p.Discovery = c.asymmetric, kind.mode
					g := newGuided(t, p)
					addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{Hops: c.hops})
					g.gateway.tell(func(info *lnet.PingInfo) {
						if !kind.multi {
							info.Features &^= lnet.FeatMultiRail
						}
						if c.disabled {
							info.Features |= lnet.FeatRoutingDisabled
						}
						info.NIs = []lnet.PingNI{{NID: parseNID(t, gatewayNear), Status: c.near}}
						for k, s := range []lnet.NIStatus{c.far, c.second} {
							if s != none {
								nid := parseNID(t, []string{gatewayFar, "10.77.1.2@tcp1"}[k])
								info.NIs = append(info.NIs, lnet.PingNI{NID: nid, Status: s})
							}
						}
						info.Seq++
					})
					time.Sleep(2 * time.Minute)
					r := routeTo(t, g.node, "tcp1")
					if single := c.single || c.disabled && r.SingleHop; r.Up != c.up || r.SingleHop != single {
						t.Errorf("%+v", r)
					}
				})
			})
		}
	}
}

// The near net is down, as the gateway reports over another one.
//
// lnet-core 8.2 (3), 8.3 (2)
func TestGatewayDownOnTheNearNet(t *testing.T) {
	for _, asymmetric := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := node.DefaultParameters()
			p.AsymmetricRoutes = asymmetric
			g := newGuided(t, p, "10.77.3.1@tcp3")
			g.fabric.addNI(t, g.node, "10.77.3.10@tcp3")
			addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
			if r := routeTo(t, g.node, "tcp1"); !r.Up {
				t.Errorf("%+v", r)
			}
			g.gateway.tell(func(info *lnet.PingInfo) {
				info.NIs[0].Status = lnet.StatusDown
				info.Seq++
			})
			g.gateway.pushBy(t, 2, "10.77.3.10@tcp3")
			synctest.Wait()
			if r := routeTo(t, g.node, "tcp1"); r.Up {
				t.Errorf("asymmetric %v: %+v", asymmetric, r)
			}
			g.bring(t, behind) // a message from it arrives on the near net
			if r := routeTo(t, g.node, "tcp1"); !r.Up {
				t.Errorf("asymmetric %v, heard: %+v", asymmetric, r)
			}
		})
	}
}

// A gateway that does not answer is dead until it answers.
//
// discovery 6.8 gateway
// lnet-core 8.3 end, 8.2 (1)
func TestGatewayThatDoesNotAnswer(t *testing.T) {
	for name, mode := range map[string]discovery.Mode{"discovery on": discovery.On, "discovery off": discovery.Off} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := node.DefaultParameters()
				p.Discovery = mode
				g := newGuided(t, p)
				addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
				addRoute(t, g.node, "tcp2", gatewayNear, node.RouteOptions{})
				state := func(step string, up bool) {
					t.Helper()
					want := node.AliveDown
					if up {
						want = node.AliveUp
					}
					for _, r := range g.node.Admin().Routes() {
						if r.Up != up {
							t.Errorf("%s: %+v", step, r)
						}
					}
					p, _ := g.node.Peer(parseNID(t, gatewayNear))
					for _, i := range p.NIs {
						if i.Aliveness != want {
							t.Errorf("%s: %s is %v", step, i.NID, i.Aliveness)
						}
					}
				}
				state("it answers", true)
				g.gateway.set(&g.gateway.silent, true)
				time.Sleep(4 * time.Minute)
				state("it is silent", false)
				g.gateway.set(&g.gateway.silent, false)
				time.Sleep(5 * time.Minute) // the check under way fails, the next one does not
				state("it answers again", true)
			})
		})
	}
}

// A gateway that delivers messages is busy and not dead, even if its answers to pings are
// late. When it delivers no more messages, it is dead.
func TestBusyGateway(t *testing.T) {
	for name, mode := range map[string]discovery.Mode{"discovery on": discovery.On, "discovery off": discovery.Off} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := node.DefaultParameters()
				p.Discovery = mode
				g := newGuided(t, p)
				takesPuts(t, g.node)
				addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
				g.gateway.set(&g.gateway.silent, true)
				for range 60 {
					g.bring(t, behind)
					time.Sleep(10 * time.Second)
					if r := routeTo(t, g.node, "tcp1"); !r.Up {
						t.Fatalf("%+v", r)
					}
				}
				time.Sleep(6 * time.Minute)
				if r := routeTo(t, g.node, "tcp1"); r.Up {
					t.Errorf("it is silent: %+v", r)
				}
			})
		})
	}
}

// lnet-core 8.4 (1), 8.4 (2), 8.4 (4)-(6)
func TestDriverLosesAGateway(t *testing.T) {
	const other = "10.77.0.2@tcp"
	begin := func(t *testing.T, mode discovery.Mode, ignore bool) *guided {
		p := node.DefaultParameters()
		p.Discovery, p.IgnorePeerDown = mode, ignore
		g := newGuided(t, p)
		newActor(t, g.fabric, other, "10.77.1.2@tcp1", "10.77.2.2@tcp2")
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		addRoute(t, g.node, "tcp2", other, node.RouteOptions{})
		return g
	}
	check := func(t *testing.T, g *guided, step string, up bool) {
		t.Helper()
		synctest.Wait()
		if r := routeTo(t, g.node, "tcp1"); r.Up != up {
			t.Errorf("%s: %+v", step, r)
		}
		if r := routeTo(t, g.node, "tcp2"); !r.Up {
			t.Errorf("%s: the other gateway's route: %+v", step, r)
		}
	}
	lose := func(p *port, nid string) { p.upper.PeerDown(lnd.PeerDown{Peer: mustNID(nid), Err: lnd.ErrUnreachable}) }
	for _, mode := range []discovery.Mode{discovery.On, discovery.Off} {
		t.Run("a gateway, and it is heard again", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := begin(t, mode, false)
				if err := g.node.Admin().SetPeerHealth(parseNID(t, gatewayNear), 300); err != nil {
					t.Fatal(err)
				}
				takesPuts(t, g.node)
				lose(g.port, gatewayNear)
				check(t, g, "lost", false)
				if a := peerNI(t, g.node, gatewayNear).Aliveness; a != node.AliveDown {
					t.Errorf("lost: %v", a)
				}
				g.bring(t, behind)
				check(t, g, "heard again", true)
				if i := peerNI(t, g.node, gatewayNear); i.Aliveness != node.AliveUp || i.Health.Value != node.MaxHealth {
					t.Errorf("heard again: %v, health %d", i.Aliveness, i.Health.Value)
				}
			})
		})
		t.Run("a stranger", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := begin(t, mode, false)
				lose(g.port, "10.77.0.99@tcp")
				check(t, g, "lost", true)
				if _, known := g.node.Peer(parseNID(t, "10.77.0.99@tcp")); known {
					t.Error("it is a peer now")
				}
			})
		})
		t.Run("ignored", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := begin(t, mode, true)
				lose(g.port, gatewayNear)
				check(t, g, "lost", true)
				if a := peerNI(t, g.node, gatewayNear).Aliveness; a != node.AliveUp {
					t.Errorf("lost: %v", a)
				}
			})
		})
	}
	t.Run("a better NI is on the net", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := begin(t, discovery.Off, false)
			second := g.fabric.addNI(t, g.node, "10.77.0.11@tcp")
			g.port.setLink(lnd.LinkDown)
			synctest.Wait()
			lose(g.port, gatewayNear)
			check(t, g, "lost by the NI without link", true)
			if a := peerNI(t, g.node, gatewayNear).Aliveness; a != node.AliveDown {
				t.Errorf("lost: %v", a) // the status changes nevertheless
			}
			lose(second, gatewayNear)
			check(t, g, "lost by the other too", false)
		})
	})
	t.Run("a healthier NI is on the net", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := begin(t, discovery.Off, false)
			g.fabric.addNI(t, g.node, "10.77.0.11@tcp")
			if err := g.node.Admin().SetNIHealth(g.port.nid, 500); err != nil {
				t.Fatal(err)
			}
			lose(g.port, gatewayNear)
			check(t, g, "lost by the NI that is not well", true)
		})
	})
	t.Run("by another NID of the gateway", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := node.DefaultParameters()
			p.Discovery = discovery.Off
			g := newGuided(t, p, "10.77.0.3@tcp")
			err := g.node.Admin().ConfigurePeer(context.Background(), parseNID(t, gatewayNear),
				[]lnet.NID{parseNID(t, "10.77.0.3@tcp")}, discovery.ConfigureOptions{})
			if err != nil {
				t.Fatal(err)
			}
			addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
			lose(g.port, "10.77.0.3@tcp")
			synctest.Wait()
			if r := routeTo(t, g.node, "tcp1"); !r.Up { // it was added with another NID
				t.Errorf("%+v", r)
			}
		})
	})
}

func mustNID(s string) lnet.NID {
	nid, err := lnet.ParseNID(s)
	if err != nil {
		panic(err)
	}
	return nid
}

// lnet-core 5.2 (6), 8.2 (1), 8.3 end
func TestMessagesByADeadGateway(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   discovery.Mode
		from   string
		strict bool // DropAsymRoute
		comes  bool // the message is accepted
		up     bool // and marks the route to tcp1 as up
	}{
		{"from the far net", discovery.On, behind, false, true, true},
		{"from the far net, strict", discovery.On, behind, true, true, true},
		{"from another net: its NI there is up, not that on tcp1", discovery.On, "10.77.2.20@tcp2", false, true, false},
		{"from another net, strict", discovery.On, "10.77.2.20@tcp2", true, false, false},
		{"without discovery", discovery.Off, behind, false, true, true},
		{"without discovery, from another net", discovery.Off, "10.77.2.20@tcp2", false, true, false},
		{"without discovery, from another net, strict", discovery.Off, "10.77.2.20@tcp2", true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := node.DefaultParameters()
				p.Discovery, p.DropAsymRoute = c.mode, c.strict
				g := newGuided(t, p, "10.77.2.1@tcp2")
				took := takesPuts(t, g.node)
				addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
				if c.mode == discovery.Off {
					addRoute(t, g.node, "tcp3", gatewayNear, node.RouteOptions{Hops: 2})
				}
				g.gateway.set(&g.gateway.silent, true)
				time.Sleep(4 * time.Minute)
				if r := routeTo(t, g.node, "tcp1"); r.Up {
					t.Fatalf("%+v", r)
				}
				before := g.node.Admin().Counters().Dropped
				g.bring(t, c.from)
				if n := len(took.take()); n == 1 != c.comes {
					t.Errorf("%d messages came in", n)
				}
				if d := g.node.Admin().Counters().Dropped - before; d == 1 == c.comes {
					t.Errorf("%d dropped", d)
				}
				if r := routeTo(t, g.node, "tcp1"); r.Up != c.up {
					t.Errorf("%+v", r)
				}
				if c.mode == discovery.Off && routeTo(t, g.node, "tcp3").Up {
					t.Error("the route to a net that nothing came from is up")
				}
			})
		})
	}
}

// Only messages for this node are dropped if there is no route back. They are accepted if
// there is one through another NID of the gateway.
//
// lnet-core 5.2 (6c)
func TestAsymmetricRouteOnARouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.DropAsymRoute, p.Discovery = true, discovery.Static
		f := newFabric()
		n := newNode(t, node.Config{Parameters: &p, Routing: true})
		near := f.addNI(t, n, "10.77.0.10@tcp")
		f.addNI(t, n, "10.77.4.10@tcp4")
		took := takesPuts(t, n)
		gateway := newActor(t, f, gatewayNear, "10.77.0.3@tcp")
		target := newActor(t, f, "10.77.4.20@tcp4")
		send := func(dest lnet.NID) {
			gateway.send(0, near.nid, lnet.Header{
				Src: parseNID(t, behind), Dest: dest, Type: lnet.MsgPut, Portal: 4, Handle: lnet.NoHandle,
			}, nil)
			synctest.Wait()
		}
		send(near.nid)
		if got := took.take(); len(got) != 0 {
			t.Errorf("without a way back: %d messages came in", len(got))
		}
		send(target.ports[0].nid)
		if got := target.take(); len(got) != 1 {
			t.Errorf("forwarded: %d messages", len(got))
		}
		// The route back leads through another NID of the same gateway.
		err := n.Admin().ConfigurePeer(context.Background(), parseNID(t, gatewayNear),
			[]lnet.NID{parseNID(t, "10.77.0.3@tcp")}, discovery.ConfigureOptions{})
		if err != nil {
			t.Fatal(err)
		}
		addRoute(t, n, "tcp1", "10.77.0.3@tcp", node.RouteOptions{})
		send(near.nid)
		if got := took.take(); len(got) != 1 {
			t.Errorf("with a way back: %d messages came in", len(got))
		}
	})
}

// If a gateway reports its NI as down, but a message arrives from that NI, the NI is up.
//
// lnet-core 5.2 heard, 10.2
func TestWhoIsHeardIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		f := newFabric()
		n := newNode(t, node.Config{Parameters: &p, Routing: true})
		f.addNI(t, n, "10.77.0.1@tcp")
		a := newActor(t, f, "10.77.0.20@tcp", "10.77.0.21@tcp")
		a.tell(func(info *lnet.PingInfo) { info.NIs[1].Status = lnet.StatusDown })
		if _, err := n.Discover(context.Background(), a.ports[0].nid); err != nil {
			t.Fatal(err)
		}
		if s := peerNI(t, n, "10.77.0.21@tcp").Aliveness; s != node.AliveDown {
			t.Errorf("it said down, and is %v", s)
		}
		a.send(1, parseNID(t, "10.77.0.1@tcp"), lnet.Header{
			Src: a.ports[1].nid, Dest: parseNID(t, "10.77.0.1@tcp"), Type: lnet.MsgPut, Portal: 9, Handle: lnet.NoHandle,
		}, nil)
		synctest.Wait()
		if s := peerNI(t, n, "10.77.0.21@tcp").Aliveness; s != node.AliveUp {
			t.Errorf("it was heard, and is %v", s)
		}
	})
}
