package node_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	faults "github.com/lnetd/lnetd/node/fault"
)

// Given an NI, when a message arrives, then the driver either gets one placement for its
// payload or an error for an invalid message. A dropped message does not close the
// connection.
//
// lnet-core 4.5 (1), 4.5 (4), 5.1 (1)-(2), 5.2 (10), 5.3 (3)
func TestEachArrivalIsPlacedOnce(t *testing.T) {
	n := newNode(t, node.Config{})
	f := newFabric()
	q := f.addManualPort(t, n, "10.0.0.1@tcp")
	from := parseNID(t, "10.0.0.2@tcp")
	var r recorder
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 8), Threshold: portals.Unlimited, Handler: &r,
		Options: portals.OpPut | portals.OpGet | portals.ManageRemote | portals.Truncate})
	f.failBy(func(tx *lnd.Tx) error { // the neighbour does not exist
		return fault(lnd.StatusRemoteError, tx.To.NID, lnd.ErrUnreachable)
	})
	// One request of each kind is under way.
	h := bind(t, n, portals.MD{Bytes: make([]byte, 4), Threshold: portals.Unlimited, Options: portals.Truncate, Handler: &r})
	f.hold(true)
	to := lnet.ProcessID{NID: from, PID: lnet.PIDLustre}
	put(t, n, h, to, node.PutOptions{Portal: 1, Ack: true})
	if err := n.Get(h, to, node.GetOptions{Portal: 1}); err != nil {
		t.Fatal(err)
	}

	const garbage, dropped = -2, -1
	for _, c := range []struct {
		name string
		h    lnet.Header
		want int // length of the placement, or why it is missing
		typ  portals.EventType
	}{
		{"put", lnet.Header{Type: lnet.MsgPut, Portal: 1, PayloadLength: 5}, 5, portals.EventPut},
		{"put, truncated", lnet.Header{Type: lnet.MsgPut, Portal: 1, PayloadLength: 9}, 8, portals.EventPut},
		{"put of nothing", lnet.Header{Type: lnet.MsgPut, Portal: 1}, 0, portals.EventPut},
		{"put that nobody takes", lnet.Header{Type: lnet.MsgPut, Portal: 2, PayloadLength: 5}, dropped, 0},
		{"get", lnet.Header{Type: lnet.MsgGet, Portal: 1, Length: 8}, 0, portals.EventGet},
		{"get that nobody serves", lnet.Header{Type: lnet.MsgGet, Portal: 2, Length: 8}, dropped, 0},
		{"ack", lnet.Header{Type: lnet.MsgAck, Handle: h}, 0, portals.EventAck},
		{"ack of nothing", lnet.Header{Type: lnet.MsgAck, Handle: lnet.NoHandle}, dropped, 0},
		{"reply", lnet.Header{Type: lnet.MsgReply, Handle: h, PayloadLength: 3}, 3, portals.EventReply},
		{"reply, truncated", lnet.Header{Type: lnet.MsgReply, Handle: h, PayloadLength: 7}, 4, portals.EventReply},
		{"reply to nothing", lnet.Header{Type: lnet.MsgReply, Handle: lnet.NoHandle, PayloadLength: 3}, dropped, 0},
		{"hello", lnet.Header{Type: lnet.MsgHello}, garbage, 0},
	} {
		if c.h.Type == lnet.MsgPut || c.h.Type == lnet.MsgGet {
			c.h.Handle = lnet.NoHandle
		}
		err := q.arrive(from, c.h, false)
		calls := q.take()
		if c.want == garbage {
			if err == nil || calls != nil {
				t.Errorf("%s: %v, %d calls of Receive; want an error and none", c.name, err, len(calls))
			}
			continue
		}
		if err != nil || len(calls) != 1 {
			t.Fatalf("%s: %v, %d calls of Receive, want 1", c.name, err, len(calls))
		}
		place := calls[0].place
		if (place.Done == nil) != (c.want == dropped) || place.Memory.Length != max(c.want, 0) {
			t.Errorf("%s: placement %+v, want length %d", c.name, place, c.want)
		}
		if e := r.take(); e != nil {
			t.Errorf("%s: event before the payload is there: %v", c.name, e)
		}
		calls[0].complete(nil)
		var want []portals.EventType
		if c.typ != portals.EventGet && c.typ != 0 { // a GET's event waits for the REPLY
			want = []portals.EventType{c.typ}
		}
		if d := cmp.Diff(want, r.types()); d != "" {
			t.Errorf("%s: events (-want +got):\n%s", c.name, d)
		}
	}
	if q.cut != nil {
		t.Errorf("cut off: %v", q.cut)
	}
	f.hold(false)
	if d := cmp.Diff([]portals.EventType{portals.EventSend, portals.EventSend, portals.EventGet}, r.types()); d != "" {
		t.Errorf("events in the end (-want +got):\n%s", d)
	}
}

