package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// discovering creates a node with these NIs and discovery enabled.
func (f *fabric) discovering(t testing.TB, nids ...string) *node.Node {
	t.Helper()
	p := node.DefaultParameters()
	n := newNode(t, node.Config{Parameters: &p})
	for _, nid := range nids {
		f.addNI(t, n, nid)
	}
	return n
}

// inbox attaches memory for PUTs on portal 4.
func inbox(t testing.TB, n *node.Node) {
	t.Helper()
	attach(t, n, portals.Entry{Portal: 4, Match: lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDAny}},
		portals.MD{Bytes: make([]byte, 100), Options: portals.OpPut | portals.ManageRemote, Threshold: portals.Unlimited})
}

// say sends a PUT to portal 4 and waits for its ACK.
func say(t testing.TB, n *node.Node, to string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	_, err := n.PutWait(ctx, []byte("hello"), process(t, to), node.PutOptions{Portal: 4, Ack: true})
	return err
}

// sentMessage is a message as the fabric saw it.
type sentMessage struct {
	h       lnet.Header
	payload []byte
}

// record records the messages that are sent from now on.
func (f *fabric) record() *[]sentMessage {
	var all []sentMessage
	f.show(func(h lnet.Header, p []byte) { all = append(all, sentMessage{h, p}) })
	return &all
}

// kinds returns the types and ends of messages, for comparison.
func kinds(all []sentMessage) []string {
	var k []string
	for _, w := range all {
		k = append(k, w.h.Type.String()+" "+w.h.Src.String()+" "+w.h.Dest.String())
	}
	return k
}

const (
	a0, a1 = "10.77.0.11@tcp", "10.77.1.11@tcp1"
	b0, b1 = "10.77.0.12@tcp", "10.77.1.12@tcp1"
)

// discovery 1, 5.1 (1), 5.1 (3), 5.3 sent, 6.2 wire, 6.3 wire, 5.1 (5), 5.1 (7), 6.3
// discovery 6.7 reply (1), 6.7 ack, 5.1 (4)
// lnet-wire 7.1 (3), 7.8 (2)
func TestDiscoveringARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0, a1), f.discovering(t, b0, b1)
		inbox(t, b)
		all := f.record()
		if err := say(t, a, b0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		// Meanwhile B's own push and its ACK are sent over any rail.
		mine := slices.DeleteFunc(slices.Clone(*all), func(w sentMessage) bool {
			fromB := w.h.Src == parseNID(t, b0) || w.h.Src == parseNID(t, b1)
			return w.h.Type == lnet.MsgPut && fromB || w.h.Type == lnet.MsgAck && !fromB
		})
		got, want := kinds(mine), []string{
			"GET " + a0 + " " + b0, "REPLY " + b0 + " " + a0, "PUT " + a0 + " " + b0, "ACK " + b0 + " " + a0,
		}
		// Then the parked message and its ACK, over any rail.
		if len(*all) != 8 || len(got) != 6 || !slices.Equal(got[:4], want) {
			t.Fatalf("messages\n%v, want\n%v and 4 more", kinds(*all), want)
		}
		ping, pushed := mine[0].h, mine[2]
		if ping.Portal != 0 || ping.MatchBits != lnet.PingMatchBits || ping.Length != lnet.PingBufferMin || ping.DestPID != lnet.PIDLustre || ping.Offset != 0 {
			t.Errorf("ping %+v", ping)
		}
		info := a.PingInfo()
		if h := pushed.h; h.Portal != 0 || h.MatchBits != lnet.PingMatchBits || h.HdrData != 0 || h.Offset != 0 || h.Handle == lnet.NoHandle ||
			!bytes.Equal(pushed.payload, info.Append(nil, binary.LittleEndian)) {
			t.Errorf("push %+v % x", h, pushed.payload)
		}
		const done = discovery.MultiRail | discovery.Discovered | discovery.NIDsUpToDate
		for _, n := range []*node.Node{a, b} {
			if p := n.Peers(); len(p) != 1 || p[0].State != done || len(p[0].NIs) != 2 || p[0].Seq != 3 || p[0].AckedSeq != 3 {
				t.Errorf("peers %+v", p)
			}
		}
		// No further discovery starts, and messages that need no discovery start none.
		*all = nil
		c := f.discovering(t, "10.77.0.13@tcp")
		if err := say(t, a, b1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Ping(context.Background(), process(t, b0), node.PingOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := say(t, a, "0@lo"); err != nil && !errors.Is(err, node.ErrTimedOut) {
			t.Fatal(err)
		}
		for _, w := range *all {
			if w.h.Type == lnet.MsgGet && w.h.Src != parseNID(t, "10.77.0.13@tcp") || w.h.Type == lnet.MsgPut && w.h.Portal == 0 {
				t.Errorf("discovery again: %v", kinds([]sentMessage{w}))
			}
		}
	})
}

