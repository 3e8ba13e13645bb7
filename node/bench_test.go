package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Command lnetperf compares whole processes. These benchmarks run both nodes in one
// process, so time and allocations are the sum of both.

// BenchmarkPutAck measures a PUT of 64 bytes and its ACK between two nodes, over simlnd
// and over TCP, and for comparison the same number of bytes in two writes over plain TCP.
// With -cpu 1, msgs/s is the rate at which one core runs both nodes.
func BenchmarkPutAck(b *testing.B) {
	for _, window := range []int{1, 64} {
		for _, w := range []struct {
			name string
			pair func(tb testing.TB) (from, at *node.Node, to lnet.ProcessID)
		}{
			{"simlnd", simulatedPair},
			{"tcp", loopbackPair},
		} {
			b.Run(fmt.Sprintf("%s/%d in flight", w.name, window), func(b *testing.B) {
				x := newSeries(b, lnet.MsgPut, window, w.pair)
				x.run(b, 1000)
				b.ReportAllocs()
				b.ResetTimer()
				x.run(b, b.N)
				reportRate(b)
			})
		}
	}
	b.Run("plain TCP/1 in flight", benchmarkPlain)
}

// BenchmarkInbox is BenchmarkPutAck to an inbox that a goroutine reads.
func BenchmarkInbox(b *testing.B) {
	for _, window := range []int{1, 64} {
		b.Run(fmt.Sprintf("tcp/%d in flight", window), func(b *testing.B) {
			from, at, to := loopbackPair(b)
			inbox := openInbox(b, at, node.InboxConfig{Portal: 1, Size: 64, Buffers: 128})
			var reader sync.WaitGroup
			reader.Go(func() {
				for _, err := range inbox.Messages(context.Background()) {
					if err != nil && !errors.Is(err, node.ErrClosed) {
						b.Error(err)
					}
				}
			})
			x := newSeriesTo(b, lnet.MsgPut, window, from, to)
			x.run(b, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			x.run(b, b.N)
			reportRate(b)
			b.StopTimer()
			inbox.Close()
			reader.Wait()
		})
	}
}

// reportRate counts each PUT and each ACK as a message.
func reportRate(b *testing.B) {
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// benchmarkPlain sends as many bytes as a PUT of 64 bytes and its ACK use on a
// connection, in both directions.
func benchmarkPlain(b *testing.B) {
	const putSize, ackSize = 96 + 64, 96
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopbackAddress(2), 0)))
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		served <- answerPlain(c, putSize, ackSize)
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	message := make([]byte, putSize)
	for b.Loop() {
		if _, err := c.Write(message); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, message[:ackSize]); err != nil {
			b.Fatal(err)
		}
	}
	reportRate(b)
	_ = c.Close()
	_ = l.Close()
	if err := <-served; err != io.EOF {
		b.Error(err)
	}
}

func answerPlain(c net.Conn, in, out int) error {
	defer func() { _ = c.Close() }()
	message := make([]byte, in)
	for {
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
		if _, err := c.Write(message[:out]); err != nil {
			return err
		}
	}
}

// series is a number of PUTs or GETs, in which each ACK or REPLY starts the next one.
type series struct {
	from    *node.Node
	to      lnet.ProcessID
	typ     lnet.MsgType
	handles []lnet.Handle

	total        int64
	begun, ended atomic.Int64
	done         chan struct{}
	err          error // of the first that failed; written before done is closed
}

func newSeries(tb testing.TB, typ lnet.MsgType, window int, pair func(tb testing.TB) (from, at *node.Node, to lnet.ProcessID)) *series {
	tb.Helper()
	from, at, to := pair(tb)
	sink(tb, at, portals.OpPut|portals.OpGet)
	return newSeriesTo(tb, typ, window, from, to)
}

// newSeriesTo returns a series to a node with a matching entry.
func newSeriesTo(tb testing.TB, typ lnet.MsgType, window int, from *node.Node, to lnet.ProcessID) *series {
	tb.Helper()
	x := &series{from: from, to: to, typ: typ}
	for range window {
		x.handles = append(x.handles, bind(tb, from, portals.MD{Bytes: make([]byte, 64), Threshold: portals.Unlimited, Handler: x}))
	}
	return x
}

// run runs n of them.
func (x *series) run(tb testing.TB, n int) {
	tb.Helper()
	x.total, x.done = int64(n), make(chan struct{})
	x.begun.Store(0)
	x.ended.Store(0)
	for _, h := range x.handles {
		x.next(h)
	}
	<-x.done
	if x.err != nil {
		tb.Fatal(x.err)
	}
}

func (x *series) next(h lnet.Handle) {
	if x.begun.Add(1) > x.total {
		return
	}
	var err error
	if x.typ == lnet.MsgPut {
		err = x.from.Put(h, x.to, node.PutOptions{Portal: 1, Ack: true})
	} else {
		err = x.from.Get(h, x.to, node.GetOptions{Portal: 1})
	}
	if err != nil {
		x.fail(err)
	}
}

// HandleEvent implements portals.Handler.
func (x *series) HandleEvent(e *portals.Event) {
	switch {
	case e.Unlinked:
	case e.Err != nil:
		x.fail(e.Err)
	case e.Type == portals.EventAck || e.Type == portals.EventReply:
		if x.ended.Add(1) == x.total {
			close(x.done)
			return
		}
		x.next(e.MD)
	}
}

func (x *series) fail(err error) {
	if x.ended.Swap(2*x.total) < x.total {
		x.err = err
		close(x.done)
	}
}

