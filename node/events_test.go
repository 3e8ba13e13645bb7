package node_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a process behind a router whose PID differs from ours and from the one to which
// it sends, then the event of each of its messages distinguishes all of them. Events of
// messages that we send contain the target of the call and our own PID.
//
// lnet-core 3.2
func TestEventsTellWhoIsWho(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{PID: 50})
	p := f.addNI(t, n, "10.0.0.1@tcp")
	router := parseNID(t, "10.0.0.2@tcp")
	us := lnet.ProcessID{NID: p.nid, PID: 51}
	far := lnet.ProcessID{NID: parseNID(t, "10.5.0.1@tcp5"), PID: 60}
	b := make([]byte, 16)
	options := portals.OpPut | portals.OpGet | portals.ManageRemote
	var at, from recorder
	attached := attach(t, n, portals.Entry{Portal: 1, MatchBits: 7}, portals.MD{Bytes: b, Threshold: portals.Unlimited, Options: options, Handler: &at})
	h := bind(t, n, portals.MD{Bytes: b[:8], Threshold: portals.Unlimited, Handler: &from})

	// No path leads to it. The SEND events report that, with all other fields set.
	put(t, n, h, far, node.PutOptions{Portal: 3, MatchBits: 4, Offset: 5, HdrData: 6, Ack: true})
	if err := n.Get(h, far, node.GetOptions{Portal: 3, MatchBits: 4, Offset: 5}); err != nil {
		t.Fatal(err)
	}
	self := lnet.ProcessID{NID: lnet.AnyNID, PID: 50}
	send := portals.Event{
		Type: portals.EventSend, MsgType: lnet.MsgPut, Portal: 3, MatchBits: 4, HdrData: 6, Offset: 5,
		Target: far, Initiator: self, Source: self, Sender: lnet.AnyNID,
		Requested: 8, Length: 8, MD: h, Bytes: b[:8], Err: node.ErrUnreachable,
	}
	sendGet := send
	sendGet.MsgType, sendGet.HdrData = lnet.MsgGet, 0
	if d := eventDiff([]portals.Event{send, sendGet}, from.take()); d != "" {
		t.Errorf("what is sent (-want +got):\n%s", d)
	}

	arrived := portals.Event{Target: us, Initiator: far, Source: far, Sender: router, Bytes: b}
	for _, c := range []struct {
		h    lnet.Header
		to   *recorder
		want func(e *portals.Event)
	}{
		{lnet.Header{Type: lnet.MsgPut, Portal: 1, MatchBits: 7, HdrData: 8, Offset: 2, PayloadLength: 3}, &at, func(e *portals.Event) {
			e.Type, e.Portal, e.MatchBits, e.HdrData, e.Offset, e.Requested, e.Length = portals.EventPut, 1, 7, 8, 2, 3, 3
		}},
		{lnet.Header{Type: lnet.MsgGet, Portal: 1, MatchBits: 7, Offset: 2, Length: 3}, &at, func(e *portals.Event) {
			e.Type, e.Portal, e.MatchBits, e.Offset, e.Length = portals.EventGet, 1, 7, 2, 3
			e.Err = node.ErrUnreachable // the REPLY cannot be sent
		}},
		{lnet.Header{Type: lnet.MsgAck, Handle: h, MatchBits: 9, Length: 4}, &from, func(e *portals.Event) {
			e.Type, e.MatchBits, e.Length = portals.EventAck, 9, 4
		}},
		{lnet.Header{Type: lnet.MsgReply, Handle: h, PayloadLength: 5}, &from, func(e *portals.Event) {
			e.Type, e.Requested, e.Length = portals.EventReply, 5, 5
		}},
	} {
		c.h.Src, c.h.SrcPID, c.h.Dest, c.h.DestPID = far.NID, far.PID, us.NID, us.PID
		want := arrived
		want.MsgType, want.MD, want.Options = c.h.Type, attached, options
		if c.to == &from {
			want.MD, want.Options, want.Bytes = h, 0, b[:8]
		} else {
			c.h.Handle = lnet.NoHandle
		}
		c.want(&want)
		if err := p.inject(router, c.h, make([]byte, c.h.PayloadLength)); err != nil {
			t.Fatal(err)
		}
		if d := eventDiff([]portals.Event{want}, c.to.take()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.h.Type, d)
		}
	}
}

// Given a PUT that requests an ACK, then its event is delivered before the ACK is sent.
//
// lnet-core 3.3 (4), 5.3 (4)
func TestEventOfAPutComesBeforeItsAck(t *testing.T) {
	p := newPair(t)
	var at recorder
	attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Options: portals.OpPut, Handler: &at})
	p.fabric.hold(true)
	put(t, p.a, bind(t, p.a, portals.MD{Threshold: 2}), p.idb, node.PutOptions{Portal: 1, Ack: true})
	p.fabric.step() // the PUT
	if d := cmp.Diff([]portals.EventType{portals.EventPut}, at.types()); d != "" {
		t.Errorf("events while the ACK waits (-want +got):\n%s", d)
	}
	if got := p.fabric.pending(); got != 1 {
		t.Errorf("%d messages on the way, want the ACK", got)
	}
	p.fabric.hold(false)
}
