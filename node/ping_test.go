package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// wire is a frame as a fabric saw it.
type wire struct {
	typ     lnet.MsgType
	from    lnet.NID
	handle  lnet.Handle
	length  uint32 // sink length of a GET, mlength of an ACK
	payload string // hex
}

// sameNID compares NIDs.
var sameNID = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })

// sinks lists the sink lengths of the GETs among frames.
func sinks(seen []wire) []uint32 {
	var lengths []uint32
	for _, w := range seen {
		if w.typ == lnet.MsgGet {
			lengths = append(lengths, w.length)
		}
	}
	return lengths
}

// watch records all frames. The result may be read when all goroutines are idle.
func watch(f *fabric) *[]wire {
	var seen []wire
	f.show(func(h lnet.Header, b []byte) {
		seen = append(seen, wire{h.Type, h.Src, h.Handle, h.Length, hex.EncodeToString(b)})
	})
	return &seen
}

// slow delays every frame. It is for synctest bubbles.
func slow(f *fabric, d time.Duration) {
	sent := f.sent
	f.show(func(h lnet.Header, b []byte) {
		time.Sleep(d)
		sent(h, b)
	})
}

// discover makes n discover the peer that has the NID, and returns when all goroutines
// are idle. It is for synctest bubbles.
func discover(t testing.TB, n *node.Node, nid lnet.NID) {
	t.Helper()
	if _, err := n.Discover(t.Context(), nid); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// early is the handle of the push that answers the first push of all, if that push is
// sent before there is new memory for the next one. Kernels are never that fast.
const early = 0xd

// The conversation of captures/a-tcp-ping-discovery-on: the same messages in the same
// order, with the same handles except for the interface cookies.
//
// lnet-core 10.1, 10.1 reset, 10.2
// lnet-wire 4.6 (1)-(3), 7.1 (1)-(2), 7.3 (1), 7.8 (1)
func TestConversationOfCaptureA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cookieA, cookieB = 0x18e9bb6583f950e4, 0x18e9bb6665b108cf
		f := newFabric()
		seen := watch(f)
		slow(f, time.Millisecond)
		at := func(ns int64) func() time.Time { return func() time.Time { return time.Unix(0, ns) } }
		a := newNode(t, node.Config{Wall: at(cookieA), Parameters: new(node.DefaultParameters())})
		b := newNode(t, node.Config{Wall: at(cookieB), Parameters: new(node.DefaultParameters())})
		f.addNI(t, a, "10.77.0.11@tcp")
		f.addNI(t, b, "10.77.0.12@tcp")
		ida, idb := process(t, "10.77.0.11@tcp"), process(t, "10.77.0.12@tcp")

		ping := func(n *node.Node, to lnet.ProcessID) {
			t.Helper()
			info, err := n.Ping(t.Context(), to, node.PingOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := lnet.PingInfo{
				Features: 0x1e, PID: 12345, Seq: 2,
				NIs: []lnet.PingNI{{NID: to.NID, Status: lnet.StatusUp}},
			}
			if d := cmp.Diff(want, info, sameNID); d != "" {
				t.Errorf("ping info (-want +got):\n%s", d)
			}
		}
		ping(a, idb)
		ping(a, idb)
		discover(t, a, idb.NID)
		time.Sleep(time.Second) // b's push and its ACK take a while
		ping(b, ida)

		infoA, infoB := infoOf(t, "10.77.0.11@tcp"), infoOf(t, "10.77.0.12@tcp")
		onA := func(object uint64) lnet.Handle { return lnet.Handle{Interface: cookieA, Object: object} }
		onB := func(object uint64) lnet.Handle { return lnet.Handle{Interface: cookieB, Object: object} }
		want := []wire{
			{lnet.MsgGet, ida.NID, onA(0xd), 3960, ""},
			{lnet.MsgReply, idb.NID, onA(0xd), 0, infoB},
			{lnet.MsgGet, ida.NID, onA(0x11), 3960, ""},
			{lnet.MsgReply, idb.NID, onA(0x11), 0, infoB},
			{lnet.MsgGet, ida.NID, onA(0x15), 272, ""},
			{lnet.MsgReply, idb.NID, onA(0x15), 0, infoB},
			{lnet.MsgPut, ida.NID, onA(0x19), 0, infoA},
			{lnet.MsgAck, idb.NID, onA(0x19), 48, ""},
			{lnet.MsgPut, idb.NID, onB(0x11), 0, infoB},
			{lnet.MsgAck, ida.NID, onB(0x11), 48, ""},
			{lnet.MsgGet, idb.NID, onB(0x15), 3960, ""},
			{lnet.MsgReply, ida.NID, onB(0x15), 0, infoA},
		}
		for k := range *seen {
			if h := &(*seen)[k].handle; *h == onB(early) {
				*h = onB(0x11)
			}
		}
		// An ACK and the push that answers the same push are sent at the same time. In capture j
		// they have the opposite order.
		if len(*seen) == len(want) && (*seen)[7].typ == lnet.MsgPut {
			(*seen)[7], (*seen)[8] = (*seen)[8], (*seen)[7]
		}
		if d := cmp.Diff(want, *seen, cmp.AllowUnexported(wire{}), sameNID); d != "" {
			t.Errorf("messages (-want +got):\n%s", d)
		}

		// The counters in the recorded `lnetctl export` of both nodes.
		for name, c := range map[string]struct {
			n              *node.Node
			sent, received node.MessageCounts
			rtt            uint64
			peer           lnet.NID
		}{
			"A": {a, node.MessageCounts{Put: 2, Get: 4}, node.MessageCounts{Put: 1, Get: 1, Reply: 3, Ack: 1}, 3, idb.NID},
			"B": {b, node.MessageCounts{Put: 2, Get: 4}, node.MessageCounts{Put: 1, Get: 3, Reply: 1, Ack: 1}, 1, ida.NID},
		} {
			tr := c.n.NIs()[1].Traffic
			if tr.Sent != c.sent || tr.Received != c.received || tr.Dropped != (node.MessageCounts{}) {
				t.Errorf("node %s: traffic %+v", name, tr)
			}
			if tr.PutEgress.Samples != 1 || tr.GetRTT.Samples != c.rtt || tr.PutAck.Samples != 1 {
				t.Errorf("node %s: samples %+v", name, tr)
			}
			for _, l := range []node.Latency{tr.PutEgress, tr.GetRTT, tr.PutAck} {
				if l.Min <= 0 || l.Avg < l.Min || l.Max < l.Avg {
					t.Errorf("node %s: latency %+v", name, l)
				}
			}
			checkDetail(t, name, c.n, len(infoA)/2)
			p := c.n.Peers()
			if len(p) != 1 || len(p[0].NIs) != 1 {
				t.Fatalf("node %s: peers %+v", name, p)
			}
			const state = discovery.MultiRail | discovery.Discovered | discovery.NIDsUpToDate
			if p[0].Primary != c.peer || p[0].Seq != 2 || p[0].AckedSeq != 2 || p[0].State != state || !p[0].MultiRail {
				t.Errorf("node %s: peer %s, sequence numbers %d, %d, state %s", name, p[0].Primary, p[0].Seq, p[0].AckedSeq, p[0].State)
			}
			if ni := p[0].NIs[0]; ni.NID != c.peer || ni.Traffic != tr || ni.QueuedBytes != 0 || ni.Credits.Available != 8 {
				t.Errorf("node %s: peer NI %+v", name, ni)
			}
			g := c.n.Admin().Counters()
			if g.Sent != 6 || g.Received != 6 || g.Committed != 0 || g.Trackers != 0 || g.Dropped != 0 {
				t.Errorf("node %s: counters %+v", name, g)
			}
			c.n.Admin().ResetCounters()
			if g := c.n.Admin().Counters(); g != (node.Counters{}) {
				t.Errorf("node %s: counters after reset: %+v", name, g)
			}
			if i := c.n.NIs()[1]; i.Traffic != (node.Traffic{}) || i.Detail != (node.Detail{}) {
				t.Errorf("node %s: traffic after reset: %+v %+v", name, i.Traffic, i.Detail)
			}
		}
	})
}

