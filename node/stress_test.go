package node_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Many goroutines bind, send, get, attach and unlink concurrently, while an NI is removed
// and added. In all cases every MD has one last event, handlers of an MD never overlap,
// and in the end all credits are released and nothing is left. The same holds when
// messages wait for discovery.
//
// lnet-core 3.3 (1)-(2)
func TestEverythingAtOnce(t *testing.T) {
	for _, mode := range []discovery.Mode{discovery.Static, discovery.On} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { everythingAtOnce(t, mode) })
		})
	}
}

func everythingAtOnce(t *testing.T, mode discovery.Mode) {
	const workers, rounds = 6, 1000
	f := newFabric()
	p := node.DefaultParameters()
	p.Discovery = mode
	a, b := newNode(t, node.Config{Parameters: &p}), newNode(t, node.Config{Parameters: &p})
	few := lnd.Tunables{PeerCredits: 2, Credits: 3}
	f.addNIWith(t, a, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp"), Tunables: few})
	f.addNIWith(t, b, lnd.Config{NID: parseNID(t, "10.0.0.2@tcp"), Tunables: few})
	if err := b.SetLazy(2); err != nil {
		t.Fatal(err)
	}
	sink(t, b, portals.OpPut|portals.OpGet)
	to := process(t, "10.0.0.2@tcp")

	var begun, ended atomic.Int64
	md := func(c portals.MD) portals.MD {
		var running, over atomic.Bool
		begun.Add(1)
		c.Handler = portals.HandlerFunc(func(e *portals.Event) {
			if running.Swap(true) {
				t.Error("two handlers of one MD at once")
			}
			if over.Load() {
				t.Errorf("%s after the last event", e.Type)
			}
			if e.Unlinked {
				over.Store(true)
				ended.Add(1)
			}
			running.Store(false)
		})
		return c
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for k := range rounds {
				var h lnet.Handle
				switch target := to; (w + k) % 5 {
				case 0, 1:
					if k%3 == 0 {
						target = loID
					}
					h = bind(t, a, md(portals.MD{Bytes: make([]byte, 32), Threshold: 4}))
					put(t, a, h, target, node.PutOptions{Portal: 1 + uint32(k)%2, Ack: true})
					put(t, a, h, target, node.PutOptions{Portal: 1})
				case 2:
					h = bind(t, a, md(portals.MD{Bytes: make([]byte, 32), Threshold: 2}))
					if err := a.Get(h, to, node.GetOptions{Portal: 1}); err != nil {
						t.Error(err)
					}
				case 3:
					h = attach(t, b, portals.Entry{Portal: 2}, md(portals.MD{Bytes: make([]byte, 32), Threshold: 3, Options: portals.OpPut}))
					if err := b.Unlink(h); err != nil {
						t.Error(err)
					}
					continue
				case 4:
					h = bind(t, b, md(portals.MD{Bytes: make([]byte, 16), Threshold: 2}))
					put(t, b, h, process(t, "10.0.0.1@tcp"), node.PutOptions{Portal: 1})
					if err := b.Unlink(h); err != nil {
						t.Error(err)
					}
					continue
				}
				if err := a.Unlink(h); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		nid := parseNID(t, "10.0.0.3@tcp")
		d := &driver{fabric: f, typ: lnet.TypeTCP}
		for k := range 30 {
			if _, err := a.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
				t.Error(err)
			}
			if _, err := b.Ping(context.Background(), lnet.ProcessID{NID: nid}, node.PingOptions{}); err != nil {
				t.Errorf("ping %d: %v", k, err)
			}
			if err := a.RemoveNI(context.Background(), nid); err != nil {
				t.Error(err)
			}
			a.NIs()
			a.Peers()
			a.Admin().Counters()
		}
	})
	all.Wait()
	synctest.Wait()
	for _, n := range []*node.Node{a, b} {
		if err := n.ClearLazy(2); err != nil {
			t.Fatal(err)
		}
	}
	f.work()
	time.Sleep(2 * p.TransactionTimeout) // for messages that wait for an answer of the NI that was removed
	synctest.Wait()
	if begun.Load() != ended.Load() {
		t.Errorf("%d MDs, %d last events", begun.Load(), ended.Load())
	}
	for name, n := range map[string]*node.Node{"a": a, "b": b} {
		if g := n.Admin().Counters(); g.Committed != 0 || g.Trackers != 0 {
			t.Errorf("node %s: %+v", name, g)
		}
		for _, p := range peerNIs(n) {
			if p.Credits.Available != p.Credits.Max || p.QueuedBytes != 0 {
				t.Errorf("node %s, peer %s: %+v, %d bytes", name, p.NID, p.Credits, p.QueuedBytes)
			}
		}
		if c := n.NIs()[1].Credits; c.Available != c.Max {
			t.Errorf("node %s: %+v", name, c)
		}
	}
}

// Several goroutines use one MD. Each message is acknowledged once, and events are
// delivered one at a time.
//
// lnet-core 3.3 (1)-(2)
func TestOneMDManySenders(t *testing.T) {
	const senders, each = 4, 1000
	p := newPair(t)
	got := map[uint64]int{} // calls of the handler of one MD do not overlap
	attach(t, p.b, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote,
		Handler: portals.HandlerFunc(func(e *portals.Event) { got[e.HdrData]++ })})
	sends, acks := 0, 0
	h := bind(t, p.a, portals.MD{Bytes: make([]byte, 8), Threshold: 2 * senders * each, Unlink: true,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			switch e.Type {
			case portals.EventSend:
				sends++
			case portals.EventAck:
				acks++
			}
		})})
	var all sync.WaitGroup
	for s := range uint64(senders) {
		all.Go(func() {
			for k := range uint64(each) {
				if err := p.a.Put(h, p.idb, node.PutOptions{Portal: 1, HdrData: s<<32 | k, Ack: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := p.a.Unlink(h); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("the MD is not unlinked: %v", err)
	}
	if sends != senders*each || acks != senders*each || len(got) != senders*each {
		t.Errorf("%d SENDs, %d ACKs, %d PUTs, want %d of each", sends, acks, len(got), senders*each)
	}
	for k, n := range got {
		if n != 1 {
			t.Fatalf("message %x came %d times", k, n)
		}
	}
	if d := cmp.Diff(uint64(senders*each), p.a.NIs()[1].Traffic.PutEgress.Samples); d != "" {
		t.Error(d)
	}
}