// Given messages that are dropped before matching, then the driver is notified once for
// each that its payload is not needed, and no connection is closed.
//
// lnet-core 4.5 (1), 4.5 (4), 5.1 (2), 11.4
func TestWhatIsDroppedAtOnceIsPlacedOnce(t *testing.T) {
	const second, elsewhere = "10.1.0.1@tcp1", "10.1.0.9@tcp1"
	from := parseNID(t, "10.0.0.2@tcp")
	for _, c := range []struct {
		name, dest string
		set        func(n *node.Node) error
	}{
		{"a rule", "", func(n *node.Node) error { return n.Admin().AddFault(faults.Rule{Kind: faults.Drop, Rate: 1}) }},
		{"its source shall fail", "", func(n *node.Node) error { return n.Admin().FailNID(from, faults.Forever) }},
		{"for another NI", second, nil},
		{"for another node", elsewhere, nil},
	} {
		n := newNode(t, node.Config{})
		f := newFabric()
		q := f.addManualPort(t, n, "10.0.0.1@tcp")
		f.addNI(t, n, second)
		attach(t, n, portals.Entry{Portal: 1}, portals.MD{Bytes: make([]byte, 8), Threshold: 1, Options: portals.OpPut})
		if c.set != nil {
			if err := c.set(n); err != nil {
				t.Fatal(err)
			}
		}
		h := lnet.Header{Type: lnet.MsgPut, Portal: 1, PayloadLength: 5, Handle: lnet.NoHandle}
		if c.dest != "" {
			h.Dest = parseNID(t, c.dest)
		}
		err := q.arrive(from, h, false)
		if calls := q.take(); err != nil || len(calls) != 1 || calls[0].place.Done != nil || calls[0].place.Memory.Length != 0 {
			t.Errorf("%s: %v, %+v; want one call of Receive, for nothing", c.name, err, calls)
		}
		if q.cut != nil {
			t.Errorf("%s: cut off: %v", c.name, q.cut)
		}
	}
}

// Given a lazy portal, when a PUT must wait, then the driver gets no placement before an
// entry accepts the PUT.
//
// lnet-core 5.1 (2), 4.6 (2)
func TestDelayedArrivalIsPlacedLater(t *testing.T) {
	n := newNode(t, node.Config{})
	q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
	if err := n.SetLazy(3); err != nil {
		t.Fatal(err)
	}
	h := lnet.Header{Type: lnet.MsgPut, Portal: 3, Handle: lnet.NoHandle, PayloadLength: 2}
	if err := q.arrive(parseNID(t, "10.0.0.2@tcp"), h, false); err != nil {
		t.Fatal(err)
	}
	if calls := q.take(); calls != nil {
		t.Errorf("placed before anybody takes it: %+v", calls)
	}
	var r recorder
	attach(t, n, portals.Entry{Portal: 3}, portals.MD{Bytes: make([]byte, 2), Threshold: 1, Options: portals.OpPut, Handler: &r})
	calls := q.take()
	if len(calls) != 1 || calls[0].place.Memory.Length != 2 {
		t.Fatalf("placements %+v, want one of 2 bytes", calls)
	}
	calls[0].complete(nil)
	if d := cmp.Diff([]portals.EventType{portals.EventPut}, r.types()); d != "" {
		t.Error(d)
	}
}

// Given a PUT that requests an ACK, when its payload does not arrive, then the event has
// an error and no ACK is sent.
//
// lnet-core 3.4 (4), 5.3 (5)
func TestFailedReceptionIsNotAcknowledged(t *testing.T) {
	n := newNode(t, node.Config{})
	f := newFabric()
	q := f.addManualPort(t, n, "10.0.0.1@tcp")
	var r recorder
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 8), Threshold: 1, Unlink: true, Options: portals.OpPut, Handler: &r})
	f.hold(true) // an ACK would be queued here
	err := q.arrive(parseNID(t, "10.0.0.2@tcp"), lnet.Header{
		Type: lnet.MsgPut, Portal: 1, PayloadLength: 8, Handle: lnet.Handle{Interface: 1, Object: 1}}, false)
	if err != nil {
		t.Fatal(err)
	}
	lost := &lnd.Error{Driver: "manual", Op: "receive", Status: lnd.StatusRemoteError, Err: lnd.ErrDisconnected}
	for _, c := range q.take() {
		c.complete(lost)
	}
	e := r.take()
	if len(e) != 1 || e[0].Type != portals.EventPut || !e[0].Unlinked || !errors.Is(e[0].Err, lnd.ErrDisconnected) {
		t.Errorf("events %+v, want the last PUT, with the error", e)
	}
	if got := f.pending(); got != 0 {
		t.Errorf("%d messages sent, want none", got)
	}
	if c := n.Admin().Counters(); c.Received != 0 || c.ReceivedBytes != 0 || c.RemoteErrors != 1 || c.Committed != 0 {
		t.Errorf("counters %+v", c)
	}
}

