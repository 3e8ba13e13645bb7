package node_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventDiff compares events; errors by errors.Is, NIDs and memory by value.
func eventDiff(want, got []portals.Event) string {
	return cmp.Diff(want, got,
		sameNID,
		cmp.Comparer(func(a, b memory.Vector) bool { return memoryBytes(a) == memoryBytes(b) }),
		cmpopts.EquateErrors(), cmpopts.EquateEmpty())
}

func memoryBytes(m memory.Vector) string {
	b := make([]byte, m.Length)
	m.CopyTo(b)
	return string(b)
}

// lnet-core 3.1, 3.2, 3.3 (8), 5.3 (1), 5.3 (3), 5.6 (2), 6.1 threshold
func TestPutIsDeliveredAndAcknowledged(t *testing.T) {
	p := newPair(t)
	var at, from recorder
	sink := make([]byte, 16)
	entry := attach(t, p.b, portals.Entry{Portal: 7, MatchBits: 0x1234}, portals.MD{
		Bytes: sink, Threshold: portals.Unlimited, Options: portals.OpPut | portals.Truncate, Handler: &at, UserPtr: "sink",
	})
	data := []byte("payload")
	h := bind(t, p.a, portals.MD{Bytes: data, Threshold: 2, Unlink: true, Handler: &from, UserPtr: "source"})
	put(t, p.a, h, p.idb, node.PutOptions{Portal: 7, MatchBits: 0x1234, HdrData: 99, Offset: 3, Ack: true})

	want := []portals.Event{{
		Type: portals.EventPut, MsgType: lnet.MsgPut, Portal: 7, MatchBits: 0x1234, HdrData: 99,
		Target: p.idb, Initiator: p.ida, Source: p.ida, Sender: p.ida.NID,
		Requested: 7, Length: 7, Offset: 0,
		MD: entry, Bytes: sink, Options: portals.OpPut | portals.Truncate, UserPtr: "sink",
	}}
	if d := eventDiff(want, at.take()); d != "" {
		t.Errorf("target's events (-want +got):\n%s", d)
	}
	if got := string(sink[:7]); got != "payload" {
		t.Errorf("sink holds %q", got)
	}
	self := lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDLustre}
	want = []portals.Event{{
		Type: portals.EventSend, MsgType: lnet.MsgPut, Portal: 7, MatchBits: 0x1234, HdrData: 99,
		Target: p.idb, Initiator: self, Source: self, Sender: lnet.AnyNID,
		Requested: 7, Length: 7, Offset: 3, MD: h, Bytes: data, UserPtr: "source",
	}, {
		Type: portals.EventAck, MsgType: lnet.MsgAck, MatchBits: 0x1234, Unlinked: true,
		Target: p.ida, Initiator: p.idb, Source: p.idb, Sender: p.idb.NID,
		Length: 7, MD: h, Bytes: data, UserPtr: "source",
	}}
	if d := eventDiff(want, from.take()); d != "" {
		t.Errorf("sender's events (-want +got):\n%s", d)
	}
	if err := p.a.Put(h, p.idb, node.PutOptions{}); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("put with an unlinked MD: %v, want ErrNotFound", err)
	}
}

// lnet-core 3.1, 3.2, 3.2 notes (1), 3.2 notes (3), 3.3 (3), 5.4 (1), 5.4 (4)-(5), 5.5 (3)
func TestGetIsAnswered(t *testing.T) {
	getIsAnswered(t, newPair(t), func() {}, 8, false)
	onRDMA(t, func(t *testing.T, p *rdmaPair) { getIsAnswered(t, &p.pair, synctest.Wait, 8, false) })
	onRDMA(t, func(t *testing.T, p *rdmaPair) { getIsAnswered(t, &p.pair, synctest.Wait, 4000, true) })
}

