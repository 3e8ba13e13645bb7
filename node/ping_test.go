package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
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

func watch(f *fabric) *[]wire {
	var seen []wire
	f.sent = func(h lnet.Header, b []byte) {
		seen = append(seen, wire{h.Type, h.Src, h.Handle, h.Length, hex.EncodeToString(b)})
	}
	return &seen
}

// The conversation of captures/a-tcp-ping-discovery-on: the same messages in
// the same order, with the same handles but for the interface cookies.
//
// lnet-core 10.1, 10.1 reset, 10.2
func TestConversationOfCaptureA(t *testing.T) {
	const cookieA, cookieB = 0x18e9bb6583f950e4, 0x18e9bb6665b108cf
	f := newFabric()
	seen := watch(f)
	at := func(ns int64) func() time.Time { return func() time.Time { return time.Unix(0, ns) } }
	a := newNode(t, node.Config{Wall: at(cookieA)})
	b := newNode(t, node.Config{Wall: at(cookieB)})
	f.addNI(t, a, "10.77.0.11@tcp")
	f.addNI(t, b, "10.77.0.12@tcp")
	ida, idb := process(t, "10.77.0.11@tcp"), process(t, "10.77.0.12@tcp")

	ping := func(n *node.Node, to lnet.ProcessID, o node.PingOptions) {
		t.Helper()
		info, err := n.Ping(context.Background(), to, o)
		if err != nil {
			t.Fatal(err)
		}
		want := lnet.PingInfo{
			Features: 0x1e, PID: 12345, Seq: 2,
			NIs: []lnet.PingNI{{NID: to.NID, Status: lnet.StatusUp}},
		}
		if d := cmp.Diff(want, info, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
			t.Errorf("ping info (-want +got):\n%s", d)
		}
	}
	push := func(n *node.Node, to lnet.ProcessID) {
		t.Helper()
		info := n.PingInfo()
		h := bind(t, n, portals.MD{Bytes: info.Append(nil, binary.LittleEndian), Threshold: 2, Unlink: true})
		put(t, n, h, to, node.PutOptions{MatchBits: lnet.PingMatchBits, Ack: true})
	}
	ping(a, idb, node.PingOptions{})
	ping(a, idb, node.PingOptions{})
	ping(a, idb, node.PingOptions{Room: 272})
	push(a, idb)
	push(b, ida)
	ping(b, ida, node.PingOptions{})

	infoOf := func(nid string) string {
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
	infoA, infoB := infoOf("10.77.0.11@tcp"), infoOf("10.77.0.12@tcp")
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
	if d := cmp.Diff(want, *seen, cmp.AllowUnexported(wire{}), cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}

	// The counters of the recorded `lnetctl export` of both nodes.
	for name, c := range map[string]struct {
		n              *node.Node
		sent, received node.MessageCounts
		rtt            uint64
	}{
		"A": {a, node.MessageCounts{Put: 2, Get: 4}, node.MessageCounts{Put: 1, Get: 1, Reply: 3, Ack: 1}, 3},
		"B": {b, node.MessageCounts{Put: 2, Get: 4}, node.MessageCounts{Put: 1, Get: 3, Reply: 1, Ack: 1}, 1},
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
		p := c.n.Peers()
		if len(p) != 1 || p[0].Traffic != tr || p[0].QueuedBytes != 0 || p[0].Credits.Available != 8 {
			t.Errorf("node %s: peers %+v", name, p)
		}
		g := c.n.Counters()
		if g.Sent != 6 || g.Received != 6 || g.Committed != 0 || g.Trackers != 0 || g.Dropped != 0 {
			t.Errorf("node %s: counters %+v", name, g)
		}
		c.n.ResetCounters()
		if g := c.n.Counters(); g != (node.Counters{}) {
			t.Errorf("node %s: counters after reset: %+v", name, g)
		}
		if tr := c.n.NIs()[1].Traffic; tr != (node.Traffic{}) {
			t.Errorf("node %s: traffic after reset: %+v", name, tr)
		}
	}

	for _, c := range []struct {
		n    *node.Node
		from lnet.ProcessID
		want lnet.PingInfo
	}{{b, ida, a.PingInfo()}, {a, idb, b.PingInfo()}} {
		p, ok := c.n.LastPush(c.from.NID)
		if !ok || p.Err != nil || p.Truncated || p.Source != c.from.NID {
			t.Errorf("push from %s: %+v, %v", c.from, p, ok)
		}
		if d := cmp.Diff(c.want, p.Info, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
			t.Errorf("push from %s (-want +got):\n%s", c.from, d)
		}
	}
}

// Handles go on over an added NI and pushes received, as in capture j.
func TestHandlesOfCaptureJ(t *testing.T) {
	f := newFabric()
	seen := watch(f)
	a, b := newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, a, "fd77::11@tcp")
	f.addNI(t, b, "fd77::12@tcp")
	ida, idb := process(t, "fd77::11@tcp"), process(t, "fd77::12@tcp")
	push := func(n *node.Node, to lnet.ProcessID) {
		t.Helper()
		info := n.PingInfo()
		h := bind(t, n, portals.MD{Bytes: info.Append(nil, binary.LittleEndian), Threshold: 2, Unlink: true})
		put(t, n, h, to, node.PutOptions{MatchBits: lnet.PingMatchBits, Ack: true})
	}
	for _, room := range []int{0, 272} {
		if _, err := a.Ping(context.Background(), idb, node.PingOptions{Room: room}); err != nil {
			t.Fatal(err)
		}
	}
	push(a, idb)
	push(b, ida)
	f.addNI(t, a, "10.78.0.11@tcp1")
	push(a, idb)
	f.addNI(t, b, "10.78.0.12@tcp1")
	push(b, process(t, "fd77::11@tcp"))

	var objects []string
	for _, w := range *seen {
		if w.typ == lnet.MsgGet || w.typ == lnet.MsgPut {
			objects = append(objects, fmt.Sprintf("%s %s %x %d", w.typ, w.from, w.handle.Object, len(w.payload)/2))
		}
	}
	want := []string{
		"GET fd77::11@tcp d 0", "GET fd77::11@tcp 11 0", "PUT fd77::11@tcp 15 56", "PUT fd77::12@tcp 11 56",
		"PUT fd77::11@tcp 21 72", "PUT fd77::12@tcp 1d 72",
	}
	if d := cmp.Diff(want, objects); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	info := a.PingInfo()
	if info.Features != 0x7e || info.Seq != 3 || info.NIs[0].NID.IsLarge() {
		t.Errorf("ping info %+v", info)
	}
}

