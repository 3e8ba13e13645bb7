package node_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a node whose NIs change, when it is pinged all the time, then each ping is
// answered, because new ping info is published before the old one is removed.
//
// discovery 4.5
func TestPingsWhileNIsChange(t *testing.T) {
	p := newPair(t)
	ctx := t.Context()
	done := make(chan error, 1)
	go func() {
		for range 200 {
			c := lnd.Config{Net: p.idb.NID.Net(), NID: parseNID(t, "10.77.0.99@tcp"), Device: "comes and goes"}
			if _, err := p.b.AddNI(ctx, &driver{fabric: p.fabric, typ: lnet.TypeTCP}, c); err != nil {
				done <- err
				return
			}
			if err := p.b.RemoveNI(ctx, c.NID); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	seen := map[int]int{} // pings by the number of NIs in the answer
	for ended := false; !ended; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			ended = true
		default:
		}
		info, err := p.a.Ping(ctx, p.idb, node.PingOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(info.NIs) == 0 || info.NIs[0].NID != p.idb.NID {
			t.Fatalf("ping info %+v", info)
		}
		seen[len(info.NIs)]++
	}
	if seen[1] == 0 || len(seen) > 2 {
		t.Errorf("pings by the number of NIs: %v", seen)
	}
}

// Given a node that starts and stops forwarding, then its ping info shows that under the
// same sequence number.
//
// discovery 4.4
func TestRoutingKeepsTheSequenceNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		want := p.b.PingInfo().Seq
		check := func(step string, forwards bool) {
			t.Helper()
			synctest.Wait()
			info, err := p.a.Ping(t.Context(), p.idb, node.PingOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if info.Seq != want || (info.Features&lnet.FeatRoutingDisabled == 0) != forwards {
				t.Errorf("%s: sequence number %d, features %#x; want %d", step, info.Seq, uint32(info.Features), want)
			}
		}
		check("not asked to forward", false)
		if err := p.b.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		check("forwarding", true)
		p.b.Admin().DisableRouting()
		check("told to stop", false)
		time.Sleep(time.Minute)
		check("stopped", false)
	})
}

// Given a stranger whose first message arrives on the second NI, then messages to it use
// that NI.
//
// discovery 2.5 (1)
// selection 8.3 (36)
func TestNIThatHearsAStrangerServesIt(t *testing.T) {
	f := newFabric()
	n, stranger := newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, n, "10.0.0.1@tcp")
	f.addNI(t, n, "10.0.0.2@tcp")
	f.addNI(t, stranger, "10.0.0.9@tcp")
	if _, err := stranger.Ping(t.Context(), process(t, "10.0.0.2@tcp"), node.PingOptions{}); err != nil {
		t.Fatal(err)
	}
	var sources []string
	f.show(func(h lnet.Header, _ []byte) { sources = append(sources, h.Src.String()) })
	h := bind(t, n, portals.MD{Threshold: portals.Unlimited})
	for range 3 {
		put(t, n, h, process(t, "10.0.0.9@tcp"), node.PutOptions{Portal: 1})
	}
	if want := slices.Repeat([]string{"10.0.0.2@tcp"}, 3); !slices.Equal(sources, want) {
		t.Errorf("sent from %v, want %v", sources, want)
	}
}

// Given a discoverer that was idle for an hour, then it wakes for a peer that must be
// discovered, for a message whose peer is gone, and for the end of the node.
//
// lnet-core 12.6
// discovery 5.3 gone, 6.1 (1)
// selection 3 (4)
func TestDiscovererWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0), f.discovering(t, b0)
		inbox(t, b)
		time.Sleep(time.Hour)
		begin := time.Now()
		discover(t, a, parseNID(t, b0))
		if d := time.Since(begin); d != 0 {
			t.Errorf("a peer was looked at after %v", d)
		}

		if err := a.Admin().DeletePeer(t.Context(), parseNID(t, b0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		begin = time.Now()
		f.hold(true)
		var r recorder
		send := func() {
			h := bind(t, a, portals.MD{Bytes: []byte("hello"), Threshold: 2, Unlink: true, Handler: &r})
			put(t, a, h, process(t, b0), node.PutOptions{Portal: 4, Ack: true})
			synctest.Wait()
		}
		send()
		if n := f.pending(); n != 1 {
			t.Errorf("%d messages on the way, want a ping", n)
		}
		if err := a.Admin().DeletePeer(t.Context(), parseNID(t, b0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := f.pending(); n != 2 {
			t.Errorf("%d messages on the way, want a ping of the peer that is gone, and one of the new one", n)
		}
		f.hold(false)
		synctest.Wait()
		for _, e := range r.take() {
			if e.Err != nil {
				t.Errorf("%s: %v", e.Type, e.Err)
			}
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("a message whose peer was gone took %v", d)
		}

		if err := a.Admin().DeletePeer(t.Context(), parseNID(t, b0)); err != nil {
			t.Fatal(err)
		}
		f.hold(true)
		send()
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := r.take(); len(e) != 1 || e[0].Type != portals.EventSend || !errors.Is(e[0].Err, node.ErrCanceled) {
			t.Errorf("events at the end: %+v", e)
		}
		f.hold(false)
	})
}

// Given a discoverer that is busy with other peers, then pushes are accepted and
// acknowledged at once.
//
// discovery 6.1 (2)
func TestPushesDoNotWaitForTheDiscoverer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		release := p.b.HoldDiscovery()
		const pushes = 5
		q := node.NewEventQueue(node.EventsOf(portals.EventAck))
		for range pushes {
			h := bind(t, p.a, portals.MD{Bytes: infoWith(2, 0, p.ida.NID), Threshold: 2, Unlink: true, Handler: q})
			put(t, p.a, h, p.idb, node.PutOptions{MatchBits: lnet.PingMatchBits, Ack: true})
		}
		for range pushes {
			var e portals.Event
			if err := q.Next(t.Context(), &e); err != nil || e.Err != nil {
				t.Fatal(err, e.Err)
			}
		}
		if c := p.b.Admin().Counters(); c.Received != pushes || c.Committed != 0 {
			t.Errorf("counters %+v", c)
		}
		release()
	})
}

