//go:build !race

// These tests measure what the node keeps of large numbers of messages. The race detector would find in them what it
// finds in tests with few messages.

package node_test

import (
	"context"
	"encoding/binary"
	"flag"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// attack is the number of strangers in an attack. 200000 shows what an attacker can reach
// within minutes.
var attack = flag.Int("attack", 20000, "how many strangers attack; about 20000 or more, else there are too few for what the tests want")

// attacked sets the limit of peer NIs in attacks: a tenth of the strangers, or the
// default of a node.
func attacked() node.Parameters {
	p := node.DefaultParameters()
	p.PeerNIsMax = min(*attack/10, node.PeerNIsMax)
	return p
}

// withstood checks that the node keeps no more state after an attack than allowed.
func withstood(t *testing.T, n *node.Node, before uint64) {
	t.Helper()
	synctest.Wait()
	nis := 0
	for _, p := range n.Peers() {
		nis += len(p.NIs)
	}
	used := int64(liveHeap()) - int64(before)
	i := n.Admin().PeerNIs()
	t.Logf("%d strangers: %d peer NIs, %.1f MB of heap; %d forgotten, %d refused",
		*attack, nis, float64(used)/(1<<20), i.Forgotten, i.Refused)
	if most := i.Max + i.Max/8 + i.Named + 8; nis > most || i.Count > most {
		t.Errorf("%d peer NIs are shown, %d there; want %d at most", nis, i.Count, most)
	}
	if most := int64(i.Max)*4096 + 8<<20; used > most {
		t.Errorf("%d bytes of heap, want %d at most", used, most)
	}
	runtime.KeepAlive(n)
}

// pace limits the steps per second to the reserve for nodes that connect.
func pace(k int) {
	each := min(*attack/400, 1000)
	if k%each == each-1 {
		synctest.Wait()
		time.Sleep(time.Second)
	}
}

// besieged is a node that knows a gateway to tcp1 and a friendly peer.
type besieged struct {
	fabric *fabric
	node   *node.Node
	port   *port
	friend lnet.NID
}

func newBesieged(t *testing.T) *besieged {
	t.Helper()
	b := &besieged{fabric: newFabric()}
	newActor(t, b.fabric, "10.0.0.9@tcp", "10.0.1.9@tcp1")
	b.node = newNode(t, node.Config{Parameters: new(attacked())})
	b.port = b.fabric.addNI(t, b.node, "10.0.0.1@tcp")
	addRoute(t, b.node, "tcp1", "10.0.0.9@tcp", node.RouteOptions{})
	b.friend = newActor(t, b.fabric, "10.0.0.7@tcp").ports[0].nid
	b.meet(t)
	if err := b.node.Admin().ConfigurePeer(context.Background(), parseNID(t, "10.0.0.8@tcp"), nil, discovery.ConfigureOptions{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// meet discovers the friendly peer, which counts as a use by a program.
func (b *besieged) meet(t *testing.T) {
	t.Helper()
	if _, err := b.node.Discover(context.Background(), b.friend); err != nil {
		t.Fatal(err)
	}
}

// keeps checks that the gateway and the friendly peer were not evicted.
func (b *besieged) keeps(t *testing.T) {
	t.Helper()
	for _, nid := range []string{"10.0.0.7@tcp", "10.0.0.8@tcp", "10.0.0.9@tcp"} {
		if _, ok := b.node.Peer(parseNID(t, nid)); !ok {
			t.Errorf("%s has been forgotten", nid)
		}
	}
	if r := routeTo(t, b.node, "tcp1"); !r.Up {
		t.Errorf("the route is down: %+v", r)
	}
}

// Given a neighbour that claims to be our gateway, when it sends pushes of strangers
// behind it, then few of them are kept, and no other peer is evicted for them.
func TestAttackOfPushesThroughAGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBesieged(t)
		before := liveHeap()
		for k := range *attack {
			from := madeUp(parseNet(t, "tcp1"), k)
			info := infoWith(1, 0, from)
			if err := b.port.inject(parseNID(t, "10.0.0.9@tcp"), pushHeader(from, b.port.nid, info), info); err != nil {
				t.Fatal(err)
			}
			pace(k)
		}
		withstood(t, b.node, before)
		b.keeps(t)
	})
}

// Given neighbours that each push as many NIDs as they may, when these exceed the limit,
// then few are kept.
func TestAttackOfLongPushes(t *testing.T) {
	const length = 4000
	synctest.Test(t, func(t *testing.T) {
		b := newBesieged(t)
		before := liveHeap()
		net := parseNet(t, "tcp")
		nids := make([]lnet.NID, length)
		for k := range *attack / length * 3 {
			for j := range nids {
				nids[j] = madeUp(net, k*length+j)
			}
			for seq := range uint32(2) { // the first one evicts others
				info := infoWith(1+seq, 0, nids...)
				if err := b.port.inject(nids[0], pushHeader(nids[0], b.port.nid, info), info); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(time.Second)
			}
		}
		withstood(t, b.node, before)
		b.keeps(t)
	})
}

// Given strangers that connect one after the other and send a message, when they exceed
// the limit, then those that have been silent for the longest time are evicted.
func TestAttackOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBesieged(t)
		before := liveHeap()
		for k := range *attack {
			from := madeUp(b.port.nid.Net(), k)
			h := pushHeader(from, b.port.nid, nil)
			h.Portal = 7
			if err := b.port.inject(from, h, nil); err != nil {
				t.Fatal(err)
			}
			if pace(k); k%1000 == 0 {
				h.Src = b.friend
				if err := b.port.inject(b.friend, h, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		withstood(t, b.node, before)
		b.keeps(t)
		late := 0
		for k := range *attack / 20 { // the number of nodes that may connect at once
			if _, ok := b.node.Peer(madeUp(b.port.nid.Net(), *attack-1-k)); ok {
				late++
			}
		}
		if late < *attack/40 {
			t.Errorf("of the last %d callers %d are known", *attack/20, late)
		}
	})
}

// Given a router whose neighbour sends messages to many NIDs that do not exist, then the
// messages are dropped, the NIDs are removed, and each is tried again only after a while.
func TestAttackOfMadeUpDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: new(attacked()), Routing: true})
		near := f.addNI(t, n, "10.0.0.1@tcp")
		f.addNI(t, n, "10.0.1.1@tcp1")
		var calls atomic.Int64
		f.failBy(func(tx *lnd.Tx) error {
			if tx.To.NID.Net() == parseNet(t, "tcp1") {
				calls.Add(1)
			}
			return nil
		})
		from := newActor(t, f, "10.0.0.7@tcp").ports[0].nid
		before := liveHeap()
		for k := range *attack {
			to := madeUp(parseNet(t, "tcp1"), k%(*attack*3/4)) // some of them twice
			h := pushHeader(from, to, nil)
			h.Portal = 7
			if err := near.inject(from, h, nil); err != nil {
				t.Fatal(err)
			}
			pace(k)
		}
		time.Sleep(5 * time.Minute)
		withstood(t, n, before)
		t.Logf("%d calls", calls.Load())
		if left := n.Admin().PeerNIs().Count; left > 8 {
			t.Errorf("%d peer NIs are left", left)
		}
		if c := calls.Load(); c > int64(*attack) {
			t.Errorf("%d calls for %d messages", c, *attack)
		}
		if c := n.Admin().Counters(); c.Committed != 0 || c.Dropped < uint64(*attack) {
			t.Errorf("%d messages under way, %d dropped", c.Committed, c.Dropped)
		}
	})
}