// getIsAnswered makes a send a GET of size bytes to b, which has 2 less. The answer is a REPLY, or placed
// by RDMA.
func getIsAnswered(t *testing.T, p *pair, settle func(), size int, placed bool) {
	var at, from recorder
	source := bytes.Repeat([]byte("0123456789"), size)[:size+2]
	entry := attach(t, p.b, portals.Entry{Portal: 9, MatchBits: 5, IgnoreBits: 2}, portals.MD{
		Bytes: source, Threshold: portals.Unlimited, Options: portals.OpGet | portals.ManageRemote | portals.Truncate, Handler: &at,
	})
	sink := make([]byte, size)
	h := bind(t, p.a, portals.MD{Bytes: sink, Threshold: 2, Unlink: true, Handler: &from})
	if err := p.a.Get(h, p.idb, node.GetOptions{Portal: 9, MatchBits: 7, Offset: 4}); err != nil {
		t.Fatal(err)
	}
	settle()
	want := []portals.Event{{
		Type: portals.EventGet, MsgType: lnet.MsgGet, Portal: 9, MatchBits: 7,
		Target: p.idb, Initiator: p.ida, Source: p.ida, Sender: p.ida.NID,
		Length: size - 2, Offset: 4, MD: entry, Bytes: source,
		Options: portals.OpGet | portals.ManageRemote | portals.Truncate,
	}}
	if d := eventDiff(want, at.take()); d != "" {
		t.Errorf("placed %v: target's events (-want +got):\n%s", placed, d)
	}
	self := lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDLustre}
	send := portals.Event{
		Type: portals.EventSend, MsgType: lnet.MsgGet, Portal: 9, MatchBits: 7,
		Target: p.idb, Initiator: self, Source: self, Sender: lnet.AnyNID,
		Requested: size, Length: size, Offset: 4, MD: h, Bytes: sink,
	}
	reply := portals.Event{
		Type: portals.EventReply, MsgType: lnet.MsgReply,
		Target: p.ida, Initiator: p.idb, Source: p.idb, Sender: p.idb.NID,
		Requested: size - 2, Length: size - 2, MD: h, Bytes: sink,
	}
	want = []portals.Event{send, reply}
	if placed {
		reply.MsgType = lnet.MsgGet
		want = []portals.Event{reply, send}
	}
	want[1].Unlinked = true
	if d := eventDiff(want, from.take()); d != "" {
		t.Errorf("placed %v: requester's events (-want +got):\n%s", placed, d)
	}
	if got := string(sink); got != string(source[4:])+"\x00\x00" {
		t.Errorf("placed %v: sink holds %q", placed, got)
	}
}

// The headers of a PUT with ACK and of a GET, with the fields of lnet-wire 4.6. The nodes
// have different PIDs: a request and its answer contain both.
//
// lnet-core 5.3 (2), 5.3 (4), 5.4 (2), 6.1 (4), 6.2, 6.3 (2)
// selection 3 (7), 5.7 (4)
func TestHeaders(t *testing.T) {
	const pidA, pidB = 50, 60
	p := newPairOf(t, node.Config{PID: pidA}, node.Config{PID: pidB})
	var headers []lnet.Header
	p.fabric.sent = func(h lnet.Header, _ []byte) { headers = append(headers, h) }
	attach(t, p.b, portals.Entry{Portal: 1, MatchBits: 7}, portals.MD{
		Bytes: make([]byte, 7), Threshold: portals.Unlimited,
		Options: portals.OpPut | portals.OpGet | portals.Truncate | portals.ManageRemote,
	})
	h := bind(t, p.a, portals.MD{Bytes: make([]byte, 6), Threshold: portals.Unlimited, Options: portals.Truncate})
	put(t, p.a, h, p.idb, node.PutOptions{Portal: 1, MatchBits: 7, HdrData: 2, Offset: 3, Ack: true})
	put(t, p.a, h, lnet.ProcessID{NID: p.idb.NID, PID: 77}, node.PutOptions{Portal: 1, MatchBits: 7})
	if err := p.a.Get(h, p.idb, node.GetOptions{Portal: 1, MatchBits: 7, Offset: 4}); err != nil {
		t.Fatal(err)
	}
	to := lnet.Header{Dest: p.idb.NID, Src: p.ida.NID, DestPID: lnet.PIDLustre, SrcPID: pidA}
	back := lnet.Header{Dest: p.ida.NID, Src: p.idb.NID, DestPID: pidA, SrcPID: pidB}
	with := func(h lnet.Header, f func(h *lnet.Header)) lnet.Header { f(&h); return h }
	want := []lnet.Header{
		with(to, func(x *lnet.Header) {
			x.Type, x.PayloadLength, x.Handle, x.HdrData, x.Portal, x.MatchBits, x.Offset = lnet.MsgPut, 6, h, 2, 1, 7, 3
		}),
		with(back, func(x *lnet.Header) { x.Type, x.Handle, x.Length, x.MatchBits = lnet.MsgAck, h, 4, 7 }),
		with(to, func(x *lnet.Header) {
			x.Type, x.DestPID, x.PayloadLength, x.Handle, x.Portal, x.MatchBits = lnet.MsgPut, 77, 6, lnet.NoHandle, 1, 7
		}),
		with(to, func(x *lnet.Header) {
			x.Type, x.Handle, x.Portal, x.MatchBits, x.Offset, x.Length = lnet.MsgGet, h, 1, 7, 4, 6
		}),
		with(back, func(x *lnet.Header) { x.Type, x.Handle, x.PayloadLength = lnet.MsgReply, h, 3 }),
	}
	if d := cmp.Diff(want, headers, sameNID); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

// Given a peer with two NIDs that are used in turn, when a PUT for the first one is sent to
// the second one, then its header contains the second one and the NI that sends it.
//
// selection 5.7 (4)
func TestTheHeaderNamesTheChosenNIDs(t *testing.T) {
	type departure struct {
		src, dest lnet.NID
		to        lnet.ProcessID
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		var left []departure
		r.fails(func(tx *lnd.Tx) error {
			left = append(left, departure{tx.Header.Src, tx.Header.Dest, tx.To})
			return nil
		})
		r.put(t, node.PutOptions{})
		r.put(t, node.PutOptions{})
		want := []departure{
			{r.na[0], r.nb[0], lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}},
			{r.na[1], r.nb[1], lnet.ProcessID{NID: r.nb[1], PID: lnet.PIDLustre}},
		}
		if d := cmp.Diff(want, left, cmp.AllowUnexported(departure{}), sameNID); d != "" {
			t.Errorf("PUTs for %s (-want +got):\n%s", r.nb[0], d)
		}
	})
}

