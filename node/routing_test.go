package node_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// routed is a client on tcp, a server on tcp1, and routers on both.
type routed struct {
	fabric         *fabric
	client, server *node.Node
	routers        []*node.Node
	ports          [][2]*port // of the routers
	ids            lnet.ProcessID
	memory         []byte // of the server's MD
}

// routerNIDs are the NIDs of the routers.
var routerNIDs = [][2]string{{"10.77.0.1@tcp", "10.77.1.1@tcp1"}, {"10.77.0.2@tcp", "10.77.1.2@tcp1"}}

func parseNet(t testing.TB, s string) lnet.Net {
	t.Helper()
	net, err := lnet.ParseNet(s)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

func newRouted(t testing.TB, routers int, p node.Parameters) *routed {
	t.Helper()
	r := &routed{fabric: newFabric(), memory: make([]byte, lnet.MTU), ids: process(t, "10.77.1.20@tcp1")}
	add := func(routing bool) *node.Node {
		p := p
		return newNode(t, node.Config{Parameters: &p, Routing: routing, Seed: 1})
	}
	for k := range routers {
		n := add(true)
		r.routers = append(r.routers, n)
		r.ports = append(r.ports, [2]*port{r.fabric.addNI(t, n, routerNIDs[k][0]), r.fabric.addNI(t, n, routerNIDs[k][1])})
	}
	r.client, r.server = add(false), add(false)
	r.fabric.addNI(t, r.client, "10.77.0.10@tcp")
	r.fabric.addNI(t, r.server, "10.77.1.20@tcp1")
	for k := range routers {
		r.addRoutes(t, k)
	}
	attach(t, r.server, portals.Entry{Portal: 4, Match: lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDAny}}, portals.MD{
		Bytes: r.memory, Options: portals.OpPut | portals.OpGet | portals.ManageRemote, Threshold: portals.Unlimited,
	})
	return r
}

func (r *routed) addRoutes(t testing.TB, k int) {
	t.Helper()
	ctx := context.Background()
	if err := r.client.Admin().AddRoute(ctx, parseNet(t, "tcp1"), parseNID(t, routerNIDs[k][0]), node.RouteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Admin().AddRoute(ctx, parseNet(t, "tcp"), parseNID(t, routerNIDs[k][1]), node.RouteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// put sends b to the server and waits for the ACK.
func (r *routed) put(t testing.TB, b []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	n, err := r.client.PutWait(ctx, b, r.ids, node.PutOptions{Portal: 4, Ack: true})
	if err == nil && n != len(b) {
		t.Errorf("the server took %d bytes of %d", n, len(b))
	}
	return err
}

// A PUT and a GET of each size through a router. Their headers contain the client's NI and
// the server on the whole path; the client's driver gets the router's NID and PID 12345.
//
// selection 5.7 (4)
func TestRoutedPutAndGet(t *testing.T) {
	type hop struct {
		src, dest lnet.NID
		destPID   lnet.PID
		to        lnet.ProcessID
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t, 1, node.DefaultParameters())
		r.ids.PID = 77
		client, router := parseNID(t, "10.77.0.10@tcp"), process(t, routerNIDs[0][0])
		near, far := hop{client, r.ids.NID, 77, router}, hop{client, r.ids.NID, 77, r.ids}
		var hops, want []hop
		r.fabric.failBy(func(tx *lnd.Tx) error {
			if h := &tx.Header; (h.Type == lnet.MsgPut || h.Type == lnet.MsgGet) && h.Portal == 4 {
				hops = append(hops, hop{h.Src, h.Dest, h.DestPID, tx.To})
			}
			return nil
		})
		for _, size := range []int{0, 1, 4096, 4097, lnet.MTU} {
			b := bytes.Repeat([]byte{byte(size), 7}, size)[:size]
			if err := r.put(t, b); err != nil {
				t.Fatalf("put of %d bytes: %v", size, err)
			}
			if !bytes.Equal(r.memory[:size], b) {
				t.Errorf("put of %d bytes: the server has something else", size)
			}
			got := make([]byte, size)
			n, err := r.client.GetWait(context.Background(), got, r.ids, node.GetOptions{Portal: 4})
			if err != nil || n != size || !bytes.Equal(got, b) {
				t.Errorf("get of %d bytes: %d, %v, or something else came", size, n, err)
			}
			want = append(want, near, far, near, far)
		}
		synctest.Wait()
		if d := cmp.Diff(want, hops, cmp.AllowUnexported(hop{}), sameNID); d != "" {
			t.Errorf("requests (-want +got):\n%s", d)
		}
		c := r.routers[0].Admin().Counters()
		t.Logf("router: %+v", c)
		if c.Routed < 20 || c.RoutedBytes < 2*lnet.MTU {
			t.Errorf("the router has forwarded %d messages, %d bytes", c.Routed, c.RoutedBytes)
		}
		for _, p := range r.routers[0].Admin().Routing().Pools {
			if p.Credits != p.Buffers {
				t.Errorf("buffers are missing: %+v", p)
			}
		}
		for _, p := range r.client.Peers() {
			t.Logf("client knows %s %v", p.Primary, p.State)
		}
		for _, p := range r.routers[0].Peers() {
			t.Logf("router knows %s %v", p.Primary, p.State)
		}
		t.Logf("%+v", r.client.Admin().Routes())
	})
}

// lnet-core 9.1 (1)
func TestRouterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t, 1, node.DefaultParameters())
		if err := r.put(t, []byte("a")); err != nil {
			t.Fatal(err)
		}
		r.routers[0].Admin().DisableRouting()
		if s := r.routers[0].Admin().Routing().State; s != node.RoutingStopping {
			t.Errorf("state %d", s)
		}
		time.Sleep(5 * time.Second)
		if s := r.routers[0].Admin().Routing().State; s != node.RoutingDisabled {
			t.Errorf("state %d", s)
		}
		err := r.put(t, []byte("b"))
		t.Log(err)
		if !errors.Is(err, node.ErrUnreachable) {
			t.Errorf("put: %v", err)
		}
		if err := r.routers[0].Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(112 * time.Second)
		if s := r.routers[0].Admin().Routing().State; s != node.RoutingEnabled {
			t.Errorf("state %d", s)
		}
		if err := r.put(t, []byte("c")); err != nil {
			t.Errorf("put: %v", err)
		}
	})
}