// simulatedPair returns two nodes on a perfect fabric, in real time.
func simulatedPair(tb testing.TB) (from, at *node.Node, to lnet.ProcessID) {
	tb.Helper()
	fabric := simlnd.New(simlnd.Config{})
	tb.Cleanup(fabric.Close)
	return nodePair(tb, func(k int) (lnd.Driver, lnet.NID) {
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(k + 1)})
		d, err := simlnd.NewDriver(fabric.Host(fmt.Sprint("host", k), address.String()), driverConfig())
		if err != nil {
			tb.Fatal(err)
		}
		closeAtEnd(tb, d)
		return d, lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), address)
	})
}

// loopbackPair returns two nodes on the loopback device.
func loopbackPair(tb testing.TB) (from, at *node.Node, to lnet.ProcessID) {
	tb.Helper()
	return nodePair(tb, func(k int) (lnd.Driver, lnet.NID) {
		c := socklnd.UnprivilegedConfig(9983)
		c.Tunables.PeerCredits = 64
		d, err := socklnd.New(c)
		if err != nil {
			tb.Fatal(err)
		}
		closeAtEnd(tb, d)
		return d, lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), loopbackAddress(k))
	})
}

// loopbackAddress returns an address that no other test process uses.
func loopbackAddress(k int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), byte(100 + k)})
}

func driverConfig() socklnd.Config {
	c := socklnd.DefaultConfig()
	c.Tunables.PeerCredits = 64
	return c
}

func closeAtEnd(tb testing.TB, d *socklnd.Driver) {
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
}

func nodePair(tb testing.TB, open func(k int) (lnd.Driver, lnet.NID)) (from, at *node.Node, to lnet.ProcessID) {
	tb.Helper()
	var nodes [2]*node.Node
	for k := range nodes {
		d, nid := open(k)
		nodes[k] = newNode(tb, node.Config{})
		if _, err := nodes[k].AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
			tb.Fatal(err)
		}
		to = lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}
	}
	return nodes[0], nodes[1], to
}

// TestNothingIsAllocatedOverDrivers runs both nodes with complete drivers, long enough
// that occasional allocations of the driver and the fabric do not count.
func TestNothingIsAllocatedOverDrivers(t *testing.T) {
	if testenv.Race {
		t.Log("pools drop what they are given under the race detector: nothing is asserted")
	}
	for name, pair := range map[string]func(tb testing.TB) (from, at *node.Node, to lnet.ProcessID){
		"simlnd": simulatedPair, "tcp": loopbackPair,
	} {
		for _, typ := range []lnet.MsgType{lnet.MsgPut, lnet.MsgGet} {
			t.Run(fmt.Sprintf("%s %s", typ, name), func(t *testing.T) {
				x := newSeries(t, typ, 1, pair)
				x.run(t, testenv.Fewer(2000))
				per := 1.0
				for range testenv.Fewer(5) { // a garbage collection that empties the pools affects one series
					n := testenv.Fewer(5000)
					before := mallocs()
					x.run(t, n)
					per = min(per, float64(mallocs()-before)/float64(n))
				}
				if per > 0.02 && !testenv.Race {
					t.Errorf("%.3f allocations per request and its answer, want 0", per)
				}
			})
		}
	}
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// BenchmarkIdlePeer measures the memory of a peer from which one message has arrived.
func BenchmarkIdlePeer(b *testing.B) {
	for _, peers := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			for b.Loop() {
				n, port := lonelyNode(b)
				before := heapInUse()
				for k := range peers {
					from := lnet.NIDFromIP(port.nid.Net(), netip.AddrFrom4([4]byte{10, byte(1 + k>>16), byte(k >> 8), byte(k)}))
					h := lnet.Header{
						Dest: port.nid, Src: from, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
						Type: lnet.MsgPut, Handle: lnet.NoHandle, Portal: 9, // a portal without entries
					}
					if err := port.inject(from, h, nil); err != nil {
						b.Fatal(err)
					}
				}
				reportEach(b, before, peers, "bytes/peer")
				if got := len(n.Peers()); got != peers {
					b.Fatalf("%d peers, want %d", got, peers)
				}
				closeNode(b, n)
			}
		})
	}
}

// BenchmarkPostedEntry measures the memory of an attached entry with its MD.
func BenchmarkPostedEntry(b *testing.B) {
	for _, entries := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			for b.Loop() {
				n, _ := lonelyNode(b)
				room := make([]byte, 64)
				before := heapInUse()
				for k := range uint64(entries) {
					attach(b, n, portals.Entry{Portal: 1, MatchBits: k, Position: portals.After},
						portals.MD{Bytes: room, Threshold: 1, Unlink: true, Options: portals.OpPut})
				}
				reportEach(b, before, entries, "bytes/entry")
				closeNode(b, n)
			}
		})
	}
}

// lonelyNode returns a node with one NI on a separate fabric. closeNode closes it.
func lonelyNode(b *testing.B) (*node.Node, *port) {
	b.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return n, newFabric().addNI(b, n, "10.0.0.1@tcp")
}

func closeNode(b *testing.B, n *node.Node) {
	b.Helper()
	if err := n.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// reportEach reports the growth of the heap divided by n.
func reportEach(b *testing.B, before uint64, n int, unit string) {
	b.ReportMetric((float64(heapInUse())-float64(before))/float64(n), unit)
}

// heapInUse returns the size of all reachable objects in bytes.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC() // twice, because of sync.Pool
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// sink attaches an MD to portal 1 that accepts everything.
func sink(t testing.TB, n *node.Node, options portals.MDOptions) {
	t.Helper()
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 4096), Threshold: portals.Unlimited,
		Options: options | portals.ManageRemote | portals.Truncate,
		Handler: portals.HandlerFunc(func(*portals.Event) {}),
	})
}