// checkDetail checks the figures of a node in the conversation of capture A that kernels
// do not have, where each frame takes a millisecond and ping info has size bytes.
func checkDetail(t *testing.T, name string, n *node.Node, size int) {
	t.Helper()
	i, info := n.NIs()[1], uint64(size)
	d, tr := &i.Detail, &i.Traffic
	got := *d
	got.PutEgress, got.GetRTT, got.PutAck = node.LatencyHistogram{}, node.LatencyHistogram{}, node.LatencyHistogram{}
	want := map[string]node.Detail{
		"A": {
			Sent:      node.MessageCounts{Put: 1, Get: 3, Reply: 1, Ack: 1},
			SentBytes: node.MessageCounts{Put: info, Reply: info}, ReceivedBytes: node.MessageCounts{Put: info, Reply: 3 * info},
		},
		"B": {
			Sent:      node.MessageCounts{Put: 1, Get: 1, Reply: 3, Ack: 1},
			SentBytes: node.MessageCounts{Put: info, Reply: 3 * info}, ReceivedBytes: node.MessageCounts{Put: info, Reply: info},
		},
	}[name]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node %s: detail (-want +got):\n%s", name, diff)
	}
	for k, pair := range []struct {
		h *node.LatencyHistogram
		l node.Latency
	}{{&d.PutEgress, tr.PutEgress}, {&d.GetRTT, tr.GetRTT}, {&d.PutAck, tr.PutAck}} {
		if pair.h.Samples() != pair.l.Samples || pair.h.Max != pair.l.Max {
			t.Errorf("node %s: latency %d: %+v, want as many as in %+v", name, k, pair.h, pair.l)
		}
	}
	for k, samples := range d.GetRTT.Counts { // a ping and its answer
		if from, to := node.LatencyBound(k-1), node.LatencyBound(k); (samples > 0) != (from < 0.002 && 0.002 <= to) {
			t.Errorf("node %s: %d round trips of %g to %g s", name, samples, from, to)
		}
	}
	a, err := n.Admin().Activity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantActivity := node.Activity{Discovery: discovery.Figures{PingsSent: 1, PushesSent: 1, PushesReceived: 1}}
	if name == "B" {
		wantActivity.Discovery.PingsSent = 0
	}
	if a.Discovery.Rounds == 0 {
		t.Errorf("node %s: no round of discovery", name)
	}
	a.Discovery.Rounds = 0 // B's push arrives within A's round, or starts another one
	if diff := cmp.Diff(wantActivity, a); diff != "" {
		t.Errorf("node %s: activity (-want +got):\n%s", name, diff)
	}
}

