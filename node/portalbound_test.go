package node_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a portal number that is out of range, when a call contains it, then the call
// returns ErrInvalid at once: no message is sent, no event is delivered, and the MD is
// unchanged. All portals in range are accepted.
func TestPortalsBeyondTheTableAreInvalid(t *testing.T) {
	p := newPair(t)
	seen := watch(p.fabric)
	var r recorder
	h := bind(t, p.a, portals.MD{Bytes: make([]byte, 1), Threshold: portals.Unlimited, Handler: &r})
	calls := map[string]func(portal uint32, to lnet.ProcessID) error{
		"Put":     func(k uint32, to lnet.ProcessID) error { return p.a.Put(h, to, node.PutOptions{Portal: k}) },
		"Put+Ack": func(k uint32, to lnet.ProcessID) error { return p.a.Put(h, to, node.PutOptions{Portal: k, Ack: true}) },
		"Get":     func(k uint32, to lnet.ProcessID) error { return p.a.Get(h, to, node.GetOptions{Portal: k}) },
		"PutWait": func(k uint32, to lnet.ProcessID) error {
			_, err := p.a.PutWait(context.Background(), nil, to, node.PutOptions{Portal: k})
			return err
		},
		"SetLazy":   func(k uint32, _ lnet.ProcessID) error { return p.a.SetLazy(k) },
		"ClearLazy": func(k uint32, _ lnet.ProcessID) error { return p.a.ClearLazy(k) },
		"Attach": func(k uint32, _ lnet.ProcessID) error {
			_, err := p.a.Attach(portals.Entry{Portal: k}, portals.MD{Options: portals.OpPut})
			return err
		},
		"Explain": func(k uint32, to lnet.ProcessID) error {
			return p.a.Admin().Explain(to.NID, node.ExplainOptions{Portal: k}).Err
		},
	}
	waitingGet := func(k uint32) error {
		_, err := p.a.GetWait(context.Background(), make([]byte, 1), p.idb, node.GetOptions{Portal: k})
		return err
	}
	for _, portal := range []uint32{lnet.Portals, lnet.Portals + 1, 1 << 16, 1<<32 - 1} {
		for name, call := range calls {
			for _, to := range []lnet.ProcessID{p.idb, loID} {
				if err := call(portal, to); !errors.Is(err, node.ErrInvalid) {
					t.Errorf("%s, portal %d of %s: %v, want ErrInvalid", name, portal, to, err)
				}
			}
		}
		if err := waitingGet(portal); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("GetWait, portal %d: %v, want ErrInvalid", portal, err)
		}
	}
	if events, c := r.take(), p.a.Admin().Counters(); len(events) != 0 || len(*seen) != 0 || c.Committed != 0 || c.Trackers != 0 {
		t.Errorf("events %v, %d sent, %+v; want nothing", events, len(*seen), c)
	}
	for portal := range uint32(lnet.Portals) {
		for name, call := range calls {
			if name == "Attach" && portal == lnet.ReservedPortal {
				continue
			}
			if err := call(portal, p.idb); err != nil {
				t.Errorf("%s, portal %d: %v", name, portal, err)
			}
		}
	}
}