// Given a gateway that repeatedly reports that it is not on the net of its route, then
// the log gets one line per minute.
func TestAttackOnTheLogByAGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		nid := newActor(t, f, "10.0.0.9@tcp", "10.0.1.9@tcp1").ports[0].nid
		var log lineLog
		n := newNode(t, node.Config{Logger: log.logger()})
		p := f.addNI(t, n, "10.0.0.1@tcp")
		addRoute(t, n, "tcp1", nid.String(), node.RouteOptions{Hops: 1})
		const minutes, perMinute = 3, 500
		for k := range uint32(minutes * perMinute) {
			info := lnet.PingInfo{
				Features: lnet.FeatNIStatus | lnet.FeatMultiRail | lnet.FeatDiscovery, PID: lnet.PIDLustre, Seq: 2 + k,
				NIs: []lnet.PingNI{{NID: nid, Status: lnet.StatusUp}},
			}
			b := info.Append(nil, binary.LittleEndian)
			if err := p.inject(nid, pushHeader(nid, p.nid, b), b); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(time.Minute / perMinute)
		}
		const text = "its gateway reports no NI on the destination net"
		if c := strings.Count(log.String(), text); c == 0 || c > minutes+1 {
			t.Errorf("%d lines of %d causes", c, minutes*perMinute)
		}
	})
}
