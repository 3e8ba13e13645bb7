package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// waits are the calls that block, for a NID of a node.
var waits = map[string]func(ctx context.Context, n *node.Node, to lnet.ProcessID) error{
	"PutWait": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		_, err := n.PutWait(ctx, []byte("x"), to, node.PutOptions{Portal: 1, Ack: true})
		return err
	},
	"PutWait without ACK": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		_, err := n.PutWait(ctx, []byte("x"), to, node.PutOptions{Portal: 1})
		return err
	},
	"GetWait": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		_, err := n.GetWait(ctx, make([]byte, 1), to, node.GetOptions{Portal: 1})
		return err
	},
	"Inbox.Next": func(ctx context.Context, n *node.Node, _ lnet.ProcessID) error {
		inbox, err := n.OpenInbox(node.InboxConfig{Portal: 20, Size: 1, Buffers: 1})
		if err != nil {
			return err
		}
		defer inbox.Close()
		_, err = inbox.Next(ctx)
		return err
	},
	"Ping": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		_, err := n.Ping(ctx, to, node.PingOptions{})
		return err
	},
	"Discover": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		_, err := n.Discover(ctx, to.NID)
		return err
	},
	"PrimaryNID": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		_, err := n.PrimaryNID(ctx, to.NID)
		return err
	},
	"AddPeer": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		_, err := n.Admin().AddPeer(ctx, []lnet.NID{to.NID}, node.AddPeerOptions{})
		return err
	},
	"ConfigurePeer": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		return n.Admin().ConfigurePeer(ctx, to.NID, nil, discovery.ConfigureOptions{})
	},
	"DeletePeer": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		return n.Admin().DeletePeer(ctx, to.NID)
	},
	"DeletePeerNIDs": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		return n.Admin().DeletePeerNIDs(ctx, to.NID, nil)
	},
	"ChangePolicies": func(ctx context.Context, n *node.Node, _ lnet.ProcessID) error {
		return n.Admin().ChangePolicies(ctx, func(*selection.Policies) error { return nil })
	},
	"AddRoute": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		return n.Admin().AddRoute(ctx, lnet.MakeNet(lnet.TypeO2IB, 7), to.NID, node.RouteOptions{})
	},
	"DeleteRoute": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		return n.Admin().DeleteRoute(ctx, lnet.MakeNet(lnet.TypeO2IB, 7), to.NID)
	},
	"AddNI": func(ctx context.Context, n *node.Node, _ lnet.ProcessID) error {
		_, err := n.AddNI(ctx, &driver{fabric: newFabric(), typ: lnet.TypeTCP}, lnd.Config{NID: lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 9), 9)})
		return err
	},
	"Start": func(ctx context.Context, _ *node.Node, _ lnet.ProcessID) error {
		_, err := node.Start(ctx, node.Config{}, &driver{fabric: newFabric(), typ: lnet.TypeTCP}, "10.0.0.9@tcp9")
		return err
	},
	"PeersAfter": func(ctx context.Context, n *node.Node, _ lnet.ProcessID) error {
		for _, err := range n.Admin().PeersAfter(ctx, 0) {
			return err
		}
		return nil
	},
	"PeersOf": func(ctx context.Context, n *node.Node, to lnet.ProcessID) error {
		for _, err := range n.Admin().PeersOf(ctx, []lnet.NID{to.NID}) {
			return err
		}
		return nil
	},
	"Peers": func(_ context.Context, n *node.Node, _ lnet.ProcessID) (err error) {
		defer func() { err, _ = recover().(error) }()
		n.Peers()
		return nil
	},
	"Peer": func(_ context.Context, n *node.Node, to lnet.ProcessID) (err error) {
		defer func() { err, _ = recover().(error) }()
		n.Peer(to.NID)
		return nil
	},
	"RemoveNI": func(ctx context.Context, n *node.Node, _ lnet.ProcessID) error {
		return n.RemoveNI(ctx, n.NID())
	},
	"Register": func(ctx context.Context, n *node.Node, _ lnet.ProcessID) error {
		_, err := n.Register(ctx, make([]byte, 1))
		return err
	},
	"Close": func(ctx context.Context, n *node.Node, _ lnet.ProcessID) error { return n.Close(ctx) },
}

// Given a handler, when it makes a call that blocks, on its own or another node, to 0@lo
// or to a peer, then the call returns an error at once even if the context never ends. No
// message is sent, and the nodes continue to work.
func TestAHandlerThatWaitsHasAnError(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				arrived := 0
				var errs []error
				attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{
					Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.OpGet | portals.ManageRemote,
					Handler: portals.HandlerFunc(func(e *portals.Event) {
						if arrived++; arrived > 2 {
							return
						}
						errs = append(errs,
							wait(context.Background(), p.b, loID), wait(context.Background(), p.b, p.ida),
							wait(context.Background(), p.a, p.idb))
					}),
				})
				put(t, p.a, bind(t, p.a, portals.MD{Threshold: 1}), p.idb, node.PutOptions{Portal: 1})
				put(t, p.b, bind(t, p.b, portals.MD{Threshold: 1}), loID, node.PutOptions{Portal: 1})
				for _, err := range errs {
					if !errors.Is(err, node.ErrInHandler) {
						t.Errorf("%v, want ErrInHandler", err)
					}
				}
				if arrived != 2 || len(errs) != 6 {
					t.Errorf("%d messages arrived, %d calls were made; want 2 and 6", arrived, len(errs))
				}
				if err := waits["PutWait"](t.Context(), p.a, p.idb); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// Given a handler that needs to wait, when it starts a goroutine for that, then the
// goroutine does not count as a handler.
func TestAHandlerHasSomebodyWait(t *testing.T) {
	n := newNode(t, node.Config{})
	done := make(chan error, 1)
	once := true
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote,
		Handler: portals.HandlerFunc(func(*portals.Event) {
			if once {
				once = false
				go func() { done <- waits["PutWait"](context.Background(), n, loID) }()
			}
		}),
	})
	put(t, n, bind(t, n, portals.MD{Threshold: 1}), loID, node.PutOptions{Portal: 1})
	if err := <-done; err != nil {
		t.Error(err)
	}
}
