package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// credited is a node with few credits and some peers.
type credited struct {
	*fabric
	n     *node.Node
	order *[]uint64 // HdrData of the frames that were sent
}

func newCredited(t testing.TB, peerCredits, niCredits int, peers ...string) *credited {
	t.Helper()
	c := &credited{fabric: newFabric(), n: newNode(t, node.Config{})}
	c.addNIWith(t, c.n, lnd.Config{
		NID: parseNID(t, "10.0.0.1@tcp"), Tunables: lnd.Tunables{PeerCredits: peerCredits, Credits: niCredits}})
	for _, p := range peers {
		c.addNI(t, newNode(t, node.Config{}), p)
	}
	var order []uint64
	c.order = &order
	c.sent = func(h lnet.Header, _ []byte) { order = append(order, h.HdrData) }
	c.hold(true)
	return c
}

func (c *credited) send(t testing.TB, to string, hdrData uint64, h portals.Handler) lnet.Handle {
	t.Helper()
	md := bind(t, c.n, portals.MD{Bytes: make([]byte, 28), Threshold: 1, Unlink: true, Handler: h})
	put(t, c.n, md, process(t, to), node.PutOptions{Portal: 1, HdrData: hdrData})
	return md
}

// lnet-core 7.1 (1)-(2), 7.2 (4), 7.2 (7), 7.2 waiting, 7.3 (2), 7.3 order, 10.2
// socklnd 18 (2)
func TestPeerCredits(t *testing.T) {
	c := newCredited(t, 2, 5, "10.0.0.2@tcp", "10.0.0.3@tcp")
	for k := range uint64(5) {
		c.send(t, "10.0.0.2@tcp", k, nil)
	}
	c.send(t, "10.0.0.3@tcp", 10, nil)
	if got := c.pending(); got != 3 {
		t.Errorf("%d messages with the driver, want 3", got)
	}
	want := []node.CreditInfo{{Max: 2, Available: -3, Min: -3}, {Max: 2, Available: 1, Min: 1}}
	peers := peerNIs(c.n)
	for k, p := range peers {
		if p.Credits != want[k] {
			t.Errorf("peer %s: %+v, want %+v", p.NID, p.Credits, want[k])
		}
	}
	if got := peers[0].QueuedBytes; got != 5*(28+72) {
		t.Errorf("%d bytes queued", got)
	}
	if got := c.n.NIs()[1].Credits; got != (node.CreditInfo{Max: 5, Available: 2, Min: 2}) {
		t.Errorf("NI: %+v", got)
	}
	c.hold(false)
	if d := cmp.Diff([]uint64{0, 1, 10, 2, 3, 4}, *c.order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	for _, p := range peerNIs(c.n) {
		if p.Credits.Available != 2 || p.QueuedBytes != 0 {
			t.Errorf("afterwards: %+v", p)
		}
	}
	if got := c.n.NIs()[1].Credits; got != (node.CreditInfo{Max: 5, Available: 5, Min: 2}) {
		t.Errorf("NI afterwards: %+v", got)
	}
}

// A message that waits for the NI's credit already holds its peer credit. If both credits
// are released, messages that wait for the NI are sent first (lnet-core 7.3).
//
// lnet-core 7.2 (5), 7.2 waiting, 7.3 (1), 7.3 order
func TestNICredits(t *testing.T) {
	c := newCredited(t, 2, 2, "10.0.0.2@tcp", "10.0.0.3@tcp")
	c.send(t, "10.0.0.2@tcp", 0, nil) // held by the driver
	c.send(t, "10.0.0.2@tcp", 1, nil) // held by the driver
	c.send(t, "10.0.0.3@tcp", 2, nil) // waits for the NI
	c.send(t, "10.0.0.2@tcp", 3, nil) // waits for its peer
	c.send(t, "10.0.0.3@tcp", 4, nil) // waits for the NI
	c.send(t, "10.0.0.3@tcp", 5, nil) // waits for its peer
	if got := c.n.NIs()[1].Credits; got.Available != -2 {
		t.Errorf("NI: %+v", got)
	}
	peers := peerNIs(c.n)
	if peers[0].Credits.Available != -1 || peers[1].Credits.Available != -1 {
		t.Errorf("peers: %+v, %+v", peers[0].Credits, peers[1].Credits)
	}
	c.hold(false)
	if d := cmp.Diff([]uint64{0, 1, 2, 4, 3, 5}, *c.order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

// When a message was sent while another waits at the NI, and a third one at the peer for
// another NI, then the one at the NI is sent first.
//
// lnet-core 7.3 (1)-(2)
func TestWaitersAtTheNIGoBeforeThoseAtThePeer(t *testing.T) {
	c := newCredited(t, 1, 1, "10.0.0.2@tcp", "10.0.0.3@tcp")
	c.addNI(t, c.n, "10.0.0.4@tcp")
	for k, m := range []struct{ by, to string }{
		{"10.0.0.1@tcp", "10.0.0.2@tcp"},
		{"10.0.0.4@tcp", "10.0.0.2@tcp"}, // waits for the peer
		{"10.0.0.1@tcp", "10.0.0.3@tcp"}, // waits for the NI
	} {
		md := bind(t, c.n, portals.MD{Bytes: make([]byte, 28), Threshold: 1, Unlink: true})
		put(t, c.n, md, process(t, m.to), node.PutOptions{Source: parseNID(t, m.by), Portal: 1, HdrData: uint64(k)})
	}
	if got := c.pending(); got != 1 {
		t.Fatalf("%d messages with the driver, want 1", got)
	}
	c.step()
	if got := c.pending(); got != 2 {
		t.Errorf("%d messages go on, want 2", got)
	}
	c.hold(false)
	if d := cmp.Diff([]uint64{0, 2, 1}, *c.order); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

// LNet's own requests, by which nodes detect whether others are alive, do not wait behind
// bulk messages for either kind of credit, and keep their order.
func TestLivenessGoesFirst(t *testing.T) {
	for name, credits := range map[string][2]int{"of the peer": {1, 5}, "of the NI": {5, 1}} {
		t.Run(name, func(t *testing.T) {
			c := newCredited(t, credits[0], credits[1], "10.0.0.2@tcp")
			for k := range uint64(4) {
				c.send(t, "10.0.0.2@tcp", k, nil)
			}
			for k := range uint64(2) {
				md := bind(t, c.n, portals.MD{Bytes: make([]byte, 28), Threshold: 1, Unlink: true})
				put(t, c.n, md, process(t, "10.0.0.2@tcp"), node.PutOptions{Portal: lnet.ReservedPortal, HdrData: 90 + k})
			}
			c.hold(false)
			if d := cmp.Diff([]uint64{0, 90, 91, 1, 2, 3}, *c.order); d != "" {
				t.Errorf("order (-want +got):\n%s", d)
			}
			if g := c.n.Admin().Counters(); g.Committed != 0 {
				t.Errorf("counters %+v", g)
			}
		})
	}
}

// lnet-core 2.2 aborted (1), 7.2 (3)
func TestUnlinkWhileWaiting(t *testing.T) {
	c := newCredited(t, 1, 1, "10.0.0.2@tcp")
	c.send(t, "10.0.0.2@tcp", 0, nil)
	var r recorder
	var waiting []lnet.Handle
	for k := range uint64(100) {
		waiting = append(waiting, c.send(t, "10.0.0.2@tcp", 1+k, &r))
	}
	last := c.send(t, "10.0.0.2@tcp", 200, nil)
	for _, h := range waiting {
		if err := c.n.Unlink(h); err != nil {
			t.Fatal(err)
		}
	}
	if e := r.take(); e != nil {
		t.Errorf("events: %v", e)
	}
	c.hold(false)
	for _, e := range r.take() {
		if e.Type != portals.EventSend || !e.Unlinked || !errors.Is(e.Err, node.ErrCanceled) {
			t.Errorf("event %+v, want the last SEND, canceled", e)
		}
	}
	if d := cmp.Diff([]uint64{0, 200}, *c.order); d != "" {
		t.Errorf("sent (-want +got):\n%s", d)
	}
	if err := c.n.Unlink(last); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if g := c.n.Admin().Counters(); g.Dropped != 0 || g.Committed != 0 {
		t.Errorf("counters %+v", g)
	}
}

// With an LND timeout of 50 s and two retries, a message that waits for more than 151 s
// is dropped.
//
// lnet-core 2.3, 7.2 (1), 7.2 counted
// sanity-lnet 7 (253)
func TestDeadlineWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredited(t, 1, 1, "10.0.0.2@tcp")
		var r recorder
		c.send(t, "10.0.0.2@tcp", 0, nil)
		c.send(t, "10.0.0.2@tcp", 1, &r)
		time.Sleep(2 * time.Second)
		c.send(t, "10.0.0.2@tcp", 2, nil)
		time.Sleep(149*time.Second + time.Millisecond)
		c.hold(false)
		e := r.take()
		if len(e) != 1 || !errors.Is(e[0].Err, node.ErrTimedOut) || lnd.StatusOf(e[0].Err) != lnd.StatusNetworkTimeout {
			t.Errorf("events %+v", e)
		}
		if d := cmp.Diff([]uint64{0, 2}, *c.order); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
		if g := c.n.Admin().Counters(); g.Dropped != 1 || g.DroppedBytes != 28 || g.NetworkTimeouts != 0 {
			t.Errorf("counters %+v", g)
		}
	})
}

// Messages that wait when their NI is removed all end with an error.
func TestRemoveNIWithWaitingMessages(t *testing.T) {
	c := newCredited(t, 1, 1, "10.0.0.2@tcp")
	var r recorder
	for k := range uint64(1000) {
		c.send(t, "10.0.0.2@tcp", k, &r)
	}
	if err := c.n.RemoveNI(context.Background(), parseNID(t, "10.0.0.1@tcp")); err != nil {
		t.Fatal(err)
	}
	c.hold(false)
	e := r.take()
	if len(e) != 1000 {
		t.Errorf("%d events, want 1000", len(e))
	}
	for _, e := range e {
		if !e.Unlinked || !errors.Is(e.Err, lnd.ErrClosed) {
			t.Fatalf("event %+v", e)
		}
	}
	if g := c.n.Admin().Counters(); g.LocalAborted != 1000 || g.Committed != 0 {
		t.Errorf("counters %+v", g)
	}
}

// Given a peer NI with all its credits in use over an NI that is being removed, when
// another NI with fewer credits is added, then no more messages are under way than that
// NI allows, even when the old credits are released.
//
// lnet-core 7.1 (2)
func TestCreditsShrinkWhileTheyAreOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.RetryCount = 0
		n := newNode(t, node.Config{Parameters: &p})
		f := newFabric()
		f.addNI(t, newNode(t, node.Config{}), "10.0.0.9@tcp")
		to := process(t, "10.0.0.9@tcp")
		old := f.addStubborn(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp"), Tunables: lnd.Tunables{PeerCredits: 8, Credits: 8}})
		f.hold(true)
		var r recorder
		h := bind(t, n, portals.MD{Threshold: portals.Unlimited, Handler: &r})
		for range 8 {
			put(t, n, h, to, node.PutOptions{})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.RemoveNI(ctx, old.nid); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("remove: %v, want DeadlineExceeded", err)
		}
		f.addNIWith(t, n, lnd.Config{NID: parseNID(t, "10.0.0.2@tcp"), Tunables: lnd.Tunables{PeerCredits: 1, Credits: 8}})
		for range 8 {
			f.step() // messages of the old NI
		}
		if e := r.take(); len(e) != 8 {
			t.Fatalf("%d messages of the old NI ended, want 8", len(e))
		}
		for range 4 {
			put(t, n, h, to, node.PutOptions{})
		}
		for k := range 4 {
			if got := f.pending(); got != 1 {
				t.Errorf("message %d: %d at a time, want 1", k, got)
			}
			f.step()
		}
		if e, c := r.take(), peerNIs(n)[0].Credits; len(e) != 4 || c.Max != 1 || c.Available != 1 {
			t.Errorf("%d messages sent, credits %+v; want 4, 1 of 1", len(e), c)
		}
		close(old.release)
		f.hold(false)
	})
}

