package node_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a PUT whose MD is unlinked while the driver has it, when the next MD uses the
// same memory and the same queue at once, and both messages are acknowledged, then each
// event identifies its MD. The last event of the first MD shows that it was unlinked, and
// there is no event for its ACK.
//
// lnet-core 5.6 (1)
func TestEventsOfACancelledMDAreNotTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric, n, _, to, _ := waiting(t)
		var q node.EventQueue
		md := portals.MD{Bytes: []byte("abc"), Threshold: 2, Unlink: true, Handler: &q}
		ask := func() lnet.Handle {
			h := bind(t, n, md)
			put(t, n, h, to, node.PutOptions{Portal: 1, Ack: true})
			return h
		}
		fabric.hold(true)
		former := ask()
		if err := n.Unlink(former); err != nil {
			t.Fatal(err)
		}
		next := ask()
		if former == next {
			t.Fatal("both have one handle")
		}
		if err := n.Put(former, to, node.PutOptions{Portal: 1}); !errors.Is(err, node.ErrNotFound) {
			t.Errorf("a PUT from the former: %v, want ErrNotFound", err)
		}
		fabric.hold(false)
		var of [2][]portals.Event
		var e portals.Event
		for q.TryNext(&e) {
			switch e.MD {
			case former:
				of[0] = append(of[0], e)
			case next:
				of[1] = append(of[1], e)
			default:
				t.Errorf("%s of %s, which is neither", e.Type, e.MD)
			}
		}
		if s := of[0]; len(s) != 1 || s[0].Type != portals.EventSend || !s[0].Unlinked || !errors.Is(s[0].Err, node.ErrTimedOut) {
			t.Errorf("of the former: %+v, want its SEND, the last", s)
		}
		if s := of[1]; len(s) != 2 || s[0].Type != portals.EventSend || s[1].Type != portals.EventAck || s[0].Err != nil || s[1].Err != nil || !s[1].Unlinked {
			t.Errorf("of the next: %+v, want SEND and ACK", s)
		}
		if got := n.Admin().Drops()[node.DropNoMD]; got != 1 {
			t.Errorf("%d answers were dropped, want the ACK of the former", got)
		}
	})
}