// Given a NID that another peer proves to own, then its health and the credits in use
// move with it.
//
// discovery 7.4 (7), 7.4 kept
func TestNIDThatMovesKeepsItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const c0 = "10.77.0.13@tcp"
		f := newFabric()
		a := f.discovering(t)
		door := f.addNI(t, a, a0)
		f.addNI(t, a, a1)
		b := f.discovering(t, b0, b1)
		f.addNI(t, newNode(t, node.Config{}), c0) // does not discover: another node reports its NID
		inbox(t, b)
		discover(t, a, parseNID(t, b0))
		f.hold(true)
		go func() { _, _ = a.Discover(t.Context(), parseNID(t, c0)) }()
		synctest.Wait()
		for range 3 {
			h := bind(t, a, portals.MD{Bytes: []byte("hello"), Threshold: 2, Unlink: true})
			put(t, a, h, process(t, b1), node.PutOptions{Portal: 4, Ack: true, Source: parseNID(t, a1)})
		}
		if err := a.Admin().SetPeerHealth(parseNID(t, b1), 500); err != nil {
			t.Fatal(err)
		}
		before := peerNI(t, a, b1)
		if c := before.Credits; c.Available != c.Max-3 {
			t.Fatalf("credits %+v", c)
		}
		f.show(func(ping lnet.Header, _ []byte) { // requested after everything that b has reported
			info := infoWith(9, 0, parseNID(t, c0), parseNID(t, b1))
			reply := pushHeader(parseNID(t, c0), parseNID(t, a0), info)
			reply.Type, reply.Handle = lnet.MsgReply, ping.Handle
			if err := door.inject(parseNID(t, c0), reply, info); err != nil {
				t.Error(err)
			}
		})
		f.step()
		f.show(nil)
		synctest.Wait()
		if p, ok := a.Peer(parseNID(t, b1)); !ok || p.Primary != parseNID(t, c0) {
			t.Fatalf("%s belongs to %+v", b1, p)
		}
		if p, ok := a.Peer(parseNID(t, b0)); !ok || !slices.Equal(nidsOf(p), []lnet.NID{parseNID(t, b0)}) {
			t.Errorf("the peer that had it: %+v", p)
		}
		if after := peerNI(t, a, b1); after.Health.Value != before.Health.Value || after.Credits != before.Credits || after.QueuedBytes != before.QueuedBytes {
			t.Errorf("it was %+v, is %+v", before, after)
		}
		f.hold(false)
		synctest.Wait()
		if p := peerNI(t, a, b1); p.Credits.Available != p.Credits.Max || p.QueuedBytes != 0 {
			t.Errorf("in the end: %+v", p)
		}
	})
}

// Given a gateway on two nets, when our last NI on one of them is removed, then the
// routes through it are removed. The peer keeps its NIDs, and its primary NID is one that
// can be reached. The other NID has no credits until an NI is added again.
//
// discovery 8.3, 8.3 routes
func TestLastNIOnAGatewaysNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{})
		f.addNI(t, n, a0)
		f.addNI(t, n, a1)
		configure(t, n, parseNID(t, b0), parseNID(t, b1))
		addRoute(t, n, "tcp2", b0, node.RouteOptions{})
		if err := n.RemoveNI(t.Context(), parseNID(t, a0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if routes := n.Admin().Routes(); len(routes) != 0 {
			t.Errorf("routes %+v", routes)
		}
		p, ok := n.Peer(parseNID(t, b0))
		if !ok || p.Primary != parseNID(t, b1) || len(p.NIs) != 2 || p.Gateway {
			t.Fatalf("peer %+v", p)
		}
		if c := peerNI(t, n, b0).Credits; c != (node.CreditInfo{}) {
			t.Errorf("credits of %s: %+v", b0, c)
		}
		f.addNI(t, n, a0)
		if c := peerNI(t, n, b0).Credits; c.Max != 8 || c.Available != 8 {
			t.Errorf("credits of %s: %+v", b0, c)
		}
	})
}

// Given a peer NI from which no message has arrived, when its peer reports it as up, then
// its health is full. The health of one from which messages have arrived rises with
// further messages.
//
// discovery 7.3 health
func TestNeverHeardButCalledUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := newNode(t, node.Config{})
		door := f.addNI(t, a, a0)
		heard, unheard := parseNID(t, b0), parseNID(t, b1)
		configure(t, a, heard, unheard)
		for _, nid := range []lnet.NID{heard, unheard} {
			if err := a.Admin().SetPeerHealth(nid, 300); err != nil {
				t.Fatal(err)
			}
		}
		info := infoWith(2, 0, heard, unheard)
		if err := door.inject(heard, pushHeader(heard, parseNID(t, a0), info), info); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for nid, want := range map[string]int{b0: 400, b1: node.MaxHealth} {
			if v := peerNI(t, a, nid).Health.Value; v != want {
				t.Errorf("health of %s is %d, want %d", nid, v, want)
			}
		}
	})
}