// lnet-core 3.3 (6), 6.1 (6)
// selection 3 errors
func TestSendFailsWithAnEvent(t *testing.T) {
	p := newPair(t)
	local := process(t, "10.77.0.11@tcp").NID
	for _, c := range []struct {
		name   string
		to     string
		source lnet.NID
		want   error
	}{
		{name: "no interface on the net", to: "10.0.0.1@o2ib", want: node.ErrUnreachable},
		{name: "source on another net", to: "10.0.0.1@o2ib", source: local, want: node.ErrUnreachable},
		{name: "source is not ours", to: "10.77.0.12@tcp", source: parseNID(t, "10.77.0.99@tcp"), want: node.ErrInvalid},
		{name: "peer is not there", to: "10.77.0.77@tcp", want: lnd.ErrUnreachable},
	} {
		var r recorder
		h := bind(t, p.a, portals.MD{Bytes: []byte{1}, Threshold: 2, Unlink: true, Handler: &r})
		put(t, p.a, h, process(t, c.to), node.PutOptions{Source: c.source, Portal: 1, Ack: true})
		e := r.take()
		if len(e) != 1 || e[0].Type != portals.EventSend || !errors.Is(e[0].Err, c.want) {
			t.Errorf("%s: events %+v, want one SEND with %v", c.name, e, c.want)
		}
		if err := p.a.Unlink(h); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := r.types(); !cmp.Equal(got, []portals.EventType{portals.EventUnlink}) {
			t.Errorf("%s: after unlink: %v", c.name, got)
		}
	}
	if c := p.a.Admin().Counters(); c.RemoteErrors != 1 || c.Trackers != 0 || c.Committed != 0 {
		t.Errorf("counters %+v", c)
	}
}