// Given a GET that was matched, when its REPLY was not sent yet, then there is no GET
// event yet.
//
// lnet-core 3.3 (5), 5.4 (5)
func TestEventOfAGetWaitsForItsReply(t *testing.T) {
	p := newPair(t)
	var at, from recorder
	attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{
		Bytes: []byte("abc"), Threshold: 1, Options: portals.OpGet | portals.Truncate, Handler: &at})
	h := bind(t, p.a, portals.MD{Bytes: make([]byte, 8), Threshold: 2, Handler: &from})
	p.fabric.hold(true)
	if err := p.a.Get(h, p.idb, node.GetOptions{Portal: 1}); err != nil {
		t.Fatal(err)
	}
	p.fabric.step() // the GET
	if e := at.take(); e != nil {
		t.Errorf("events while the REPLY waits: %v", e)
	}
	if !p.fabric.step() { // the REPLY
		t.Fatal("no REPLY")
	}
	if e := at.take(); len(e) != 1 || e[0].Type != portals.EventGet || e[0].Length != 3 || e[0].Err != nil {
		t.Errorf("events %+v, want GET of 3 bytes", e)
	}
	if d := cmp.Diff([]portals.EventType{portals.EventSend, portals.EventReply}, from.types()); d != "" {
		t.Errorf("requester's events (-want +got):\n%s", d)
	}
}

// A GET by RDMA cannot be forwarded. So it is a protocol error where another message
// would be dropped.
//
// lnet-core 5.2 (3c)
func TestRDMARequestForAnotherNode(t *testing.T) {
	n := newNode(t, node.Config{})
	q := newFabric().addManualPort(t, n, "10.0.0.1@tcp")
	from := parseNID(t, "10.0.0.2@tcp")
	for _, c := range []struct {
		typ      lnet.MsgType
		rdma     bool
		protocol bool
	}{
		{lnet.MsgGet, true, true},
		{lnet.MsgGet, false, false},
		{lnet.MsgPut, true, false},
	} {
		h := lnet.Header{Type: c.typ, Dest: parseNID(t, "10.1.0.9@tcp1"), Handle: lnet.NoHandle}
		err := q.arrive(from, h, c.rdma)
		calls := q.take()
		if c.protocol && (!errors.Is(err, lnd.ErrProtocol) || calls != nil) {
			t.Errorf("%s, RDMA %v: %v, want a protocol error", c.typ, c.rdma, err)
		}
		if !c.protocol && (err != nil || len(calls) != 1 || calls[0].place.Done != nil) {
			t.Errorf("%s, RDMA %v: %v, %+v, want it dropped", c.typ, c.rdma, err, calls)
		}
	}
}

// Given an unknown neighbour, when it sends a message, then it becomes a peer NI with the
// credits of the net, served by the NI on which the message arrived.
//
// discovery 2.4 (2)
// lnet-core 5.2 (5), 7.1 (2)
func TestNeighbourBecomesAPeer(t *testing.T) {
	n := newNode(t, node.Config{})
	f := newFabric()
	f.addNI(t, n, "10.0.0.8@tcp")
	q := f.addManualPort(t, n, "10.0.0.1@tcp")
	if p := n.Peers(); len(p) != 0 {
		t.Fatalf("peers before any message: %+v", p)
	}
	// It forwards a message of another node, which is not a neighbour.
	router := parseNID(t, "10.0.0.2@tcp")
	err := q.arrive(router, lnet.Header{
		Type: lnet.MsgPut, Src: parseNID(t, "10.5.0.1@tcp5"), Portal: 9, Handle: lnet.NoHandle}, false)
	if err != nil {
		t.Fatal(err)
	}
	p := peerNIs(n)
	if len(p) != 1 || p[0].NID != router || p[0].Credits != (node.CreditInfo{Max: 8, Available: 8, Min: 8}) {
		t.Errorf("peers %+v, want %s alone", p, router)
	}
	f.addNI(t, newNode(t, node.Config{}), router.String())
	var from []lnet.NID
	f.show(func(h lnet.Header, _ []byte) { from = append(from, h.Src) })
	h := bind(t, n, portals.MD{Threshold: portals.Unlimited})
	for range 3 {
		put(t, n, h, lnet.ProcessID{NID: router, PID: lnet.PIDLustre}, node.PutOptions{Portal: 9})
	}
	for _, src := range from {
		if src != q.nid {
			t.Errorf("sent from %s, want from %s", src, q.nid)
		}
	}
	if len(from) != 3 {
		t.Errorf("%d messages sent, want 3", len(from))
	}
}
