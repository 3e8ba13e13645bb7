package node_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// Given delayed messages and occasional failures of discovery, when the peer is
// discovered with force repeatedly while it pushes, then all rounds end, and the next
// round works.
//
// sanity-lnet 7 (212)
func TestForcedDiscoveryInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0, a1), f.discovering(t, b0, b1)
		inbox(t, b)
		discover(t, a, parseNID(t, b0))
		for _, n := range []*node.Node{a, b} {
			addFault(t, n, faults.Rule{Kind: faults.Delay, Messages: faults.Get, Rate: 1, Latency: 3 * time.Second})
			addFault(t, n, faults.Rule{Kind: faults.Delay, Messages: faults.Put, Rate: 1, Latency: 6 * time.Second})
		}
		var pushing sync.WaitGroup
		pushing.Go(func() {
			for k := range 15 {
				f.addNI(t, b, lnet.NIDFromNumber(parseNID(t, b0).Net(), 0x0a4d0040+uint32(k)).String())
				time.Sleep(2 * time.Second)
			}
		})
		rounds := func(want lnd.Status) {
			t.Helper()
			var all sync.WaitGroup
			for k := range 20 {
				all.Go(func() {
					time.Sleep(time.Duration(k) * 700 * time.Millisecond)
					_, err := a.ForceDiscover(t.Context(), parseNID(t, []string{b0, b1}[k%2]))
					if lnd.StatusOf(err) != want {
						t.Errorf("discover: %v, want %s", err, want)
					}
				})
			}
			all.Wait()
		}
		rounds(lnd.StatusOK)
		addFault(t, a, faults.Rule{
			Kind: faults.Drop, Messages: faults.Get, Rate: 1, Statuses: faults.StatusOf(lnd.StatusRemoteError),
		})
		rounds(lnd.StatusRemoteError)
		pushing.Wait()
		for _, n := range []*node.Node{a, b} {
			for _, k := range []faults.Kind{faults.Delay, faults.Drop} {
				n.Admin().RemoveFaults(k, faults.NIDFilter{}, faults.NIDFilter{})
			}
		}
		time.Sleep(10 * time.Minute)
		discover(t, a, parseNID(t, b0))
		if p, ok := a.Peer(parseNID(t, b0)); !ok || len(p.NIs) != 17 || p.Primary != parseNID(t, b0) {
			t.Errorf("peer %+v", p)
		}
		for _, n := range []*node.Node{a, b} {
			if c := n.Admin().Counters(); c.Committed != 0 || c.Trackers != 0 {
				t.Errorf("left behind: %+v", c)
			}
		}
	})
}

// Given a node that has discovered itself as a peer with two nets, then pings use both
// nets. With a given source they use only its net, and never go from one net to the
// other.
//
// lnet-core 5.4 (2)
// sanity-lnet 7 (215)
func TestPingsFromAGivenSource(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	nids := []lnet.NID{parseNID(t, "10.77.0.1@tcp1"), parseNID(t, "10.77.0.1@tcp2")}
	for _, nid := range nids {
		f.addNI(t, n, nid.String())
	}
	configure(t, n, nids[0], nids[1])
	ping := func(from, to lnet.NID) error {
		_, err := n.Ping(t.Context(), lnet.ProcessID{NID: to}, node.PingOptions{Source: from})
		return err
	}
	counts := func() (c [2]node.Traffic) {
		for k, i := range n.NIs()[1:] {
			c[k] = i.Traffic
		}
		return c
	}
	pings := func(from, to lnet.NID) (more [2]uint64) {
		t.Helper()
		before := counts()
		for range 25 {
			if err := ping(from, to); err != nil {
				t.Fatal(err)
			}
		}
		for k, c := range counts() {
			more[k] = c.Received.Get - before[k].Received.Get
			if sent := c.Sent.Get - before[k].Sent.Get; sent != 2*more[k] { // REPLYs count as GETs
				t.Errorf("%s: %d sent, %d received", nids[k], sent, more[k])
			}
		}
		return more
	}
	if m := pings(lnet.NID{}, nids[0]); m[0] < 12 || m[1] < 12 {
		t.Errorf("without a source: %v", m)
	}
	if m := pings(nids[0], nids[0]); m != [2]uint64{25, 0} {
		t.Errorf("from %s: %v", nids[0], m)
	}
	if m := pings(nids[1], nids[1]); m != [2]uint64{0, 25} {
		t.Errorf("from %s: %v", nids[1], m)
	}
	for k := range nids {
		if err := ping(nids[k], nids[1-k]); err == nil {
			t.Errorf("from %s to %s: no error", nids[k], nids[1-k])
		}
	}
}

// Given two NIs on one net, one of which cannot send to itself, then its health falls and
// is restored by pings from the other one.
//
// discovery 9.4
// sanity-lnet 7 (218)
func TestRecoveryGoesByTheOtherNI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := f.discovering(t, "10.77.0.1@tcp", "10.77.0.2@tcp")
		first := parseNID(t, "10.77.0.1@tcp")
		discover(t, n, first)
		addFault(t, n, faults.Rule{
			Kind: faults.Drop, Source: faults.Only(first), Dest: faults.Only(first), Rate: 1,
			Statuses: faults.StatusOf(lnd.StatusLocalError),
		})
		_, err := n.Ping(t.Context(), lnet.ProcessID{NID: first}, node.PingOptions{Source: first})
		if lnd.StatusOf(err) != lnd.StatusLocalError {
			t.Errorf("ping: %v", err)
		}
		if h := n.NIs()[1].Health; h.Value >= node.MaxHealth {
			t.Errorf("health %+v", h)
		}
		time.Sleep(5 * time.Second)
		for _, i := range n.NIs()[1:] {
			if i.Health.Value != node.MaxHealth {
				t.Errorf("%s: health %+v", i.NID, i.Health)
			}
		}
	})
}