// lnet-core 12.1, 12.4, 12.5
func TestPingInfoFollowsTheNIs(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{DisableDiscovery: true})
	check := func(step string, want lnet.PingInfo) {
		t.Helper()
		want.PID = 12345
		got := n.PingInfo()
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
			t.Errorf("%s (-want +got):\n%s", step, d)
		}
		self, err := n.Ping(context.Background(), loID, node.PingOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, self, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); d != "" {
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
	check("large only", lnet.PingInfo{Features: 0x6e, Seq: 10, NIs: []lnet.PingNI{{NID: nid("fd00::1@tcp2"), Status: up}}})
}

// More NIs than there is room for make the pinger ask again, and the pushed
// info makes the target ask for more room the next time.
func TestLargePingInfo(t *testing.T) {
	f := newFabric()
	seen := watch(f)
	a, b := newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, a, "10.0.0.1@tcp")
	for k := range 20 {
		f.addNI(t, b, fmt.Sprintf("10.0.1.%d@tcp", k+1))
	}
	ida, idb := process(t, "10.0.0.1@tcp"), process(t, "10.0.1.1@tcp")
	info, err := a.Ping(context.Background(), idb, node.PingOptions{Entries: 2})
	if err != nil || len(info.NIs) != 20 {
		t.Fatalf("%d NIs, %v", len(info.NIs), err)
	}
	var sinks []uint32
	for _, w := range *seen {
		if w.typ == lnet.MsgGet {
			sinks = append(sinks, w.length)
		}
	}
	if d := cmp.Diff([]uint32{16 + 2*24, 16 + 21*16}, sinks); d != "" {
		t.Errorf("sink lengths (-want +got):\n%s", d)
	}

	// A reply of that size was seen: the push target has room after the next.
	pushOf := b.PingInfo()
	push := func() int {
		t.Helper()
		q := node.NewEventQueue(node.EventsOf(portals.EventAck))
		h := bind(t, b, portals.MD{Bytes: pushOf.Append(nil, binary.LittleEndian), Threshold: 2, Unlink: true, Handler: q})
		put(t, b, h, ida, node.PutOptions{Source: idb.NID, MatchBits: lnet.PingMatchBits, Ack: true})
		var e portals.Event
		if !q.TryNext(&e) {
			t.Fatal("no ACK")
		}
		return e.Length
	}
	if got := push(); got != 272 {
		t.Errorf("first push: %d bytes stored, want 272", got)
	}
	p, ok := a.LastPush(idb.NID)
	if !ok || !p.Truncated || p.Err == nil || len(p.Info.NIs) != 15 {
		t.Errorf("first push: %+v, %v", p, ok)
	}
	if got := push(); got != 16+21*16 {
		t.Errorf("second push: %d bytes stored, want all", got)
	}
	if p, _ := a.LastPush(idb.NID); p.Truncated || p.Err != nil || len(p.Info.NIs) != 20 {
		t.Errorf("second push: %+v", p)
	}
}

