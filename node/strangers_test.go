package node_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// madeUp returns a NID that belongs to no node.
func madeUp(net lnet.Net, k int) lnet.NID { return lnet.NIDFromNumber(net, uint32(0x0b000000+k)) }

// narrow returns parameters of a node that sends no pings and keeps few peers.
func narrow(nis int) *node.Parameters {
	p := static()
	p.PeerNIsMax = nis
	return &p
}

// calls makes strangers connect to a port and send a message, one per second.
func calls(t *testing.T, p *port, first, count int) {
	t.Helper()
	for k := range count {
		from := madeUp(p.nid.Net(), first+k)
		h := pushHeader(from, p.nid, nil)
		h.Portal = 7
		if err := p.inject(from, h, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
	}
}

func known(n *node.Node, nid lnet.NID) bool {
	_, ok := n.Peer(nid)
	return ok
}

// Given as many peers as allowed, when strangers connect, then the peers that have been
// silent for the longest time are evicted, in that order, and no others.
//
// discovery 2.4 age
func TestTheLeastRecentlyUsedGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: narrow(32)})
		p := f.addNI(t, n, "10.0.0.1@tcp")
		calls(t, p, 0, 32)
		time.Sleep(2 * time.Hour)
		calls(t, p, 0, 4) // the oldest connect again
		calls(t, p, 32, 4)
		for k := range 36 {
			if want := k < 4 || k >= 12; known(n, madeUp(p.nid.Net(), k)) != want && (k < 8 || k >= 12) {
				t.Errorf("stranger %d: known %v, want %v", k, !want, want)
			}
		}
		if i := n.Admin().PeerNIs(); i.Count > 33 || i.Forgotten < 4 || i.Refused != 0 {
			t.Errorf("%+v", i)
		}
	})
}

// Given peers that are in use, when any number of strangers connect, then these peers
// remain, whatever their age.
func TestWhoIsNeededStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: narrow(32)})
		p := f.addNI(t, n, "10.0.0.1@tcp")
		ctx := context.Background()
		nid := func(k int) lnet.NID { return parseNID(t, fmt.Sprintf("10.0.0.%d@tcp", k)) }
		configured, locked, gateway, sent, waiting := nid(2), nid(3), nid(4), nid(5), nid(6)
		configure(t, n, configured)
		if _, err := n.Admin().AddPeer(ctx, []lnet.NID{locked}, node.AddPeerOptions{Lock: true}); err != nil {
			t.Fatal(err)
		}
		if err := n.Admin().AddRoute(ctx, parseNet(t, "tcp9"), gateway, node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.hold(true) // sent messages are under way, and beyond the credits they wait
		for _, to := range []lnet.NID{sent, waiting} {
			count := 1
			if to == waiting {
				count = 20
			}
			for range count {
				h := bind(t, n, portals.MD{Bytes: []byte("x"), Threshold: 1, Unlink: true})
				put(t, n, h, lnet.ProcessID{NID: to}, node.PutOptions{Portal: 5})
			}
		}
		time.Sleep(time.Hour)
		calls(t, p, 0, 500)
		for _, keep := range []lnet.NID{configured, locked, gateway, sent, waiting} {
			if !known(n, keep) {
				t.Errorf("%s has been forgotten", keep)
			}
		}
		if i := n.Admin().PeerNIs(); i.Named != 3 || i.Count > 32+32/8+i.Named {
			t.Errorf("%+v", i)
		}
		f.hold(false)
		synctest.Wait()
		time.Sleep(25 * time.Hour)
		calls(t, p, 500, 100)
		for _, gone := range []lnet.NID{sent, waiting} {
			if known(n, gone) {
				t.Errorf("%s is still known", gone)
			}
		}
		// A peer that is no longer configured counts as a stranger and is evicted.
		if err := n.Admin().DeleteRoute(ctx, 0, gateway); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		calls(t, p, 600, 100)
		if i := n.Admin().PeerNIs(); known(n, gateway) || i.Named != 2 || i.Count > 32+32/8+i.Named {
			t.Errorf("gateway known %v, %+v", known(n, gateway), i)
		}
	})
}

