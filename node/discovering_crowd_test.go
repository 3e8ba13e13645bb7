//go:build !race

package node_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// crowd simulates any number of nodes, each with a NID on tcp and one on tcp1, that
// perform discovery like kernels. They answer at once, in the goroutine of the first
// sender that finds the queue idle.
type crowd struct {
	mu       sync.Mutex
	running  bool
	todo     []func()
	pushed   map[int]bool // nodes that have pushed
	doors    map[lnet.Net]*door
	messages int // those that are not LNet's own
}

// door is the NI of the node under test on one of the nets.
type door struct {
	*crowd
	nid   lnet.NID
	upper lnd.Upper
}

const crowdBase = 0x0a000000

func crowdNID(net lnet.Net, k int) lnet.NID { return lnet.NIDFromNumber(net, uint32(crowdBase+k)) }

// crowdDriver opens doors.
type crowdDriver struct{ *crowd }

func (d crowdDriver) Type() lnet.NetType { return lnet.TypeTCP }

func (d crowdDriver) Open(_ context.Context, c lnd.Config) (lnd.Interface, error) {
	o := &door{crowd: d.crowd, nid: c.NID, upper: c.Upper}
	d.doors[c.Net] = o
	return o, nil
}

func (d *door) NID() lnet.NID               { return d.nid }
func (d *door) Device() string              { return d.nid.String() }
func (d *door) Options() lnd.Values         { return nil }
func (d *door) Link() lnd.LinkState         { return lnd.LinkUp }
func (d *door) Disconnect(lnet.NID)         {}
func (d *door) Refusals() lnd.RefusalCounts { return lnd.RefusalCounts{} }

func (d *door) LinkBack(lnet.NID) {}

func (d *door) Recall(lnet.NID, func(*lnd.Tx) bool) {}

func (d *door) Counters() []lnd.Counter {
	return nil
}
func (d *door) Close(context.Context) error { return nil }
func (d *door) Tunables() lnd.Tunables {
	return lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 1 << 20}
}
func (d *door) LargeNIDs() bool        { return true }
func (d *door) Timeout() time.Duration { return 50 * time.Second }

// later queues f for the goroutine that is processing the queue.
func (c *crowd) later(f func()) {
	c.mu.Lock()
	c.todo = append(c.todo, f)
	if c.running {
		c.mu.Unlock()
		return
	}
	c.running = true
	for len(c.todo) > 0 {
		f := c.todo[0]
		c.todo = c.todo[1:]
		c.mu.Unlock()
		f()
		c.mu.Lock()
	}
	c.running = false
	c.mu.Unlock()
}

// Send implements lnd.Interface.
func (d *door) Send(tx *lnd.Tx) {
	h := tx.Header
	d.later(func() {
		tx.Done.Sent(tx, nil)
		d.answer(h)
	})
}

// answer processes a message as its addressee does.
func (d *door) answer(h lnet.Header) {
	k := int(h.Dest.Number()) - crowdBase
	back := lnet.Header{
		Src: h.Dest, Dest: h.Src, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre, Handle: h.Handle,
	}
	switch {
	case h.Type == lnet.MsgGet:
		info := crowdInfo(k)
		back.Type, back.PayloadLength = lnet.MsgReply, uint32(len(info))
		d.arrive(back, info)
	case h.Type == lnet.MsgPut && h.Handle != lnet.NoHandle:
		back.Type, back.MatchBits, back.Length = lnet.MsgAck, h.MatchBits, h.PayloadLength
		d.arrive(back, nil)
	}
	if h.Type == lnet.MsgPut && h.Portal != lnet.ReservedPortal {
		d.mu.Lock()
		d.messages++
		d.mu.Unlock()
	}
	if h.Type == lnet.MsgPut && h.Portal == lnet.ReservedPortal && !d.pushed[k] {
		d.pushed[k] = true
		info := crowdInfo(k)
		d.arrive(lnet.Header{
			Type: lnet.MsgPut, Src: h.Dest, Dest: h.Src, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre,
			Handle:        lnet.Handle{Interface: 1, Object: uint64(k)},
			MatchBits:     lnet.PingMatchBits,
			PayloadLength: uint32(len(info)),
		}, info)
	}
}

func crowdInfo(k int) []byte {
	info := lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatRoutingDisabled | lnet.FeatMultiRail | lnet.FeatDiscovery,
		PID:      lnet.PIDLustre, Seq: 3,
		NIs: []lnet.PingNI{
			{NID: crowdNID(lnet.MakeNet(lnet.TypeTCP, 0), k), Status: lnet.StatusUp},
			{NID: crowdNID(lnet.MakeNet(lnet.TypeTCP, 1), k), Status: lnet.StatusUp},
		},
	}
	return info.Append(nil, binary.LittleEndian)
}