// lnet-core 3.3 (6), 6.1 (2)
func TestRequestsThatCannotBeMade(t *testing.T) {
	p := newPair(t)
	attached := attach(t, p.a, portals.Entry{Portal: 1}, portals.MD{Threshold: 1, Options: portals.OpPut})
	used := bind(t, p.a, portals.MD{Threshold: 0})
	other := bind(t, p.b, portals.MD{Threshold: 1})
	for name, h := range map[string]lnet.Handle{
		"attached": attached, "threshold 0": used, "unknown": {Interface: attached.Interface, Object: 4000001},
		"another node's": other, "none": lnet.NoHandle,
	} {
		if err := p.a.Put(h, p.idb, node.PutOptions{}); !errors.Is(err, node.ErrNotFound) {
			t.Errorf("put, %s: %v, want ErrNotFound", name, err)
		}
		if err := p.a.Get(h, p.idb, node.GetOptions{}); !errors.Is(err, node.ErrNotFound) {
			t.Errorf("get, %s: %v, want ErrNotFound", name, err)
		}
	}
}

// lnet-core 2.1 (1), 2.1 (3), 2.2 validate (1)-(2), 2.2 validate (4), 2.2 bind (1)-(2)
// lnet-wire 4.8 (1), 9
func TestMDsAreChecked(t *testing.T) {
	n := newNode(t, node.Config{})
	segments := make([]memory.Segment, 257)
	for _, c := range []struct {
		name string
		bind bool
		md   portals.MD
	}{
		{"bind with OpPut", true, portals.MD{Options: portals.OpPut}},
		{"bind over 1 MiB", true, portals.MD{Bytes: make([]byte, lnet.MTU+1)}},
		{"attach without OpPut and OpGet", false, portals.MD{}},
		{"bytes and memory", true, portals.MD{Bytes: []byte{1}, Memory: memory.Of([]byte{1})}},
		{"257 segments", true, portals.MD{Memory: memory.Vector{Segments: segments}}},
		{"memory beyond its segments", true, portals.MD{Memory: memory.Vector{Segments: segments[:1], Length: 1}}},
		{"offset beyond its segments", true, portals.MD{Memory: memory.Vector{Offset: 1}}},
		{"threshold -2", true, portals.MD{Threshold: -2}},
		{"max_size negative", true, portals.MD{Options: portals.MaxSize, MaxSize: -1}},
		{"max_size beyond the length", true, portals.MD{Options: portals.MaxSize, MaxSize: 2, Bytes: []byte{1}}},
		{"unknown option", true, portals.MD{Options: 1 << 31}},
	} {
		var err error
		if c.bind {
			_, err = n.Bind(c.md)
		} else {
			_, err = n.Attach(portals.Entry{Portal: 1}, c.md)
		}
		if !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", c.name, err)
		}
	}
	for _, portal := range []uint32{lnet.ReservedPortal, 64} {
		if _, err := n.Attach(portals.Entry{Portal: portal}, portals.MD{Options: portals.OpPut}); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("portal %d: %v, want ErrInvalid", portal, err)
		}
	}
	if _, err := n.Attach(portals.Entry{Portal: 1}, portals.MD{Options: portals.OpPut}); err != nil {
		t.Error(err)
	}
	unique := portals.Entry{Portal: 1, Match: process(t, "10.0.0.1@tcp")}
	if _, err := n.Attach(unique, portals.MD{Options: portals.OpPut}); !errors.Is(err, node.ErrPortalClass) {
		t.Errorf("unique entry on a wildcard portal: %v, want ErrPortalClass", err)
	}
}

// An ACK contains the number of bytes accepted from the PUT. With AckDisable, or if the
// PUT was dropped, no ACK is sent.
//
// lnet-core 4.5 (2)-(3), 5.3 (2)
func TestAck(t *testing.T) {
	p := newPair(t)
	for portal, options := range []portals.MDOptions{
		1: portals.OpPut | portals.Truncate, 2: portals.OpPut | portals.Truncate | portals.AckDisable, 3: portals.OpPut, 4: portals.OpGet,
	} {
		if options != 0 {
			attach(t, p.b, portals.Entry{Portal: uint32(portal)}, portals.MD{
				Bytes: make([]byte, 3), Threshold: portals.Unlimited, Options: options})
		}
	}
	for portal, want := range map[uint32]int{1: 3, 2: -1, 3: -1, 4: -1, 5: -1, 63: -1} {
		q := node.NewEventQueue(node.EventsOf(portals.EventAck))
		h := bind(t, p.a, portals.MD{Bytes: make([]byte, 5), Threshold: portals.Unlimited, Handler: q})
		put(t, p.a, h, p.idb, node.PutOptions{Portal: portal, Ack: true})
		got := -1
		var e portals.Event
		if q.TryNext(&e) {
			got = e.Length
		}
		if got != want {
			t.Errorf("portal %d: ACK of %d, want %d", portal, got, want)
		}
	}
	if c := p.b.Admin().Counters(); c.Dropped != 4 || c.DroppedBytes != 20 {
		t.Errorf("dropped %d messages of %d bytes, want 4 of 20", c.Dropped, c.DroppedBytes)
	}
}