// discovery 5.3 failed, 6.8, 6.7 send, 6.8 callers
func TestDiscoveringNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := f.discovering(t, a0)
		err := say(t, a, b0)
		if !errors.Is(err, lnd.ErrUnreachable) {
			t.Errorf("put: %v", err)
		}
		if _, err := a.Discover(context.Background(), parseNID(t, b0)); !errors.Is(err, lnd.ErrUnreachable) {
			t.Errorf("discover: %v", err)
		}
		if p := a.Peers(); len(p) != 1 || !p[0].State.Has(discovery.Rediscover) {
			t.Errorf("peers %+v", p)
		}
		synctest.Wait() // the caller is notified before the message has ended
		if c := a.Admin().Counters(); c.Committed != 0 || c.Trackers != 0 {
			t.Errorf("left behind: %+v", c)
		}
	})
}

// lnet-core 6.4 pushes
// discovery 6.1 timer, 6.7 unlink, 6.2 wire
func TestDiscoveringTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		p.ResponseTracking = node.TrackNone
		a := newNode(t, node.Config{Parameters: &p})
		f.addNI(t, a, a0)
		b := newNode(t, node.Config{})
		f.addManualPort(t, b, b0) // never answers
		start := time.Now()
		err := say(t, a, b0)
		if d := time.Since(start); !errors.Is(err, node.ErrTimedOut) || d < 150*time.Second || d > 230*time.Second {
			t.Errorf("after %v: %v", d, err)
		}
	})
}

// discovery 2.3
func TestPeerThatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := f.discovering(t, a0)
		if err := a.Admin().ConfigurePeer(context.Background(), parseNID(t, b0), []lnet.NID{parseNID(t, b1)}, discovery.ConfigureOptions{}); err != nil {
			t.Fatal(err)
		}
		p, ok := a.Peer(parseNID(t, b1))
		if !ok || p.Primary != parseNID(t, b0) || !p.MultiRail || p.State != discovery.MultiRail|discovery.Configured {
			t.Fatalf("peer %+v", p)
		}
		near, far := p.NIs[0], p.NIs[1]
		if c := (node.CreditInfo{Max: 8, Available: 8, Min: 8}); near.Credits != c || near.RouterCredits != c || far.Credits != (node.CreditInfo{}) {
			t.Errorf("credits %+v %+v, and %+v on a net that is not ours", near.Credits, near.RouterCredits, far.Credits)
		}
		for _, i := range p.NIs {
			if i.Health.Value != node.MaxHealth || i.Aliveness != node.AliveUnknown || i.Refs != 1 || i.Policy.NIDPriority != selection.NoPriority ||
				i.Traffic.Sent.Total() != 0 {
				t.Errorf("NI %+v", i)
			}
		}
	})
}