// Given a friendly peer with one NID and one with many, each of which a program used some
// hours ago, when any number of strangers connect, then both are still known. After two
// days of silence they are evicted like others.
func TestQuietFriendsStayBeforeCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: narrow(64)})
		p := f.addNI(t, n, "10.0.0.1@tcp")
		quiet, many := parseNID(t, "10.0.0.2@tcp"), parseNID(t, "10.0.0.3@tcp")
		caller := parseNID(t, "10.0.0.4@tcp") // it has a message for us
		nids := make([]lnet.NID, 24)
		for k := range nids {
			nids[k] = madeUp(p.nid.Net(), 100000+k)
		}
		if _, err := n.Admin().AddPeer(context.Background(), append([]lnet.NID{many}, nids...), node.AddPeerOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, to := range []lnet.NID{quiet, many} {
			h := bind(t, n, portals.MD{Bytes: []byte("x"), Threshold: 1, Unlink: true})
			put(t, n, h, lnet.ProcessID{NID: to}, node.PutOptions{Portal: 5})
		}
		sink(t, n, portals.OpPut)
		h := pushHeader(caller, p.nid, nil)
		h.Portal, h.MatchBits = 1, 0
		if err := p.inject(caller, h, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Hour)
		calls(t, p, 0, 500)
		for _, nid := range []lnet.NID{quiet, many, caller} {
			if !known(n, nid) {
				t.Errorf("%s has been forgotten", nid)
			}
		}
		time.Sleep(48 * time.Hour)
		calls(t, p, 500, 100)
		for _, nid := range []lnet.NID{quiet, many, caller} {
			if known(n, nid) {
				t.Errorf("%s is still known", nid)
			}
		}
	})
}

// Given as many peers as allowed, when a peer that was used reports another NID, then a
// peer that only connected is evicted for it. When an unused peer does so, the NID waits
// until there is room, and the next message to the peer makes the node ask again.
func TestNIDsForWhichThereWasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		p.PeerNIsMax = 32
		n := newNode(t, node.Config{Parameters: &p})
		port := f.addNI(t, n, "10.0.0.1@tcp")
		actors := []*actor{
			newActor(t, f, "10.0.0.2@tcp", "10.0.0.102@tcp"), newActor(t, f, "10.0.0.3@tcp", "10.0.0.103@tcp"),
		}
		nis := func(a *actor) int {
			q, _ := n.Peer(a.ports[0].nid)
			return len(q.NIs)
		}
		push := func(seq uint32, a *actor, count int) {
			a.tell(func(info *lnet.PingInfo) {
				info.Seq, info.NIs = seq, nil
				for _, p := range a.ports[:count] {
					info.NIs = append(info.NIs, lnet.PingNI{NID: p.nid, Status: lnet.StatusUp})
				}
			})
			a.pushBy(t, 0, "10.0.0.1@tcp")
			synctest.Wait()
		}
		friend, stranger := actors[0], actors[1]
		push(1, friend, 1)
		push(1, stranger, 1)
		if _, err := n.Discover(context.Background(), friend.ports[0].nid); err != nil {
			t.Fatal(err)
		}
		calls(t, port, 0, 40)
		push(2, stranger, 2)
		push(2, friend, 2)
		if a, b := nis(friend), nis(stranger); a != 2 || b != 1 {
			t.Errorf("the friend has %d NIDs, want 2; the stranger %d, want 1", a, b)
		}
		time.Sleep(50 * time.Minute)
		stranger.pushBy(t, 0, "10.0.0.1@tcp") // so that it is not among those evicted
		time.Sleep(20 * time.Minute)          // peers that connected are evicted
		h := bind(t, n, portals.MD{Bytes: []byte("x"), Threshold: 1, Unlink: true})
		put(t, n, h, lnet.ProcessID{NID: stranger.ports[0].nid}, node.PutOptions{Portal: 5})
		synctest.Wait()
		if b := nis(stranger); b != 2 {
			t.Errorf("the stranger has %d NIDs when there is room, want 2; %+v", b, n.Admin().PeerNIs())
		}
	})
}

