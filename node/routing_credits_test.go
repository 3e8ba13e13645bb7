package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Indexes of the pools.
const (
	tiny = iota
	small
	large
)

const asker, otherAsker = "10.77.0.10@tcp", "10.77.0.11@tcp"

// expect compares the results of messages with text such as "taken 3, waits 2".
func expect(t testing.TB, step string, arrivals []*arrival, taken, waits int) {
	t.Helper()
	want := append(slices.Repeat([]string{"taken"}, taken), slices.Repeat([]string{"waits"}, waits)...)
	if got := were(arrivals); !slices.Equal(got, want) {
		t.Errorf("%s: %v; want %v", step, got, want)
	}
}

// lnet-core 7.1 (3), 7.4 (1), 7.4 return (2)
func TestRouterCreditsOfANeighbour(t *testing.T) {
	for _, c := range []struct {
		name      string
		tunables  lnd.Tunables
		parameter int
		credits   int
	}{
		{"as many as peer credits", lnd.Tunables{PeerCredits: 3}, 0, 3},
		{"the module parameter", lnd.Tunables{PeerCredits: 3}, 5, 5},
		{"the net's own", lnd.Tunables{PeerCredits: 3, PeerBufferCredits: 2}, 5, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := static()
				p.PeerBufferCredits = c.parameter
				r := newHandedWith(t, p, node.Buffers{}, c.tunables)
				info := func() node.CreditInfo { return peerNI(t, r.node, asker).RouterCredits }
				sent := r.puts(t, asker, c.credits+3, 0)
				expect(t, "more than there are credits", sent, c.credits, 3)
				if want := (node.CreditInfo{Max: c.credits, Available: -3, Min: -3}); info() != want {
					t.Errorf("credits %+v; want %+v", info(), want)
				}
				for k := range 2 { // each message that was sent admits the oldest waiting one
					r.far.finish(1, nil)
					expect(t, "one has left", sent, c.credits+1+k, 2-k)
				}
				if info().Min != -3 {
					t.Errorf("credits %+v", info())
				}
				// Other neighbours have to wait only for credits to send.
				other := r.puts(t, otherAsker, 1, 0)
				expect(t, "another neighbour", other, 1, 0)
				expect(t, "the last", sent, c.credits+2, 1)
				r.sound(t, "afterwards")
			})
		})
	}
}

// lnet-core 7.1 (4), 7.4 (2), 7.4 (3), 7.4 return (1), 9.3 (2)
// lnet-wire 8 (3)
func TestRouterBuffersRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{Tiny: 3, Small: 2, Large: 1}, lnd.Tunables{PeerCredits: 20})
		sizes := []int{0, 10, 5000}
		buffers := []int{3, 2, 1}
		var sent [3][]*arrival
		for k, size := range sizes {
			sent[k] = r.puts(t, asker, buffers[k]+2, size)
			expect(t, fmt.Sprintf("%d bytes", size), sent[k], buffers[k], 2)
			if p := r.pool(k); p.Credits != -2 || p.MinCredits != -2 || p.Buffers != buffers[k] {
				t.Errorf("pool %+v", p)
			}
		}
		if i := peerNI(t, r.node, asker).RouterCredits; i.Available != 20-12 { // messages that wait for a buffer hold a router credit
			t.Errorf("router credits %+v", i)
		}
		for k := range sizes { // a buffer of another pool does not help
			r.far.finish(buffers[k], nil)
			expect(t, "some have left", sent[k], min(buffers[k]*2, buffers[k]+2), max(0, 2-buffers[k]))
			for _, o := range sent[k+1:] {
				if w := were(o); w[len(w)-1] != "waits" {
					t.Errorf("of another pool: %v", w)
				}
			}
		}
		r.sound(t, "afterwards")
	})
}

// When a message is released while one message waits for its buffer, and another for its
// router credit, the one that waits for the buffer continues first.
//
// lnet-core 7.4 return (1)-(2)
func TestBuffersComeBackBeforeRouterCredits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{Small: 1}, lnd.Tunables{PeerBufferCredits: 1})
		sent := r.puts(t, asker, 1, 100)
		sent = append(sent, r.puts(t, asker, 1, 0)...)        // waits for the credit
		sent = append(sent, r.puts(t, otherAsker, 1, 100)...) // waits for the buffer
		expect(t, "at first", sent, 1, 2)
		r.far.finish(1, nil)
		expect(t, "one has left", sent, 3, 0)
		headers := r.far.finish(2, nil)
		if len(headers) != 2 || headers[0].PayloadLength != 100 || headers[1].PayloadLength != 0 {
			t.Errorf("sent on: %+v", headers)
		}
		r.sound(t, "afterwards")
	})
}