// discovery 4.4 told, 5.2 (4)-(5), 7.1 (5)-(7)
// lnet-wire 7.8 (2)
// lnetctl 4.2 (4)
func TestPeersHearOfNIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0), f.discovering(t, b0)
		inbox(t, b)
		if err := say(t, a, b0); err != nil {
			t.Fatal(err)
		}
		knows := func(nids ...string) {
			t.Helper()
			synctest.Wait()
			var want []lnet.NID
			for _, s := range nids {
				want = append(want, parseNID(t, s))
			}
			if p, _ := a.Peer(parseNID(t, b0)); !slices.Equal(nidsOf(p), want) {
				t.Errorf("a knows %v, want %v", nidsOf(p), want)
			}
		}
		knows(b0)
		f.addNI(t, a, a1)
		f.addNI(t, b, b1)
		knows(b0, b1)
		f.addNI(t, b, "10.77.0.22@tcp")
		knows(b0, "10.77.0.22@tcp", b1)
		if err := b.RemoveNI(context.Background(), parseNID(t, b1)); err != nil {
			t.Fatal(err)
		}
		knows(b0, "10.77.0.22@tcp")
		// The primary NID is removed, and the next one represents the node.
		if err := b.RemoveNI(context.Background(), parseNID(t, b0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, ok := a.Peer(parseNID(t, "10.77.0.22@tcp")); !ok || p.Primary != parseNID(t, "10.77.0.22@tcp") {
			t.Errorf("peer %+v", p)
		}
		if err := say(t, a, "10.77.0.22@tcp"); err != nil {
			t.Error(err)
		}
	})
}

// discovery 7.3 health, 7.3, 9.4
func TestStatusThatPeersTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0), f.discovering(t)
		f.addNI(t, b, b0)
		far := f.addNI(t, b, b1)
		inbox(t, b)
		if err := say(t, a, b0); err != nil {
			t.Fatal(err)
		}
		value := func() int {
			synctest.Wait()
			p, _ := a.Peer(parseNID(t, b0))
			return p.NIs[1].Health.Value
		}
		if v := value(); v != node.MaxHealth {
			t.Errorf("health %d", v)
		}
		far.setLink(lnd.LinkDown)
		if v := value(); v != node.MaxHealth-100 {
			t.Errorf("health %d after it was called down", v)
		}
		if _, err := a.ForceDiscover(context.Background(), parseNID(t, b0)); err != nil {
			t.Fatal(err)
		}
		if v := value(); v != node.MaxHealth-100 {
			t.Errorf("health %d after it was called down twice", v)
		}
	})
}

// discovery 2.4 (2)
func TestDiscoveringThroughARouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		p.Discovery = discovery.Off
		r := newRouted(t, 1, p)
		if err := r.put(t, []byte("a")); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.server.Peers() {
			if p.Primary != parseNID(t, routerNIDs[0][1]) {
				t.Errorf("the server knows %s", p.Primary)
			}
		}
	})
}

// discovery 5.3 gone, 7.4 (6)
// selection 3 (4)
func TestParkedMessageWhoseNIDMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0, a1), f.discovering(t, b0, b1)
		inbox(t, b)
		// Two of b's NIDs are found at the same time: two peers, which are merged.
		q := node.NewEventQueue(node.AllEvents)
		for _, to := range []string{b0, b1} {
			h := bind(t, a, portals.MD{Bytes: []byte("hello"), Threshold: 2, Unlink: true, Handler: q})
			put(t, a, h, process(t, to), node.PutOptions{Portal: 4, Ack: true})
		}
		for unlinked := 0; unlinked < 2; {
			var e portals.Event
			if err := q.Next(context.Background(), &e); err != nil || e.Err != nil {
				t.Fatal(err, e.Err)
			}
			if e.Unlinked {
				unlinked++
			}
		}
		synctest.Wait()
		peers := a.Peers()
		if len(peers) != 1 || len(peers[0].NIs) != 2 || peers[0].Primary != parseNID(t, b0) {
			t.Fatalf("peers %+v", peers)
		}
		for _, i := range peers[0].NIs {
			if i.Credits.Available != i.Credits.Max || i.QueuedBytes != 0 {
				t.Errorf("%s: credits %+v", i.NID, i.Credits)
			}
		}
	})
}