// Given more strangers than allowed, all of which are being discovered and do not answer,
// when another node connects, then there is room for it.
func TestWhoDoesNotAnswerKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		p.PeerNIsMax = 32
		n := newNode(t, node.Config{Parameters: &p})
		port := f.addNI(t, n, "10.0.0.1@tcp")
		for k := range 100 { // in less time than a round of discovery takes
			a := newActor(t, f, madeUp(port.nid.Net(), k).String())
			a.set(&a.silent, true)
			from := a.ports[0].nid
			b := infoWith(1, 0, from)
			if err := port.inject(from, pushHeader(from, port.nid, b), b); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if _, ok := n.Peer(from); !ok {
				t.Fatalf("stranger %d is not known: %+v", k, n.Admin().PeerNIs())
			}
			time.Sleep(time.Second)
		}
		friend := newNode(t, node.Config{})
		f.addNI(t, friend, "10.0.0.2@tcp")
		if err := ping(friend, process(t, "10.0.0.1@tcp"), lnet.NID{}); err != nil {
			t.Error(err)
		}
		if i := n.Admin().PeerNIs(); i.Count > 32+32/8 || i.Refused != 0 {
			t.Errorf("%+v", i)
		}
	})
}

// Given messages that use a peer NI while it is evicted, when they continue, then they
// arrive, all credits are released, and the peer is created again.
func TestForgottenWhileUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: narrow(16)})
		p := f.addNI(t, n, "10.0.0.1@tcp")
		friend := newNode(t, node.Config{})
		f.addNI(t, friend, "10.0.0.2@tcp")
		id := process(t, "10.0.0.1@tcp")
		if err := n.SetLazy(1); err != nil {
			t.Fatal(err)
		}
		q := node.NewEventQueue(node.EventsOf(portals.EventAck))
		const puts = 12 // more than the credits
		for range puts {
			h := bind(t, friend, portals.MD{Bytes: []byte("x"), Threshold: 2, Unlink: true, Handler: q})
			put(t, friend, h, id, node.PutOptions{Portal: 1, Ack: true})
		}
		synctest.Wait() // they wait on the portal, and use the peer NI from which they came
		calls(t, p, 0, 100)
		if known(n, parseNID(t, "10.0.0.2@tcp")) {
			t.Fatal("the friend is still known")
		}
		sink(t, n, portals.OpPut)
		for range puts {
			var e portals.Event
			if err := q.Next(t.Context(), &e); err != nil || e.Err != nil {
				t.Fatalf("%v, %v", err, e.Err)
			}
		}
		synctest.Wait()
		time.Sleep(2 * time.Second) // the last one that connected may have been rejected
		if err := ping(friend, id, lnet.NID{}); err != nil {
			t.Error(err)
		}
		if !known(n, parseNID(t, "10.0.0.2@tcp")) {
			t.Error("the friend is not known")
		}
		sound(t, "node", n)
		sound(t, "friend", friend)
	})
}

// Given a neighbour that reports other NIDs faster than the limit, when it continues more
// slowly, then they are accepted. The next message to a peer requests its NIDs that were
// rejected.
func TestNewsAreRationed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
		p := f.addNI(t, n, "10.0.0.1@tcp")
		long := make([]lnet.NID, 3000)
		says := func(seq uint32, first int) {
			t.Helper()
			for j := range long {
				long[j] = madeUp(p.nid.Net(), first+j)
			}
			long[0] = parseNID(t, "10.0.0.2@tcp")
			b := infoWith(seq, 0, long...)
			if err := p.inject(long[0], pushHeader(long[0], p.nid, b), b); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		has := func(seq uint32) {
			t.Helper()
			if q, _ := n.Peer(long[0]); q.Seq != seq || len(q.NIs) != len(long) {
				t.Errorf("peer at %d with %d NIDs, want %d, %d", q.Seq, len(q.NIs), seq, len(long))
			}
		}
		says(1, 0) // evicts others for those with many NIDs
		says(2, 0)
		has(2)
		says(3, 10000)
		has(2)
		if d := n.Admin().Drops()[node.DropPeerBound]; d != 1 {
			t.Errorf("%d pushes dropped, want 1", d)
		}
		if q, _ := n.Peer(long[0]); q.State.Has(discovery.NIDsUpToDate) {
			t.Error("the peer counts as up to date")
		}
		time.Sleep(time.Minute)
		says(3, 10000)
		has(3)
	})
}