func (d *door) arrive(h lnet.Header, payload []byte) {
	rx := &lnd.Rx{Header: h, From: lnet.ProcessID{NID: h.Src, PID: lnet.PIDLustre}, Driver: payload}
	_ = d.upper.Arrived(rx) // messages of the crowd are valid
}

// Receive implements lnd.Interface.
func (d *door) Receive(rx *lnd.Rx, p lnd.Placement) {
	if p.Done == nil {
		return
	}
	p.Memory.CopyFrom(rx.Driver.([]byte))
	d.later(func() { p.Done.Received(rx, nil) })
}

func newCrowd(t testing.TB) (*crowd, *node.Node) {
	t.Helper()
	c := &crowd{pushed: map[int]bool{}, doors: map[lnet.Net]*door{}}
	n := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
	for k := range 2 {
		net := lnet.MakeNet(lnet.TypeTCP, uint16(k))
		if _, err := n.AddNI(context.Background(), crowdDriver{c}, lnd.Config{Net: net, NID: lnet.NIDFromNumber(net, 0x0a630001)}); err != nil {
			t.Fatal(err)
		}
	}
	return c, n
}

// liveHeap returns the size of the heap after a garbage collection.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A first message to each of 10,000 nodes makes the node discover them all. The test
// prints the figures.
func TestDiscoveringTenThousandPeers(t *testing.T) {
	const peers = 10000
	c, n := newCrowd(t)
	b := []byte("hello")
	q := node.NewEventQueue(node.EventsOf(portals.EventAck))
	before := liveHeap()
	start := time.Now()
	for k := range peers {
		h := bind(t, n, portals.MD{Bytes: b, Threshold: 2, Unlink: true, Handler: q})
		put(t, n, h, lnet.ProcessID{NID: crowdNID(lnet.MakeNet(lnet.TypeTCP, 0), k)}, node.PutOptions{Portal: 5, Ack: true})
	}
	for done := 0; done < peers; {
		var e portals.Event
		if err := q.Next(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		if e.Type == portals.EventAck {
			done++
		}
	}
	took := time.Since(start)
	for !settled(t, n, peers) { // includes processing of their pushes
		runtime.Gosched()
	}
	all := time.Since(start)
	c.mu.Lock()
	if c.messages != peers {
		t.Errorf("%d messages came", c.messages)
	}
	c.mu.Unlock()
	used := liveHeap() - before
	runtime.KeepAlive(n)
	t.Logf("%d peers of 2 NIDs: first message acknowledged by all after %v, pushes of all looked at after %v (%v each); %d bytes of memory each",
		peers, took.Round(time.Millisecond), all.Round(time.Millisecond), (all / peers).Round(100*time.Nanosecond), used/peers)
}

// settled reports whether all of the given number of peers are up to date.
func settled(t *testing.T, n *node.Node, peers int) bool {
	const done = discovery.MultiRail | discovery.Discovered | discovery.NIDsUpToDate
	infos := n.Peers()
	if len(infos) != peers {
		t.Fatalf("%d peers", len(infos))
	}
	for _, p := range infos {
		if len(p.NIs) != 2 {
			t.Fatalf("peer %s: %v, %d NIDs", p.Primary, p.State, len(p.NIs))
		}
		if p.State != done || p.AckedSeq != 3 {
			return false
		}
	}
	return true
}

// The cost of sending does not depend on the number of peers, or on which of them is the
// target.
func BenchmarkPutAmongPeers(b *testing.B) {
	const peers = 10000
	_, n := newCrowd(b)
	send := func(k int, h lnet.Handle) {
		put(b, n, h, lnet.ProcessID{NID: crowdNID(lnet.MakeNet(lnet.TypeTCP, 0), k)}, node.PutOptions{Portal: 5})
	}
	h := bind(b, n, portals.MD{Bytes: []byte("hello"), Threshold: portals.Unlimited})
	for k := range peers {
		send(k, h)
	}
	for {
		known := 0
		for _, p := range n.Peers() {
			if p.State.Has(discovery.Discovered) {
				known++
			}
		}
		if known == peers {
			break
		}
		runtime.Gosched()
	}
	for _, c := range []struct {
		name string
		peer func(i int) int
	}{
		{"first", func(int) int { return 0 }},
		{"last", func(int) int { return peers - 1 }},
		{"each", func(i int) int { return i % peers }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				send(c.peer(i), h)
			}
		})
	}
}

func (d *door) Probe(lnet.NID) bool { return true }
