package node_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// A portal can have an inbox or claims but not both, and no claims while it is lazy.
func TestClaimsAndInboxes(t *testing.T) {
	n := newNode(t, node.Config{})
	claim := func(portal uint32) (*portals.Claim, error) { return n.Claim(portal, 7<<52, 1<<52-1) }
	for portal, want := range map[uint32]error{0: node.ErrInvalid, 64: node.ErrInvalid} {
		if _, err := claim(portal); !errors.Is(err, want) {
			t.Errorf("portal %d: %v, want %v", portal, err, want)
		}
	}
	c, err := claim(34)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Claim(34, 8<<52, 1<<52-1); err != nil {
		t.Errorf("beside another: %v", err)
	}
	if _, err := n.OpenInbox(node.InboxConfig{Portal: 34}); !errors.Is(err, node.ErrExists) {
		t.Errorf("inbox on a claimed portal: %v, want ErrExists", err)
	}
	if err := n.SetLazy(34); !errors.Is(err, node.ErrTaken) {
		t.Errorf("lazy: %v, want ErrTaken", err)
	}
	if _, err := n.Attach(portals.Entry{Portal: 34, MatchBits: 7 << 52}, portals.MD{Threshold: 1, Options: portals.OpPut}); !errors.Is(err, node.ErrTaken) {
		t.Errorf("attach: %v, want ErrTaken", err)
	}
	n.Unclaim(c)
	n.Unclaim(c)
	if _, err := n.OpenInbox(node.InboxConfig{Portal: 34}); !errors.Is(err, node.ErrExists) {
		t.Errorf("inbox while the other claim lasts: %v, want ErrExists", err)
	}

	// If all buffers of an inbox are lent, it has no entry, but still its portal.
	b := openInbox(t, n, node.InboxConfig{Portal: 35, Size: 8, Buffers: 1, DropWhenFull: true})
	put(t, n, bind(t, n, portals.MD{Bytes: make([]byte, 8), Threshold: 1, Unlink: true}), loID, node.PutOptions{Portal: 35})
	m, err := b.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(35); !errors.Is(err, node.ErrExists) {
		t.Errorf("portal of an inbox: %v, want ErrExists", err)
	}
	m.Release()
	b.Close()
	if c, err = claim(35); err != nil {
		t.Errorf("the inbox is closed: %v", err)
	}
	n.Unclaim(c)
	openInbox(t, n, node.InboxConfig{Portal: 35})
}

// Close calls a function registered with AtClose once, while MDs can still be unlinked
// and deliver an event.
func TestAtClose(t *testing.T) {
	n, err := node.New(node.Config{Parameters: new(static())})
	if err != nil {
		t.Fatal(err)
	}
	var r recorder
	h := attach(t, n, portals.Entry{Portal: 1}, portals.MD{Bytes: make([]byte, 8), Threshold: 1, Options: portals.OpPut, Handler: &r})
	calls := 0
	n.AtClose(func() {
		calls++
		if err := n.Unlink(h); err != nil {
			t.Error(err)
		}
		if err := n.Put(lnet.Handle{}, loID, node.PutOptions{Portal: 1}); !errors.Is(err, node.ErrClosed) {
			t.Errorf("a request is taken yet: %v", err)
		}
	})
	forget := n.AtClose(func() { t.Error("what was forgotten is called") })
	forget()
	forget()
	for range 2 {
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.types(); calls != 1 || !slices.Equal(got, []portals.EventType{portals.EventUnlink}) {
		t.Errorf("%d calls, events %v", calls, got)
	}
	late := false
	n.AtClose(func() { late = true })()
	if !late {
		t.Error("a closed node does not call")
	}
}