// lnet-core 8.2 (1)
// selection 5.5 (3)-(4), 5.5 compare (7)
func TestTwoRoutersShareAndStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.RouterCheckInterval = 10 * time.Second
		r := newRouted(t, 2, p)
		forwarded := func(k int) uint64 { return r.routers[k].Admin().Counters().Routed }
		for range 100 {
			if err := r.put(t, []byte("a")); err != nil {
				t.Fatal(err)
			}
		}
		for k := range r.routers {
			if n := forwarded(k); n < 95 || n > 115 {
				t.Errorf("router %d has forwarded %d", k, n)
			}
		}
		// One router stops. Messages that it has not received go through the other one.
		if err := r.routers[0].Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := r.put(t, []byte("a")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(25 * time.Second) // it is checked and found dead
		for _, route := range r.client.Admin().Routes() {
			if up := route.Gateway == parseNID(t, routerNIDs[1][0]); route.Up != up {
				t.Errorf("route by %s: up %v", route.Gateway, route.Up)
			}
		}
		// It returns and gets its share again.
		p = node.DefaultParameters()
		again := newNode(t, node.Config{Parameters: &p, Routing: true})
		r.fabric.addNI(t, again, routerNIDs[0][0])
		r.fabric.addNI(t, again, routerNIDs[0][1])
		time.Sleep(25 * time.Second)
		for range 100 {
			if err := r.put(t, []byte("a")); err != nil {
				t.Fatal(err)
			}
		}
		if n := again.Admin().Counters().Routed; n < 80 {
			t.Errorf("the router that came back has forwarded %d", n)
		}
	})
}