// discovery 7.8 late
func TestPeerDeletedUnderAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0), f.discovering(t, b0)
		inbox(t, b)
		if err := say(t, a, b0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.hold(true)
		q := node.NewEventQueue(node.AllEvents)
		for range 20 { // more than the credits
			h := bind(t, a, portals.MD{Bytes: []byte("hello"), Threshold: 2, Unlink: true, Handler: q})
			put(t, a, h, process(t, b0), node.PutOptions{Portal: 4, Ack: true})
		}
		if err := a.Admin().DeletePeer(context.Background(), parseNID(t, b0)); err != nil {
			t.Fatal(err)
		}
		if len(a.Peers()) != 0 {
			t.Errorf("peers %+v", a.Peers())
		}
		f.hold(false)
		for unlinked := 0; unlinked < 20; {
			var e portals.Event
			if err := q.Next(context.Background(), &e); err != nil || e.Err != nil {
				t.Fatal(err, e.Err)
			}
			if e.Unlinked {
				unlinked++
			}
		}
		if c := a.NIs()[1].Credits; c.Available != c.Max {
			t.Errorf("credits %+v", c)
		}
	})
}

// discovery 5.2 off, 5.2 on, 6.9, 8.2 (2)
// lnetctl 4.13
func TestDiscoveryIsTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0, a1), f.discovering(t, b0, b1)
		inbox(t, b)
		inbox(t, a)
		if err := say(t, a, b0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p := b.Admin().Parameters()
		p.Discovery = discovery.Off
		if err := b.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if b.PingInfo().Features&lnet.FeatDiscovery != 0 {
			t.Error("ping info says that b discovers")
		}
		if err := say(t, a, b0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got, _ := a.Peer(parseNID(t, b0))
		if got.MultiRail || !got.State.Has(discovery.NoDiscovery) || len(got.NIs) != 1 {
			t.Errorf("a knows %+v", got)
		}
		p.Discovery = discovery.On
		if err := b.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		if _, err := a.ForceDiscover(context.Background(), parseNID(t, b0)); err != nil {
			t.Fatal(err)
		}
		if err := say(t, b, a0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, n := range []*node.Node{a, b} {
			if p := n.Peers(); !p[0].MultiRail || len(p[0].NIs) != 2 {
				t.Errorf("peers %+v", p)
			}
		}
	})
}

// discovery 7.5, 6.8 callers
func TestPrimaryNIDOfAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := f.discovering(t, a0, a1)
		f.discovering(t, b0, b1)
		ctx := context.Background()
		if nid, err := a.PrimaryNID(ctx, parseNID(t, b1)); err != nil || nid != parseNID(t, b0) {
			t.Errorf("%s, %v", nid, err)
		}
		if nid, err := a.PrimaryNID(ctx, parseNID(t, "10.77.0.99@tcp")); err == nil || nid != parseNID(t, "10.77.0.99@tcp") {
			t.Errorf("%s, %v", nid, err)
		}
		primary, err := a.Admin().AddPeer(ctx, []lnet.NID{parseNID(t, b1), parseNID(t, b0)}, node.AddPeerOptions{Lock: true})
		if err != nil || primary != parseNID(t, b1) {
			t.Errorf("%s, %v", primary, err)
		}
		synctest.Wait()
		if nid, err := a.PrimaryNID(ctx, parseNID(t, b0)); err != nil || nid != parseNID(t, b1) {
			t.Errorf("locked: %s, %v", nid, err)
		}
	})
}

// sanity-lnet 5 (217), 5 (350)
func TestDiscoveringOneself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		bare := f.discovering(t)
		if p, err := bare.Discover(context.Background(), lnet.LoopbackNID); err != nil || len(p.NIs) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
		a := f.discovering(t, a0, a1)
		if _, err := a.Ping(context.Background(), process(t, a0), node.PingOptions{}); err != nil {
			t.Fatal(err)
		}
		p, err := a.Discover(context.Background(), parseNID(t, a1))
		if err != nil || !p.MultiRail || p.Primary != parseNID(t, a0) || len(p.NIs) != 2 || p.NIs[0].Aliveness != node.AliveUnknown {
			t.Errorf("%+v, %v", p, err)
		}
		if len(a.Peers()) != 1 {
			t.Errorf("peers %+v", a.Peers())
		}
		if p, err := a.Discover(context.Background(), lnet.LoopbackNID); err != nil || !slices.Equal(nidsOf(p), []lnet.NID{parseNID(t, a0), parseNID(t, a1)}) {
			t.Errorf("0@lo: %+v, %v", p, err)
		}
	})
}