// infoOf returns the ping info of a node with one NI, in hex as in captures.
func infoOf(t testing.TB, nid string) string {
	t.Helper()
	v, _ := parseNID(t, nid).NID4()
	b := binary.LittleEndian.AppendUint32(nil, 0x70696e67)
	for _, w := range []uint32{0x1e, 12345, 2} {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	b = binary.LittleEndian.AppendUint64(b, 0x0009000000000000)
	b = binary.LittleEndian.AppendUint64(b, 2)
	b = binary.LittleEndian.AppendUint64(b, v)
	b = binary.LittleEndian.AppendUint64(b, 0x15aac0de)
	return hex.EncodeToString(b)
}

// Handles continue to increase after an NI is added and pushes are received, as in
// capture j.
func TestHandlesOfCaptureJ(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		seen := watch(f)
		a, b := f.discovering(t, "fd77::11@tcp"), f.discovering(t, "fd77::12@tcp")
		idb := process(t, "fd77::12@tcp")
		if _, err := a.Ping(t.Context(), idb, node.PingOptions{}); err != nil {
			t.Fatal(err)
		}
		discover(t, a, idb.NID)
		f.addNI(t, a, "10.78.0.11@tcp1")
		synctest.Wait()
		f.addNI(t, b, "10.78.0.12@tcp1")
		synctest.Wait()
		for _, nid := range []string{"fd77::12@tcp", "10.78.0.12@tcp1"} { // nets in turn, whichever NID is the target
			if _, err := a.Ping(t.Context(), process(t, nid), node.PingOptions{}); err != nil {
				t.Fatal(err)
			}
		}

		var objects []string
		for _, w := range *seen {
			if w.typ == lnet.MsgPut && w.handle.Object == early {
				w.handle.Object = 0x11
			}
			if w.typ == lnet.MsgGet || w.typ == lnet.MsgPut {
				objects = append(objects, fmt.Sprintf("%s %s %x %d", w.typ, w.from, w.handle.Object, len(w.payload)/2))
			}
		}
		want := []string{
			"GET fd77::11@tcp d 0", "GET fd77::11@tcp 11 0", "PUT fd77::11@tcp 15 56", "PUT fd77::12@tcp 11 56",
			"PUT fd77::11@tcp 21 72", "PUT 10.78.0.12@tcp1 1d 72",
			"GET 10.78.0.11@tcp1 29 0", "GET fd77::11@tcp 2d 0",
		}
		if d := cmp.Diff(want, objects); d != "" {
			t.Errorf("requests (-want +got):\n%s", d)
		}
		info := a.PingInfo()
		if info.Features != 0x7e || info.Seq != 3 || info.NIs[0].NID.IsLarge() {
			t.Errorf("ping info %+v", info)
		}
	})
}

