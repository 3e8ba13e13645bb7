package node_test

import (
	"context"
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

// Given a gateway with a NID on a net that we are not on, when a message is for that NID,
// then it is addressed to the gateway's NID on our net, whether discovery has merged the
// two or not. A kernel would close the connections otherwise.
//
// lnet-core 5.2 (3b)
func TestFarNIDsOfAGateway(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  discovery.Mode
		multi bool // the gateway is a multi-rail node
	}{
		{"discovery on", discovery.On, true},
		{"discovery off", discovery.Off, true},
		{"no multi-rail gateway", discovery.On, false},
	} {
		for _, given := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := node.DefaultParameters()
					p.Discovery = c.mode
					g := newGuided(t, p)
					g.gateway.tell(func(info *lnet.PingInfo) {
						if !c.multi {
							info.Features &^= lnet.FeatMultiRail
						}
					})
					addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
					time.Sleep(2 * time.Second)
					g.gateway.take()
					source := lnet.NID{}
					if given {
						source = g.port.nid
					}
					ctx := context.Background()
					to := process(t, gatewayFar)
					if err := ping(g.node, to, source); err != nil {
						t.Errorf("ping: %v", err)
					}
					if _, err := g.node.PutWait(ctx, []byte("a"), to, node.PutOptions{Portal: 4, Ack: true, Source: source}); err != nil {
						t.Errorf("put: %v", err)
					}
					if _, err := g.node.ForceDiscover(ctx, to.NID); err != nil {
						t.Errorf("discover: %v", err)
					}
					came := g.gateway.take()
					if len(came) < 3 {
						t.Errorf("the gateway got %d messages", len(came))
					}
					for _, a := range came {
						if a.header.Dest != parseNID(t, gatewayNear) {
							t.Errorf("%s on portal %d for %s came over %s", a.header.Type, a.header.Portal, a.header.Dest, a.over)
						}
					}
					if e := g.node.Admin().Explain(to.NID, node.ExplainOptions{Source: source}); e.Err != nil ||
						len(e.Steps) == 0 || !strings.Contains(e.Steps[0].What, "belongs to the gateway "+gatewayNear) {
						t.Errorf("explained: %v, %+v", e.Err, e.Steps)
					}
				})
			})
		}
	}
}

// A NID that a gateway no longer reports is not its NID any more. Neither is a NID that
// belongs to another node, or one on a net of ours.
func TestNIDsThatAGatewayHasNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.Discovery = discovery.Off
		g := newGuided(t, p)
		newActor(t, g.fabric, "10.77.0.30@tcp")
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		const lie = "10.77.1.31@tcp1"
		if err := g.node.Admin().ConfigurePeer(context.Background(), parseNID(t, "10.77.2.31@tcp2"), []lnet.NID{parseNID(t, lie)},
			discovery.ConfigureOptions{}); err != nil {
			t.Fatal(err)
		}
		say := func(nids ...string) {
			g.gateway.tell(func(info *lnet.PingInfo) {
				info.NIs = nil
				for _, s := range append([]string{gatewayNear}, nids...) {
					info.NIs = append(info.NIs, lnet.PingNI{NID: parseNID(t, s), Status: lnet.StatusUp})
				}
				info.Seq++
			})
			time.Sleep(130 * time.Second) // after the next check
			g.gateway.take()
		}
		dest := func(to string) string {
			t.Helper()
			if err := ping(g.node, process(t, to), lnet.NID{}); err != nil {
				t.Errorf("ping of %s: %v", to, err)
			}
			for _, a := range g.gateway.take() {
				return a.header.Dest.String()
			}
			return "" // it was not sent through the gateway
		}
		say(gatewayFar, lie, "10.77.0.30@tcp")
		for to, want := range map[string]string{gatewayFar: gatewayNear, lie: lie, "10.77.0.30@tcp": "", behind: behind} {
			if got := dest(to); got != want {
				t.Errorf("a message for %s went to %q, want %q", to, got, want)
			}
		}
		say()
		if got := dest(gatewayFar); got != gatewayFar {
			t.Errorf("no NID of the gateway's any more: a message for it went to %q", got)
		}
	})
}

// A router does the same with messages that it forwards to the next router.
func TestFarNIDsOfTheNextRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.Discovery = discovery.Off
		g := newGuided(t, p)
		if err := g.node.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		in := g.fabric.addNI(t, g.node, "10.77.3.10@tcp3")
		addRoute(t, g.node, "tcp1", gatewayNear, node.RouteOptions{})
		g.gateway.take()
		err := in.inject(parseNID(t, "10.77.3.20@tcp3"), lnet.Header{
			Src: parseNID(t, "10.77.3.20@tcp3"), Dest: parseNID(t, gatewayFar), Type: lnet.MsgPut, Portal: 4, Handle: lnet.NoHandle,
		}, nil)
		synctest.Wait()
		came := g.gateway.take()
		if err != nil || len(came) != 1 || came[0].header.Dest != parseNID(t, gatewayNear) {
			t.Errorf("%v, the next router got %+v", err, came)
		}
	})
}

// Given a router, when a message for one of its NIDs arrives over another net, then it is
// dropped and counted. If it is a ping, it shows that the net is alive. The connections
// stay open.
//
// lnet-core 5.2 (2), 5.2 (3b)
func TestMessageForAnotherNIDOfTheRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{})
		time.Sleep(3 * time.Minute)
		if s := statuses(r.node); s[gatewayNear] != lnet.StatusDown {
			t.Fatalf("nobody pings: %v", s)
		}
		before := r.node.Admin().Counters()
		stray := []*arrival{
			r.near.message(t, lnet.MsgPut, asker, gatewayFar, 100),
			r.near.message(t, lnet.MsgAck, asker, gatewayFar, 0),
		}
		get := &arrival{hand: r.near}
		get.rx = lnd.Rx{From: process(t, asker), Driver: get}
		get.rx.Header = lnet.Header{
			Type: lnet.MsgGet, Src: parseNID(t, asker), Dest: parseNID(t, gatewayFar), SrcPID: lnet.PIDLustre,
			DestPID: lnet.PIDLustre, Portal: lnet.ReservedPortal, MatchBits: lnet.PingMatchBits, Length: lnet.PingBufferMin,
		}
		if err := r.near.upper.Arrived(&get.rx); err != nil {
			t.Errorf("a ping: %v", err)
		}
		synctest.Wait()
		if got := were(append(stray, get)); !slices.Equal(got, []string{"dropped", "dropped", "dropped"}) {
			t.Errorf("strays: %v", got)
		}
		if c := r.node.Admin().Counters(); c.Dropped != before.Dropped+3 || c.DroppedBytes != before.DroppedBytes+100 {
			t.Errorf("%d dropped, %d bytes", c.Dropped-before.Dropped, c.DroppedBytes-before.DroppedBytes)
		}
		if d := r.node.Admin().Drops(); d[node.DropOtherNI] != 3 || d.Total() != 3 {
			t.Errorf("dropped by reason: %v", d)
		}
		if s := statuses(r.node); s[gatewayNear] != lnet.StatusUp || s[gatewayFar] != lnet.StatusDown {
			t.Errorf("one has pinged: %v", s)
		}
		expect(t, "others", r.puts(t, otherAsker, 1, 100), 1, 0)
		r.sound(t, "afterwards")
	})
}