// lnet-core 5.3 (3)
func TestScatteredMemory(t *testing.T) {
	p := newPair(t)
	parts := [][]byte{make([]byte, 2), {}, make([]byte, 3), make([]byte, 8)}
	var segments []memory.Segment
	for _, b := range parts {
		segments = append(segments, memory.Segment{Bytes: b})
	}
	for _, to := range []lnet.ProcessID{p.idb, {NID: lnet.LoopbackNID, PID: lnet.PIDLustre}} {
		n := p.b
		if to.NID.IsLoopback() {
			n = p.a
		}
		attach(t, n, portals.Entry{Portal: 1}, portals.MD{
			Memory:    memory.Vector{Segments: segments, Offset: 1, Length: 10},
			Threshold: portals.Unlimited, Options: portals.OpPut})
		h := bind(t, p.a, portals.MD{Threshold: portals.Unlimited, Memory: memory.Vector{
			Segments: []memory.Segment{{Bytes: []byte("-ab")}, {Bytes: []byte("cdefghij-")}}, Offset: 1, Length: 10}})
		put(t, p.a, h, to, node.PutOptions{Portal: 1})
		if got := string(bytes.Join(parts, []byte("|"))); got != "\x00a||bcd|efghij\x00\x00" {
			t.Errorf("to %s: memory %q", to, got)
		}
		for _, b := range parts {
			clear(b)
		}
	}
}

// lnet-core 2.2 unlink (1)-(3), 2.2 unlink (5)-(6), 2.2 aborted (2), 3.4 (4)
func TestUnlink(t *testing.T) {
	p := newPair(t)

	t.Run("nothing under way", func(t *testing.T) {
		var r recorder
		h := bind(t, p.a, portals.MD{Threshold: 1, Handler: &r, UserPtr: 1})
		if err := p.a.Unlink(h); err != nil {
			t.Fatal(err)
		}
		want := []portals.Event{{Type: portals.EventUnlink, Unlinked: true, MD: h, UserPtr: 1}}
		if d := eventDiff(want, r.take()); d != "" {
			t.Error(d)
		}
		if err := p.a.Unlink(h); !errors.Is(err, node.ErrNotFound) {
			t.Errorf("again: %v, want ErrNotFound", err)
		}
	})
	t.Run("message under way", func(t *testing.T) {
		p.fabric.hold(true)
		defer p.fabric.hold(false)
		var r recorder
		h := bind(t, p.a, portals.MD{Threshold: 2, Handler: &r})
		put(t, p.a, h, p.idb, node.PutOptions{Portal: 60})
		if err := p.a.Unlink(h); err != nil {
			t.Fatal(err)
		}
		if e := r.take(); e != nil {
			t.Errorf("events before the completion: %v", e)
		}
		p.fabric.step()
		e := r.take()
		if len(e) != 1 || e[0].Type != portals.EventSend || !e[0].Unlinked || !errors.Is(e[0].Err, node.ErrTimedOut) {
			t.Errorf("events %+v, want the last SEND, timed out", e)
		}
	})
	t.Run("from the handler", func(t *testing.T) {
		var types []portals.EventType
		var h lnet.Handle
		h = bind(t, p.a, portals.MD{Threshold: 2, Handler: portals.HandlerFunc(func(e *portals.Event) {
			types = append(types, e.Type)
			if e.Type == portals.EventSend {
				if err := p.a.Unlink(h); err != nil {
					t.Error(err)
				}
				if len(types) != 1 {
					t.Error("the UNLINK event came within the handler of another")
				}
			}
		})})
		put(t, p.a, h, p.idb, node.PutOptions{Portal: 60})
		if d := cmp.Diff([]portals.EventType{portals.EventSend, portals.EventUnlink}, types); d != "" {
			t.Error(d)
		}
	})
	t.Run("attached", func(t *testing.T) {
		var r recorder
		h := attach(t, p.b, portals.Entry{Portal: 61}, portals.MD{Threshold: 1, Options: portals.OpPut, Handler: &r})
		if err := p.b.Unlink(h); err != nil {
			t.Fatal(err)
		}
		s := bind(t, p.a, portals.MD{Threshold: 1})
		put(t, p.a, s, p.idb, node.PutOptions{Portal: 61})
		if got := r.types(); !cmp.Equal(got, []portals.EventType{portals.EventUnlink}) {
			t.Errorf("events %v", got)
		}
	})
}