// lnet-core 8.1 add (1)-(3), 8.1 net, 8.1 peer, 8.1 delete
// lnetctl 4.6 (2)
func TestRoutesThatMakeNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{})
		f.addNI(t, n, "10.77.0.10@tcp")
		ctx := context.Background()
		gateway := parseNID(t, "10.77.0.1@tcp")
		for _, c := range []struct {
			name    string
			net     string
			gateway lnet.NID
			o       node.RouteOptions
			err     error
		}{
			{"any gateway", "tcp1", lnet.AnyNID, node.RouteOptions{}, node.ErrInvalid},
			{"no gateway", "tcp1", lnet.NID{}, node.RouteOptions{}, node.ErrInvalid},
			{"0@lo as gateway", "tcp1", lnet.LoopbackNID, node.RouteOptions{}, node.ErrInvalid},
			{"this node as gateway", "tcp1", parseNID(t, "10.77.0.10@tcp"), node.RouteOptions{}, node.ErrInvalid},
			{"gateway on the net", "tcp", gateway, node.RouteOptions{}, node.ErrInvalid},
			{"the net lo", "lo", gateway, node.RouteOptions{}, node.ErrInvalid},
			{"too many hops", "tcp1", gateway, node.RouteOptions{Hops: 256}, node.ErrInvalid},
			{"a local net", "tcp", parseNID(t, "10.77.0.1@tcp9"), node.RouteOptions{}, node.ErrExists},
			{"a gateway far away", "tcp1", parseNID(t, "10.77.0.1@tcp9"), node.RouteOptions{}, node.ErrUnreachable},
			{"a good one", "tcp1", gateway, node.RouteOptions{Hops: 255, Priority: 3}, nil},
			{"the same again", "tcp1", gateway, node.RouteOptions{}, node.ErrExists},
		} {
			if err := n.Admin().AddRoute(ctx, parseNet(t, c.net), c.gateway, c.o); !errors.Is(err, c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		_, err := n.AddNI(ctx, &driver{fabric: f, typ: lnet.TypeTCP}, lnd.Config{Net: parseNet(t, "tcp1"), NID: parseNID(t, "10.77.1.10@tcp1")})
		if !errors.Is(err, node.ErrRouted) {
			t.Errorf("an NI on a net with routes: %v", err)
		}
		if err := n.Admin().ForceDeletePeer(ctx, gateway); !errors.Is(err, discovery.ErrBusy) {
			t.Errorf("delete a gateway: %v", err)
		}
		if err := n.Admin().DeleteRoute(ctx, parseNet(t, "tcp2"), gateway); !errors.Is(err, node.ErrNotFound) {
			t.Errorf("delete a route to a net without: %v", err)
		}
		if err := n.Admin().DeleteRoute(ctx, parseNet(t, "tcp1"), parseNID(t, "10.77.0.2@tcp")); err != nil || len(n.Admin().Routes()) != 1 {
			t.Errorf("delete a route by another gateway: %v", err)
		}
		if err := n.Admin().DeleteRoute(ctx, parseNet(t, "tcp1"), gateway); err != nil || len(n.Admin().Routes()) != 0 {
			t.Errorf("delete: %v", err)
		}
		if err := n.Admin().DeletePeer(ctx, gateway); err != nil {
			t.Errorf("delete what was a gateway: %v", err)
		}
	})
}

// lnet-core 12.5
// discovery 8.3 routes
// lnetctl 4.3 (2)
func TestRoutesGoWithTheirGatewaysNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{})
		f.addNI(t, n, "10.77.0.10@tcp")
		f.addNI(t, n, "10.77.3.10@tcp3")
		ctx := context.Background()
		for _, r := range [][2]string{{"tcp1", "10.77.0.1@tcp"}, {"tcp2", "10.77.0.1@tcp"}, {"tcp1", "10.77.3.1@tcp3"}} {
			if err := n.Admin().AddRoute(ctx, parseNet(t, r[0]), parseNID(t, r[1]), node.RouteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.RemoveNI(ctx, parseNID(t, "10.77.0.10@tcp")); err != nil {
			t.Fatal(err)
		}
		if routes := n.Admin().Routes(); len(routes) != 1 || routes[0].Gateway != parseNID(t, "10.77.3.1@tcp3") {
			t.Errorf("routes %+v", routes)
		}
		for _, p := range n.Peers() {
			if p.Primary.Net() == parseNet(t, "tcp") {
				t.Errorf("peer %s is still there", p.Primary)
			}
		}
	})
}

// A router without a free buffer slows its neighbours down, and no message is lost.
//
// lnet-core 7.4 (2), 7.4 return (1)
func TestRouterWithFewBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t, 1, node.DefaultParameters())
		r.routers[0].Admin().SetBuffers(node.Buffers{Tiny: 1, Small: 1, Large: 1})
		if err := r.put(t, []byte("a")); err != nil { // all nodes discover each other
			t.Fatal(err)
		}
		q := node.NewEventQueue(node.EventsOf(portals.EventAck))
		const messages = 64
		for k := range messages {
			size := []int{0, 100, 10000, lnet.MTU}[k%4]
			h := bind(t, r.client, portals.MD{Bytes: make([]byte, size), Threshold: 2, Unlink: true, Handler: q})
			put(t, r.client, h, r.ids, node.PutOptions{Portal: 4, Ack: true})
		}
		for done := 0; done < messages; {
			var e portals.Event
			if err := q.Next(context.Background(), &e); err != nil || e.Err != nil {
				t.Fatal(err, e.Err)
			}
			if e.Type == portals.EventAck {
				done++
			}
		}
		for _, p := range r.routers[0].Admin().Routing().Pools {
			if p.Buffers != 1 || p.Credits != 1 {
				t.Errorf("pool %+v", p)
			}
		}
		r.routers[0].Admin().SetBuffers(node.Buffers{Tiny: -1, Small: 7})
		for k, want := range []int{1, 7, 1024} {
			if p := r.routers[0].Admin().Routing().Pools[k]; p.Buffers != want || p.Credits != want {
				t.Errorf("pool %+v; want %d buffers", p, want)
			}
		}
	})
}