// Given a node whose health changes only by hand, then an NI with health 0 is down, and
// up again with full health.
//
// sanity-lnet 7 (234)
func TestHealthByHandWithoutSensitivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.HealthSensitivity, p.RetryCount = 0, 0
		r := newRails(t, p, 1, 1)
		for _, c := range []struct {
			health int
			want   lnet.NIStatus
		}{{1000, lnet.StatusUp}, {0, lnet.StatusDown}, {1000, lnet.StatusUp}} {
			if err := r.a.Admin().SetNIHealth(r.na[0], c.health); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // successful pings change nothing
			i := r.a.NIs()[1]
			if i.Health.Value != c.health || i.Status != c.want || r.a.PingInfo().NIs[0].Status != c.want {
				t.Errorf("set to %d: health %d, status %v", c.health, i.Health.Value, i.Status)
			}
		}
	})
}

// Given as many GETs as there are credits on two rails, all held beyond their deadline,
// and one more that waits for a credit, then only the last one is dropped.
//
// sanity-lnet 7 (254)
func TestDeadlineWhileWaitingOnTwoRails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		p.RetryCount = 0
		a := newNode(t, node.Config{Parameters: &p})
		f.addNI(t, a, a0)
		f.addNI(t, a, a1)
		f.discovering(t, b0, b1)
		discover(t, a, parseNID(t, b0))
		addFault(t, a, faults.Rule{Kind: faults.Delay, Messages: faults.Get, Rate: 1, Latency: 52 * time.Second}) // the fabric's time is 51 s
		credits := 0
		for _, i := range peerNIs(a) {
			credits += i.Credits.Max
		}
		results := make(chan error, credits+1)
		ping := func() {
			_, err := a.Ping(t.Context(), process(t, b0), node.PingOptions{})
			results <- err
		}
		for range credits + 1 {
			go ping()
			synctest.Wait()
		}
		failed := 0
		for range credits + 1 {
			switch err := <-results; {
			case err == nil:
			case errors.Is(err, node.ErrTimedOut):
				failed++
			default:
				t.Error(err)
			}
		}
		dropped := uint64(0)
		for _, i := range peerNIs(a) {
			dropped += i.Traffic.Dropped.Get
			if i.Credits.Available != i.Credits.Max {
				t.Errorf("%s: credits %+v", i.NID, i.Credits)
			}
		}
		if failed != 1 || dropped != 1 {
			t.Errorf("%d pings failed, %d GETs dropped; want 1, 1", failed, dropped)
		}
	})
}

// Given PUTs that are delayed and dropped, and a link that goes down and up, when the
// node is closed, then it closes at once.
//
// sanity-lnet 7 (500)
func TestCloseInTheMiddleOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := f.discovering(t, "10.77.0.1@tcp")
		other := f.addNI(t, n, "10.77.0.2@tcp")
		inbox(t, n)
		nid := parseNID(t, "10.77.0.1@tcp")
		discover(t, n, nid)
		addFault(t, n, faults.Rule{Kind: faults.Delay, Messages: faults.Put, Rate: 2, Latency: 20 * time.Second})
		addFault(t, n, faults.Rule{Kind: faults.Drop, Messages: faults.Put, Rate: 3, Statuses: faults.RandomStatus})
		addFault(t, n, faults.Rule{Kind: faults.Drop, Messages: faults.Put, Rate: 5})
		var r recorder
		const messages = 100
		for k := range messages {
			h := bind(t, n, portals.MD{Bytes: []byte("hello"), Threshold: 2, Unlink: true, Handler: &r})
			put(t, n, h, lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}, node.PutOptions{Portal: 4, Ack: true})
			switch k {
			case 30:
				other.setLink(lnd.LinkDown)
			case 60:
				other.setLink(lnd.LinkUp)
			}
			time.Sleep(100 * time.Millisecond)
		}
		begin := time.Now()
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("closing took %v", d)
		}
		sends := 0
		for _, e := range r.take() {
			if e.Type == portals.EventSend {
				sends++
			}
		}
		if sends != messages {
			t.Errorf("%d SEND events, want %d", sends, messages)
		}
	})
}

// Given peer NIs whose health is set by hand, for one or for all, then it has the value
// that was set, and they recover one by one.
//
// sanity-lnet 7 (501)
func TestPeerHealthByHand(t *testing.T) {
	for _, value := range []int{0, 500} {
		for _, several := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRails(t, static(), 1, 3)
				r.hears(t)
				set := r.nb[1:2]
				if several {
					set = r.nb
				}
				for _, nid := range set {
					if err := r.a.Admin().SetPeerHealth(nid, value); err != nil {
						t.Fatal(err)
					}
				}
				if _, peers := r.healthOf(); lost(peers) != len(set)*(node.MaxHealth-value) {
					t.Errorf("%d of them at %d: %v", len(set), value, peers)
				}
				time.Sleep(time.Minute)
				if _, peers := r.healthOf(); lost(peers) != 0 {
					t.Errorf("%d of them were at %d, a minute ago: %v", len(set), value, peers)
				}
			})
		}
	}
	r := newPair(t)
	if err := r.a.Admin().SetPeerHealth(parseNID(t, "10.77.0.99@tcp"), 0); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("a stranger's health: %v", err)
	}
}