// The payload is forwarded unchanged.
//
// lnet-core 7.4 (3)
func TestRoutedPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{})
		for _, size := range []int{0, 1, 4095, 4096, 4097, 100000, lnet.MTU, 3, 0} { // buffers are reused
			a := r.puts(t, asker, 1, size)[0]
			r.far.mu.Lock()
			tx := r.far.out[0]
			b := make([]byte, tx.Payload.Length)
			tx.Payload.CopyTo(b)
			r.far.mu.Unlock()
			if string(b) != string(a.payload) || tx.Header.PayloadLength != uint32(size) {
				t.Errorf("%d bytes came out as %d, or others", size, len(b))
			}
			r.sound(t, "one message")
		}
	})
}

// A router with few buffers logs a warning.
//
// lnet-core 7.5
func TestFewRouterBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			b     node.Buffers
			warns int
		}{
			{node.Buffers{}, 0},
			{node.Buffers{Tiny: 512, Small: 4096, Large: 256}, 0},
			{node.Buffers{Tiny: 511, Small: 4096, Large: 256}, 1},
			{node.Buffers{Tiny: 511, Small: 4095, Large: 255}, 3},
		} {
			log := &lineLog{}
			n := newNode(t, node.Config{Logger: log.logger()})
			n.Admin().SetBuffers(c.b)
			if got := strings.Count(log.String(), "fewer router buffers than recommended; forwarded messages may have to wait for one"); got != c.warns {
				t.Errorf("%+v: %d warnings, want %d", c.b, got, c.warns)
			}
		}
	})
}

// lnet-core 7.5, 7.4 (2)
func TestRouterPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{})
		pages, buffers := []int{0, 1, 256}, []int{2048, 16384, 1024}
		for k := range pages {
			want := node.PoolInfo{Pages: pages[k], Buffers: buffers[k], Credits: buffers[k], MinCredits: buffers[k]}
			if p := r.pool(k); p != want {
				t.Errorf("pool %+v; want %+v", p, want)
			}
		}
		for _, c := range []struct{ size, pool int }{{0, tiny}, {1, small}, {4096, small}, {4097, large}, {lnet.MTU, large}} {
			r.puts(t, asker, 1, c.size)
			for k := range pages {
				used := r.pool(k).Buffers - r.pool(k).Credits
				if want := map[bool]int{true: 1}[k == c.pool]; used != want {
					t.Errorf("%d bytes: %d buffers of pool %d are in use", c.size, used, k)
				}
			}
			r.sound(t, "one message")
		}
		if w := r.node.Admin().Buffers(); w != (node.Buffers{Tiny: 2048, Small: 16384, Large: 1024}) {
			t.Errorf("sizes %+v", w)
		}
		// 0 means the default, negative numbers leave the size unchanged.
		r.node.Admin().SetBuffers(node.Buffers{Tiny: 5, Small: -1, Large: 7})
		r.node.Admin().SetBuffers(node.Buffers{Tiny: -1, Small: 6, Large: 0})
		for k, want := range []int{5, 6, 1024} {
			if p := r.pool(k); p.Buffers != want || p.Credits != want {
				t.Errorf("pool %+v; want %d", p, want)
			}
		}
		// The sizes are stored while routing is off, without effect.
		r.node.Admin().DisableRouting()
		for r.node.Admin().Routing().State != node.RoutingDisabled {
			time.Sleep(time.Second)
		}
		r.node.Admin().SetBuffers(node.Buffers{Tiny: 9, Small: -1, Large: -1})
		if p := r.pool(tiny); p.Buffers != 0 || r.node.Admin().Buffers().Tiny != 9 {
			t.Errorf("while off: %+v, %+v", p, r.node.Admin().Buffers())
		}
		if err := r.node.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		for k, want := range []int{9, 6, 1024} {
			if p := r.pool(k); p.Buffers != want || p.Credits != want {
				t.Errorf("on again: pool %+v; want %d", p, want)
			}
		}
	})
}

// Surplus buffers are freed when they are released; additional ones are available at
// once.
//
// lnet-core 7.5
func TestPoolsChangeWhileInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{Tiny: 6, Small: 6}, lnd.Tunables{PeerCredits: 50})
		sent := r.puts(t, asker, 9, 100)
		expect(t, "six buffers", sent, 6, 3)
		set := func(n int) { r.node.Admin().SetBuffers(node.Buffers{Tiny: -1, Small: n, Large: -1}) }
		set(2)
		expect(t, "two", sent, 6, 3)
		r.far.finish(4, nil)
		expect(t, "four are back, which are too many", sent, 6, 3)
		if p := r.pool(small); p.Buffers != 2 {
			t.Errorf("pool %+v", p)
		}
		r.far.finish(1, nil)
		expect(t, "one more", sent, 7, 2)
		set(5)
		expect(t, "five", sent, 9, 0)
		set(1)
		sent = append(sent, r.puts(t, asker, 2, 100)...)
		expect(t, "one", sent, 9, 2)
		set(3)
		set(1)
		set(4)
		set(1)
		r.sound(t, "afterwards")
		if p := r.pool(small); p.Buffers != 1 || p.Credits != 1 {
			t.Errorf("pool %+v", p)
		}
		if w := were(sent); slices.Contains(w, "waits") || slices.Contains(w, "dropped") {
			t.Errorf("%v", w)
		}
		// A message that is valid passes.
		sent = r.puts(t, asker, 2, 100)
		expect(t, "anew", sent, 1, 1)
		r.sound(t, "at last")
	})
}