// lnet-core 9.2 silent, 9.2 heard
func TestRouterCallsSilentNetsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		r := newRouted(t, 1, p)
		if err := r.put(t, []byte("a")); err != nil {
			t.Fatal(err)
		}
		// The server is closed; the client continues to check the router.
		if err := r.server.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		status := map[lnet.NID]lnet.NIStatus{}
		for _, i := range r.routers[0].NIs() {
			status[i.NID] = i.Status
		}
		if status[r.ports[0][0].nid] != lnet.StatusUp || status[r.ports[0][1].nid] != lnet.StatusDown {
			t.Errorf("statuses %v", status)
		}
		if routes := r.client.Admin().Routes(); routes[0].Up {
			t.Errorf("the client still uses a router that is down on the other side: %+v", routes)
		}
		// Another node pings on that side.
		p = node.DefaultParameters()
		other := newNode(t, node.Config{Parameters: &p})
		r.fabric.addNI(t, other, "10.77.1.21@tcp1")
		if _, err := other.Ping(context.Background(), process(t, routerNIDs[0][1]), node.PingOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if s := r.routers[0].NIs()[2].Status; s != lnet.StatusUp {
			t.Errorf("status %v", s)
		}
		if routes := r.client.Admin().Routes(); !routes[0].Up {
			t.Errorf("the client was not told: %+v", routes)
		}
	})
}

// lnet-core 5.2 (6c), 5.2 (6a)
func TestDropAsymRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t, 2, node.DefaultParameters())
		if err := r.put(t, []byte("a")); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := r.server.Admin().DeleteRoute(ctx, parseNet(t, "tcp"), parseNID(t, routerNIDs[0][1])); err != nil {
			t.Fatal(err)
		}
		p := r.server.Admin().Parameters()
		p.DropAsymRoute = true
		if err := r.server.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := r.server.Admin().Counters()
		for range 10 {
			h := bind(t, r.client, portals.MD{Bytes: []byte("b"), Threshold: 1, Unlink: true})
			put(t, r.client, h, r.ids, node.PutOptions{Portal: 4})
		}
		synctest.Wait()
		c := r.server.Admin().Counters()
		if got, lost := c.Received-before.Received, c.Dropped-before.Dropped; got != 5 || lost != 5 {
			t.Errorf("%d received, %d dropped", got, lost)
		}
	})
}

// Routers are checked before their first use.
//
// lnet-core 8.2 fresh, 8.5 before
func TestCheckRoutersBeforeUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		p.CheckRoutersBeforeUse = true
		n := newNode(t, node.Config{Parameters: &p})
		f.addNI(t, n, "10.77.0.10@tcp")
		f.hold(true)
		if err := n.Admin().AddRoute(context.Background(), parseNet(t, "tcp1"), parseNID(t, routerNIDs[0][0]), node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		if n.Admin().Routes()[0].Up {
			t.Error("an unchecked route is up")
		}
		p = node.DefaultParameters()
		router := newNode(t, node.Config{Parameters: &p, Routing: true})
		f.addNI(t, router, routerNIDs[0][0])
		f.addNI(t, router, routerNIDs[0][1])
		f.hold(false)
		time.Sleep(5 * time.Second)
		if !n.Admin().Routes()[0].Up {
			t.Error("a checked route is down")
		}
	})
}

// A message is not sent back to the neighbour from which it came.
//
// lnet-core 9.3 back
func TestRouterSendsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		r := newRouted(t, 1, p)
		// The router has a route to tcp2 through the client.
		if err := r.routers[0].Admin().AddRoute(context.Background(), parseNet(t, "tcp2"), parseNID(t, "10.77.0.10@tcp"), node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := r.client.Admin().AddRoute(context.Background(), parseNet(t, "tcp2"), parseNID(t, routerNIDs[0][0]), node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := r.routers[0].Admin().Counters().Dropped
		sent := 0
		r.fabric.sent = func(h lnet.Header, _ []byte) {
			if h.Dest.Net() == parseNet(t, "tcp2") {
				sent++
			}
		}
		h := bind(t, r.client, portals.MD{Bytes: []byte("b"), Threshold: 1, Unlink: true})
		put(t, r.client, h, process(t, "10.77.2.9@tcp2"), node.PutOptions{Portal: 4})
		time.Sleep(10 * time.Minute)
		if d := r.routers[0].Admin().Counters().Dropped - before; sent == 0 || d != uint64(sent) {
			t.Errorf("%d messages to tcp2 on the wire, %d dropped", sent, d)
		}
	})
}