// Given a router without peers, when a neighbour sends to more existing destinations at
// once than it may introduce, then no message is dropped. Later messages to NIDs that do
// not exist are dropped beyond the same limit.
func TestDestinationsThatAnswerAreNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const there, madeUpNIDs, bound = 5000, 4200, 4096
		f := newFabric()
		n := newNode(t, node.Config{Parameters: new(node.DefaultParameters()), Routing: true})
		near := f.addNI(t, n, "10.0.0.1@tcp")
		far := f.addNI(t, n, "10.0.1.1@tcp1")
		from := newActor(t, f, "10.0.0.7@tcp").ports[0].nid
		send := func(k int) {
			h := pushHeader(from, madeUp(far.nid.Net(), k), nil)
			h.Portal = 7
			if err := near.inject(from, h, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for k := range there {
			newActor(t, f, madeUp(far.nid.Net(), k).String())
			send(k)
		}
		if d := n.Admin().Drops(); d.Total() != 0 {
			t.Errorf("dropped of what is for nodes that are there: %v", d)
		}
		f.failBy(func(*lnd.Tx) error { return fault(lnd.StatusRemoteDropped, from, lnd.ErrUnreachable) })
		for k := range madeUpNIDs {
			send(there + k)
		}
		if d := n.Admin().Drops()[node.DropPeerBound]; d != madeUpNIDs-bound {
			t.Errorf("%d dropped of %d for nodes that are not there, want %d", d, madeUpNIDs, madeUpNIDs-bound)
		}
	})
}

// Given a destination that a router failed to reach, when more messages arrive for it,
// then they are dropped at once until a pause has passed, which grows. When the
// destination connects, it is known at once.
func TestAbsentDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: new(node.DefaultParameters()), Routing: true})
		near := f.addNI(t, n, "10.0.0.1@tcp")
		far := f.addNI(t, n, "10.0.1.1@tcp1")
		from := newActor(t, f, "10.0.0.7@tcp").ports[0].nid
		to := parseNID(t, "10.0.1.7@tcp1")
		tries := 0
		f.failBy(func(tx *lnd.Tx) error {
			if tx.To.NID == to {
				tries++
			}
			return nil
		})
		send := func() {
			t.Helper()
			h := pushHeader(from, to, nil)
			h.Portal = 7
			if err := near.inject(from, h, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		begin := time.Now()
		var at []time.Duration
		for range 300 {
			if was := tries; true {
				send()
				if tries != was {
					at = append(at, time.Since(begin).Truncate(time.Second))
				}
			}
			if known(n, to) {
				t.Fatal("it is a peer")
			}
			time.Sleep(time.Second)
		}
		if len(at) < 5 || len(at) > 12 {
			t.Errorf("tried at %v", at)
		}
		for k := 2; k < len(at); k++ {
			if last, gap := at[k-1]-at[k-2], at[k]-at[k-1]; gap < min(2*last-2*time.Second, 59*time.Second) {
				t.Errorf("tried at %v", at)
			}
		}
		if d := n.Admin().Drops()[node.DropAbsent]; d != uint64(300-len(at)) {
			t.Errorf("%d dropped at once, %d tries", d, len(at))
		}
		there := newActor(t, f, to.String())
		h := pushHeader(to, far.nid, nil)
		h.Portal = 7
		if err := far.inject(to, h, nil); err != nil {
			t.Fatal(err)
		}
		there.take()
		send()
		time.Sleep(time.Second)
		if came := there.take(); len(came) == 0 {
			t.Error("nothing arrives at who is back")
		}
	})
}

// Given more configured peers than the limit for others, when they are deleted one by one,
// then each deletion subtracts from the number of configured NIs. It does not count all
// peers again.
func TestDeletedPeersAreSubtracted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, peers = node.PeerNIsMin, node.PeerNIsMin + 8
		f := newFabric()
		n := newNode(t, node.Config{Parameters: narrow(limit)})
		f.addNI(t, n, "10.0.0.1@tcp")
		primary := func(k int) lnet.NID { return madeUp(parseNet(t, "tcp"), k) }
		for k := range peers {
			if err := n.Admin().ConfigurePeer(t.Context(), primary(k), nil, discovery.ConfigureOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		counted := n.Admin().PeerNIs().Named
		if counted < limit || counted >= peers {
			t.Fatalf("%d of %d NIs counted", counted, peers)
		}
		for k := range peers {
			if err := n.Admin().ForceDeletePeer(t.Context(), primary(k)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got, want := n.Admin().PeerNIs().Named, max(0, counted-k-1); got != want {
				t.Fatalf("%d peers deleted: %d NIs, want %d", k+1, got, want)
			}
		}
		if i := n.Admin().PeerNIs(); i.Forgotten != 0 || known(n, primary(0)) {
			t.Errorf("%+v", i)
		}
	})
}