// Given the last NI on a net while it is being removed, when an unknown neighbour sends a
// request over it, then the answer ends like any other and does not wait for credits that
// never become available.
//
// lnet-core 7.1 (2)
func TestStrangerOnANIThatGoesGetsCredits(t *testing.T) {
	n := newNode(t, node.Config{})
	s := newFabric().addStubborn(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp")})
	sink(t, n, portals.OpGet)
	from := parseNID(t, "10.0.0.2@tcp")
	s.during = func() {
		err := s.inject(from, lnet.Header{
			Type: lnet.MsgGet, Src: from, Dest: s.nid, Portal: 1, Length: 8, Handle: lnet.Handle{Interface: 1, Object: 1}}, nil)
		if err != nil {
			t.Error(err)
		}
	}
	close(s.release)
	if err := n.RemoveNI(t.Context(), s.nid); err != nil {
		t.Fatal(err)
	}
	if c := n.Admin().Counters(); c.Received != 1 || c.Committed != 0 {
		t.Errorf("%d received, %d under way; want 1, 0", c.Received, c.Committed)
	}
}

// peer_credits is reduced to credits if it is larger.
//
// lnet-core 7.1 bounds
// lnetctl 4.2 (5)
func TestPeerCreditsAreCappedAtCredits(t *testing.T) {
	c := newCredited(t, 8, 4, "10.0.0.2@tcp")
	for k := range uint64(6) {
		c.send(t, "10.0.0.2@tcp", k, nil)
	}
	ni, peer := c.n.NIs()[1], peerNIs(c.n)[0]
	if ni.Tunables.PeerCredits != 4 || peer.Credits != (node.CreditInfo{Max: 4, Available: -2, Min: -2}) {
		t.Errorf("peer credits %d, peer %+v; want 4", ni.Tunables.PeerCredits, peer.Credits)
	}
	c.hold(false)
}