// lnet-core 7.2 (2), 7.2 counted
func TestNextHopIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{})
		r.puts(t, asker, 1, 100)
		r.far.finish(1, nil)
		down := func() { r.far.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, behind), Err: lnd.ErrUnreachable}) }
		down()
		before := r.node.Admin().Counters()
		a := r.puts(t, asker, 1, 100)
		expect(t, "taken in", a, 1, 0)
		if r.far.waiting() != 0 {
			t.Error("sent to a hop that is down")
		}
		c := r.node.Admin().Counters()
		if c.Dropped != before.Dropped+1 || c.DroppedBytes != before.DroppedBytes+100 {
			t.Errorf("dropped %d, %d bytes", c.Dropped-before.Dropped, c.DroppedBytes-before.DroppedBytes)
		}
		i := peerNI(t, r.node, behind)
		if i.Traffic.Dropped.Put != 1 {
			t.Errorf("dropped for it: %+v", i.Traffic.Dropped)
		}
		if i.Health.Value != node.MaxHealth {
			t.Errorf("health %d: nobody has tried", i.Health.Value)
		}
		// Our own messages are sent there nevertheless.
		h := bind(t, r.node, portals.MD{Threshold: 1, Unlink: true})
		put(t, r.node, h, process(t, behind), node.PutOptions{Portal: 4})
		if r.far.waiting() != 1 {
			t.Error("our own message was not sent")
		}
		r.far.finish(1, nil)
		// A message from the neighbour marks it as up.
		r.far.message(t, lnet.MsgPut, behind, gatewayFar, 0)
		r.puts(t, asker, 1, 100)
		if r.far.waiting() != 1 {
			t.Error("heard again, and not sent to")
		}

		// It goes down while messages wait for credits to it.
		r.puts(t, asker, 3, 100)
		r.puts(t, otherAsker, 8, 100)
		if n := r.far.waiting(); n != 8 {
			t.Fatalf("%d under way", n)
		}
		down()
		before = r.node.Admin().Counters()
		r.far.finish(1, nil)
		c = r.node.Admin().Counters()
		if d, s := c.Dropped-before.Dropped, c.RemoteDropped-before.RemoteDropped; d != 4 || s != 4 {
			t.Errorf("%d dropped, %d by their peer's fault; 4 waited", d, s)
		}
		r.sound(t, "afterwards")
	})
}

// On a net without aliveness, the state of the next hop does not matter.
//
// lnet-core 7.2 (2)
func TestNextHopWithoutAliveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{PeerTimeout: noTimeout})
		r.puts(t, asker, 1, 0)
		r.far.finish(1, nil)
		r.far.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, behind), Err: lnd.ErrUnreachable})
		r.puts(t, asker, 1, 0)
		if r.far.waiting() != 1 {
			t.Error("not sent")
		}
		r.sound(t, "afterwards")
	})
}

// A router does not consider the aliveness of a next hop that can be reached only over
// connections that the next hop has made.
//
// lnet-core 7.2 (2)
func TestNextHopUnprivileged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHanded(t, node.Buffers{}, lnd.Tunables{})
		r.puts(t, asker, 1, 100)
		r.far.finish(1, nil)
		r.far.upper.PeerDown(lnd.PeerDown{Peer: parseNID(t, behind), Err: lnd.ErrUnreachable})
		for _, c := range []struct {
			pid  lnet.PID
			sent int
		}{{lnet.PIDLustre, 0}, {lnet.PIDUserFlag | 40000, 1}} {
			a := &arrival{hand: r.near, rx: lnd.Rx{From: process(t, asker), Header: lnet.Header{
				Type: lnet.MsgAck, Src: parseNID(t, asker), Dest: parseNID(t, behind), SrcPID: lnet.PIDLustre, DestPID: c.pid,
			}}}
			a.rx.Driver = a
			if err := r.near.upper.Arrived(&a.rx); err != nil {
				t.Fatal(err)
			}
			if got := r.far.waiting(); got != c.sent {
				t.Errorf("for PID %s: %d are sent; want %d", c.pid, got, c.sent)
			}
		}
		r.sound(t, "afterwards")
	})
}