// lnet-core 12.1, 12.4, 12.5
// discovery 4.4
// sanity-lnet 5 (107)
// lnet-wire 7.5 (1)-(3)
func TestPingInfoFollowsTheNIs(t *testing.T) {
	f := newFabric()
	off := node.DefaultParameters()
	off.Discovery = discovery.Off
	n := newNode(t, node.Config{Parameters: &off})
	check := func(step string, want lnet.PingInfo) {
		t.Helper()
		want.PID = 12345
		got := n.PingInfo()
		if d := cmp.Diff(want, got, sameNID); d != "" {
			t.Errorf("%s (-want +got):\n%s", step, d)
		}
		self, err := n.Ping(context.Background(), loID, node.PingOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, self, sameNID); d != "" {
			t.Errorf("%s: ping of 0@lo (-info +got):\n%s", step, d)
		}
	}
	nid := func(s string) lnet.NID { return parseNID(t, s) }
	up, down := lnet.StatusUp, lnet.StatusDown

	check("loopback only", lnet.PingInfo{Features: 0x0e, Seq: 1})
	p := f.addNI(t, n, "10.0.0.1@tcp")
	check("one", lnet.PingInfo{Features: 0x0e, Seq: 2, NIs: []lnet.PingNI{{NID: nid("10.0.0.1@tcp"), Status: up}}})
	f.addNI(t, n, "10.1.0.1@tcp1")
	f.addNI(t, n, "10.0.0.2@tcp")
	check("by net", lnet.PingInfo{Features: 0x0e, Seq: 4, NIs: []lnet.PingNI{
		{NID: nid("10.0.0.1@tcp"), Status: up}, {NID: nid("10.0.0.2@tcp"), Status: up}, {NID: nid("10.1.0.1@tcp1"), Status: up}}})
	p.setLink(lnd.LinkDown)
	check("link down", lnet.PingInfo{Features: 0x0e, Seq: 5, NIs: []lnet.PingNI{
		{NID: nid("10.0.0.1@tcp"), Status: down}, {NID: nid("10.0.0.2@tcp"), Status: up}, {NID: nid("10.1.0.1@tcp1"), Status: up}}})
	p.setLink(lnd.LinkDown)
	p.setLink(lnd.LinkUp)
	f.addNI(t, n, "fd00::1@tcp2")
	if err := n.RemoveNI(context.Background(), nid("10.1.0.1@tcp1")); err != nil {
		t.Fatal(err)
	}
	check("large", lnet.PingInfo{Features: 0x2e, Seq: 8, NIs: []lnet.PingNI{
		{NID: nid("10.0.0.1@tcp"), Status: up}, {NID: nid("10.0.0.2@tcp"), Status: up}, {NID: nid("fd00::1@tcp2"), Status: up}}})
	for _, s := range []string{"10.0.0.1@tcp", "10.0.0.2@tcp"} {
		if err := n.RemoveNI(context.Background(), nid(s)); err != nil {
			t.Fatal(err)
		}
	}
	large := []lnet.PingNI{{NID: nid("fd00::1@tcp2"), Status: up}}
	check("large only", lnet.PingInfo{Features: 0x6e, Seq: 10, NIs: large})
	for _, c := range []struct {
		mode     discovery.Mode
		features lnet.Features
	}{{discovery.On, 0x7e}, {discovery.Static, 0x6e}, {discovery.Verify, 0x7e}, {discovery.Off, 0x6e}} {
		parameters := n.Admin().Parameters()
		parameters.Discovery = c.mode
		if err := n.Admin().SetParameters(parameters); err != nil {
			t.Fatal(err)
		}
		check("discovery "+c.mode.String(), lnet.PingInfo{Features: c.features, Seq: 10, NIs: large})
	}
}