func TestPushesThatAreNotPingInfos(t *testing.T) {
	p := newPair(t)
	h := bind(t, p.a, portals.MD{Bytes: []byte("no ping info at all"), Threshold: portals.Unlimited})
	for range 3 {
		put(t, p.a, h, p.idb, node.PutOptions{MatchBits: lnet.PingMatchBits})
	}
	push, ok := p.b.LastPush(p.ida.NID)
	if !ok || push.Err == nil || push.Truncated || push.Info.NIs != nil {
		t.Errorf("push %+v, %v", push, ok)
	}
	if _, ok := p.b.LastPush(p.idb.NID); ok {
		t.Error("a push that nobody made")
	}
}

// Pushes that come while there is no memory for them wait, and none is lost.
//
// lnet-core 4.6 (5)
func TestManyPushesAtOnce(t *testing.T) {
	const nodes = 200
	p := newPair(t)
	info := p.a.PingInfo()
	payload := info.Append(nil, binary.LittleEndian)
	var all sync.WaitGroup
	for k := range uint32(nodes) {
		all.Go(func() {
			from := lnet.NIDFromNumber(p.ida.NID.Net(), 0x0a000000+k)
			h := lnet.Header{
				Dest: p.idb.NID, Src: from, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
				Type: lnet.MsgPut, Handle: lnet.NoHandle, MatchBits: lnet.PingMatchBits, PayloadLength: uint32(len(payload)),
			}
			if err := p.pb.inject(from, h, payload); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for k := range uint32(nodes) {
		from := lnet.NIDFromNumber(p.ida.NID.Net(), 0x0a000000+k)
		if push, ok := p.b.LastPush(from); !ok || push.Err != nil {
			t.Errorf("push from %s: %+v, %v", from, push, ok)
		}
	}
	if g := p.b.Counters(); g.Received != nodes || g.Committed != 0 {
		t.Errorf("counters %+v", g)
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
	if c := p.a.Counters(); c.Committed != 0 || c.Trackers != 0 {
		t.Errorf("counters %+v", c)
	}
}

// A node that answers with less than it has and there is room for.
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

// Given an NI whose health falls to 0 and comes back, then ping info says so
// under the same sequence number: the NIs are the same (discovery 4.4).
//
// lnet-core 12.1
func TestStatusKeepsTheSequenceNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		want := p.b.PingInfo().Seq
		for _, c := range []struct {
			health int
			status lnet.NIStatus
		}{{0, lnet.StatusDown}, {node.MaxHealth, lnet.StatusUp}, {0, lnet.StatusDown}} {
			if err := p.b.SetNIHealth(p.idb.NID, c.health); err != nil {
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
