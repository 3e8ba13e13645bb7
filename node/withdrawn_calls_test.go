package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given RemoveNI whose context ends while discovery is busy, then the NI is not removed
// from the topology without its interface being closed.
func TestRemoveNIWithADeadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{})
		p := f.addNI(t, n, "10.0.0.1@tcp")
		release := n.HoldDiscovery()
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error)
		go func() { failed <- n.RemoveNI(ctx, p.nid) }()
		synctest.Wait()
		cancel()
		err := <-failed
		release()
		synctest.Wait()
		time.Sleep(time.Minute)
		if len(n.NIs()) == 1 && !p.isClosed() {
			t.Errorf("RemoveNI: %v; the NI is gone (%d NIs), its interface is open for ever; again: %v",
				err, len(n.NIs())-1, n.RemoveNI(context.Background(), p.nid))
		}
	})
}

// Given AddNI whose context ends while discovery is busy, when it returns an error, then
// the closed interface is not added later.
func TestAddNIWithADeadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{})
		ctx, cancel := context.WithCancel(context.Background())
		nid := parseNID(t, "10.0.0.1@tcp")
		release := n.HoldDiscovery()
		failed := make(chan error)
		go func() {
			_, err := n.AddNI(ctx, &driver{fabric: f, typ: lnet.TypeTCP}, lnd.Config{Net: nid.Net(), NID: nid})
			failed <- err
		}()
		synctest.Wait()
		cancel()
		err := <-failed
		release()
		synctest.Wait()
		if err != nil && len(n.NIs()) != 1 {
			t.Errorf("AddNI: %v; yet there is %s, status %v, in ping info: %v", err, n.NID(), n.NIs()[1].Status, n.PingInfo().NIs)
		}
	})
}

// Given a route to a net that is added while an NI on that net is being added, then only
// one of them can succeed.
func TestRouteWhileNIIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{})
		f.addNI(t, n, "10.0.0.1@tcp")
		nid := parseNID(t, "10.0.1.1@tcp1")
		d := &driver{fabric: f, typ: lnet.TypeTCP, onOpen: func(*port) {
			if err := n.Admin().AddRoute(context.Background(), nid.Net(), parseNID(t, "10.0.0.9@tcp"), node.RouteOptions{}); err != nil {
				t.Logf("AddRoute: %v", err)
			}
		}}
		_, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid})
		if err == nil && len(n.Admin().Routes()) > 0 {
			t.Errorf("tcp1 is local and remote: %v", n.Admin().Routes())
		}
		synctest.Wait()
	})
}

// Discover returns ErrClosed when the node closes.
func TestDiscoverOfAClosingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
		addHand(t, n, &hand{}, "10.0.0.1@tcp", lnd.Tunables{})
		_ = f
		failed := make(chan error)
		go func() {
			_, err := n.Discover(context.Background(), parseNID(t, "10.0.0.2@tcp"))
			failed <- err
		}()
		synctest.Wait()
		go func() { _ = n.Close(context.Background()) }()
		if err := <-failed; !errors.Is(err, node.ErrClosed) {
			t.Errorf("Discover: %v, want ErrClosed", err)
		}
		synctest.Wait()
	})
}

// Explain finds a path to 0@lo.
func TestExplainLoopback(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	f.addNI(t, n, "10.0.0.1@tcp")
	for _, nid := range []lnet.NID{lnet.LoopbackNID, {}, lnet.AnyNID, parseNID(t, "10.0.0.1@tcp")} {
		e := n.Admin().Explain(nid, node.ExplainOptions{Portal: 1})
		t.Logf("%v: err %v, %+v", nid, e.Err, e)
	}
	if e := n.Admin().Explain(lnet.LoopbackNID, node.ExplainOptions{Portal: 1}); e.Err != nil {
		t.Errorf("0@lo: %v", e.Err)
	}
}

// The results of AddPeer and Peers are free of data races when the context ends and the
// node closes.
func TestResultsRace(t *testing.T) {
	for range 300 {
		n, err := node.New(node.Config{})
		if err != nil {
			t.Fatal(err)
		}
		f := newFabric()
		f.addNI(t, n, "10.0.0.1@tcp")
		for k := range 20 {
			_, _ = n.Admin().AddPeer(context.Background(), []lnet.NID{lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), uint32(0x0a000100+k))}, node.AddPeerOptions{})
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 50 {
				nid, _ := n.Admin().AddPeer(ctx, []lnet.NID{parseNID(t, "10.0.0.2@tcp")}, node.AddPeerOptions{})
				_ = nid.IsZero()
				_ = n.Peers()
			}
		}()
		cancel()
		_ = n.Close(context.Background())
		<-done
	}
}