// If the buffer is too small for all NIs, the ping is repeated.
//
// discovery 4.5
// lnet-wire 7.6 (2)
func TestLargePingInfo(t *testing.T) {
	f := newFabric()
	seen := watch(f)
	a, b := newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, a, "10.0.0.1@tcp")
	for k := range 20 {
		f.addNI(t, b, fmt.Sprintf("10.0.1.%d@tcp", k+1))
	}
	idb := process(t, "10.0.1.1@tcp")
	info, err := a.Ping(context.Background(), idb, node.PingOptions{Entries: 2})
	if err != nil || len(info.NIs) != 20 {
		t.Fatalf("%d NIs, %v", len(info.NIs), err)
	}
	if d := cmp.Diff([]uint32{16 + 2*24, 16 + 21*16}, sinks(*seen)); d != "" {
		t.Errorf("sink lengths (-want +got):\n%s", d)
	}
}

func TestPingFails(t *testing.T) {
	p := newPair(t)
	ctx := context.Background()
	if _, err := p.a.Ping(ctx, process(t, "10.0.0.1@o2ib"), node.PingOptions{}); !errors.Is(err, node.ErrUnreachable) {
		t.Errorf("no interface: %v", err)
	}
	if _, err := p.a.Ping(ctx, process(t, "10.77.0.99@tcp"), node.PingOptions{}); !errors.Is(err, lnd.ErrUnreachable) {
		t.Errorf("no peer: %v", err)
	}
	if _, err := p.a.Ping(ctx, p.idb, node.PingOptions{Source: p.idb.NID}); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("source not ours: %v", err)
	}
	if _, err := p.a.Ping(ctx, p.idb, node.PingOptions{Room: 15}); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("no room: %v", err)
	}
	p.fabric.hold(true)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.a.Ping(gone, p.idb, node.PingOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	p.fabric.hold(false)
	if c := p.a.Admin().Counters(); c.Committed != 0 || c.Trackers != 0 {
		t.Errorf("counters %+v", c)
	}
}

// A node answers with less than it has, although there is room for more.
//
// lnet-wire 7.6 (3)
func TestShortReply(t *testing.T) {
	p := newPair(t)
	info := p.b.PingInfo()
	info.NIs = append(info.NIs, info.NIs[0])
	b := info.Append(nil, binary.LittleEndian)[:48]
	p.fabric.sent = func(get lnet.Header, _ []byte) {
		if get.Type != lnet.MsgGet {
			return
		}
		err := p.pa.inject(p.idb.NID, lnet.Header{
			Dest: get.Src, Src: get.Dest, DestPID: get.SrcPID, SrcPID: get.DestPID,
			Type: lnet.MsgReply, Handle: get.Handle, PayloadLength: 48,
		}, bytes.Clone(b))
		if err != nil {
			t.Error(err)
		}
	}
	_, err := p.a.Ping(context.Background(), p.idb, node.PingOptions{})
	if !errors.Is(err, node.ErrShortReply) {
		t.Errorf("%v, want ErrShortReply", err)
	}
}

// lnet-core 12.6
func TestCloseEndsPings(t *testing.T) {
	f := newFabric()
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f.addNI(t, n, "10.0.0.1@tcp")
	f.hold(true)
	done := make(chan error, 1)
	go func() {
		_, err := n.Ping(context.Background(), process(t, "10.0.0.2@tcp"), node.PingOptions{})
		done <- err
	}()
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, node.ErrClosed) && !errors.Is(err, lnd.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// Given an NI whose health falls to 0 and is restored, then its ping info shows that
// under the same sequence number, because the NIs are the same (discovery 4.4).
//
// lnet-core 12.1
// discovery 4.4
// lnet-wire 7.5 (3), 7.9
func TestStatusKeepsTheSequenceNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		want := p.b.PingInfo().Seq
		for _, c := range []struct {
			health int
			status lnet.NIStatus
		}{{0, lnet.StatusDown}, {node.MaxHealth, lnet.StatusUp}, {0, lnet.StatusDown}} {
			if err := p.b.Admin().SetNIHealth(p.idb.NID, c.health); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			info, err := p.a.Ping(t.Context(), p.idb, node.PingOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if info.Seq != want || len(info.NIs) != 1 || info.NIs[0].Status != c.status {
				t.Errorf("health %d: sequence number %d, %+v; want %d, %v", c.health, info.Seq, info.NIs, want, c.status)
			}
		}
	})
}