// Late and forged responses are dropped silently (lnet-core 5.5, 5.6).
//
// lnet-core 5.2 (11), 5.5 (1)-(2), 5.6 (1)
func TestResponsesThatNobodyAwaits(t *testing.T) {
	p := newPair(t)
	var r recorder
	data := []byte("mine")
	put1 := bind(t, p.a, portals.MD{Bytes: data, Threshold: 5, Handler: &r})
	put(t, p.a, put1, p.idb, node.PutOptions{Portal: 50})
	get1 := bind(t, p.a, portals.MD{Bytes: data, Threshold: 2, Handler: &r})
	if err := p.a.Get(get1, p.idb, node.GetOptions{Portal: 50}); err != nil {
		t.Fatal(err)
	}
	r.take()
	h := lnet.Header{Dest: p.ida.NID, Src: p.idb.NID, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre, Type: lnet.MsgReply}
	stale := get1
	stale.Interface--
	for name, c := range map[string]struct {
		handle  lnet.Handle
		typ     lnet.MsgType
		payload string
	}{
		"reply to a put":              {put1, lnet.MsgReply, "evil"},
		"ack without one asked for":   {put1, lnet.MsgAck, ""},
		"ack to a get":                {get1, lnet.MsgAck, ""},
		"reply to a former life":      {stale, lnet.MsgReply, "evil"},
		"reply too long":              {get1, lnet.MsgReply, "longer"},
		"reply to an unknown MD":      {lnet.Handle{Interface: get1.Interface, Object: 99}, lnet.MsgReply, "evil"},
		"reply with the empty handle": {lnet.NoHandle, lnet.MsgReply, "evil"},
	} {
		h.Handle, h.Type, h.PayloadLength = c.handle, c.typ, uint32(len(c.payload))
		if err := p.pa.inject(p.idb.NID, h, []byte(c.payload)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if e := r.take(); e != nil || string(data) != "mine" {
			t.Errorf("%s: events %v, memory %q", name, e, data)
		}
	}
	if got := p.a.NIs()[1].Traffic.Dropped; got != (node.MessageCounts{Reply: 5, Ack: 2}) {
		t.Errorf("dropped %+v", got)
	}
}

// lnet-core 3.3 (1), 3.3 (4), 3.4 (1)
func TestHandlersMayTakeTheirTime(t *testing.T) {
	// Two messages for one MD. The second one arrives while the handler of the first one
	// runs. It does not wait, its event is delivered in order, and its ACK has been sent by
	// then.
	p := newPair(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var order []uint64
	attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{
		Threshold: portals.Unlimited, Options: portals.OpPut,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if e.HdrData == 1 {
				close(entered)
				<-leave
			}
			order = append(order, e.HdrData)
		})})
	h := lnet.Header{
		Dest: p.idb.NID, Src: p.ida.NID, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Type: lnet.MsgPut, Handle: lnet.NoHandle, Portal: 1,
	}
	first := make(chan error, 1)
	go func() {
		h := h
		h.HdrData = 1
		first <- p.pb.inject(p.ida.NID, h, nil)
	}()
	<-entered
	for k := range uint64(3) {
		h.HdrData = 2 + k
		h.Handle = lnet.Handle{Interface: 1, Object: 1}
		if err := p.pb.inject(p.ida.NID, h, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.b.NIs()[1].Traffic.Sent.Put; got != 3 {
		t.Errorf("%d ACKs sent while the first handler ran, want 3", got)
	}
	close(leave)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]uint64{1, 2, 3, 4}, order); d != "" {
		t.Error(d)
	}
}
