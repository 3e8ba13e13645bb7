package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// waiting returns two nodes, the second of which has 8 bytes on portal 1.
func waiting(t *testing.T) (f *fabric, n, peer *node.Node, to lnet.ProcessID, memory []byte) {
	f = newFabric()
	n, peer = newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, n, "10.0.0.1@tcp")
	f.addNI(t, peer, "10.0.0.2@tcp")
	memory = []byte("01234567")
	attach(t, peer, portals.Entry{Portal: 1}, portals.MD{
		Bytes: memory, Threshold: portals.Unlimited,
		Options: portals.OpPut | portals.OpGet | portals.ManageRemote | portals.Truncate,
	})
	return f, n, peer, process(t, "10.0.0.2@tcp"), memory
}

func TestPutWait(t *testing.T) {
	_, n, _, to, memory := waiting(t)
	ctx := context.Background()
	got, err := n.PutWait(ctx, []byte("abc"), to, node.PutOptions{Portal: 1, Offset: 6, Ack: true})
	if got != 2 || err != nil || string(memory) != "012345ab" {
		t.Errorf("acknowledged: %d, %v, %q; want 2 bytes", got, err, memory)
	}
	got, err = n.PutWait(ctx, []byte("x"), to, node.PutOptions{Portal: 1})
	if got != 1 || err != nil || string(memory) != "x12345ab" {
		t.Errorf("without ACK: %d, %v, %q", got, err, memory)
	}
	if _, err := n.PutWait(ctx, nil, process(t, "10.0.0.2@o2ib"), node.PutOptions{Ack: true}); !errors.Is(err, node.ErrUnreachable) {
		t.Errorf("no interface: %v, want ErrUnreachable", err)
	}
	if _, err := n.PutWait(ctx, make([]byte, lnet.MTU+1), to, node.PutOptions{}); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("more than the MTU: %v, want ErrInvalid", err)
	}
}

func TestGetWait(t *testing.T) {
	_, n, peer, to, _ := waiting(t)
	b := make([]byte, 3)
	got, err := n.GetWait(context.Background(), b, to, node.GetOptions{Portal: 1, Offset: 4})
	if got != 3 || err != nil || string(b) != "456" {
		t.Errorf("%d, %v, %q", got, err, b)
	}
	got, err = n.GetWait(context.Background(), b, to, node.GetOptions{Portal: 1, Offset: 7})
	if got != 1 || err != nil || string(b[:1]) != "7" {
		t.Errorf("at the end: %d, %v, %q", got, err, b)
	}
	if err := peer.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.GetWait(context.Background(), b, to, node.GetOptions{}); !errors.Is(err, node.ErrClosed) {
		t.Errorf("closed: %v, want ErrClosed", err)
	}
}

// A wait ends with its context, with the node, and if no answer arrives for longer than
// the transaction timeout. Nothing is left of it then.
func TestWaitsThatEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n, _, to, _ := waiting(t)
		const nobody = 9 // portal
		o := node.GetOptions{Portal: nobody}

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := n.GetWait(ctx, make([]byte, 1), to, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("deadline: %v", err)
		}
		if _, err := n.GetWait(context.Background(), make([]byte, 1), to, o); !errors.Is(err, node.ErrTimedOut) {
			t.Errorf("no answer: %v, want ErrTimedOut", err)
		}
		f.hold(true) // messages are not even sent
		if _, err := n.PutWait(ctx, make([]byte, 1), to, node.PutOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("context over: %v", err)
		}
		f.hold(false)
		synctest.Wait()
		if c := n.Admin().Counters(); c.Trackers != 0 || c.Committed != 0 {
			t.Errorf("left: %d trackers, %d messages", c.Trackers, c.Committed)
		}
		go func() {
			time.Sleep(time.Second)
			_ = n.Close(context.Background()) // checked by newNode
		}()
		if _, err := n.GetWait(context.Background(), make([]byte, 1), to, o); !errors.Is(err, node.ErrClosed) {
			t.Errorf("node closes: %v, want ErrClosed", err)
		}
	})
}

// Given a node that tracks no responses, when no response arrives, then a wait ends
// nevertheless, within one and a quarter transaction timeouts.
//
// lnet-core 6.4 (2)
func TestWaitsEndWithoutTracking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nobody = 9 // portal
		_, n, _, to, _ := waiting(t)
		p := n.Admin().Parameters()
		p.ResponseTracking = node.TrackNone
		if err := n.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		for name, wait := range map[string]func() (int, error){
			"put": func() (int, error) {
				return n.PutWait(ctx, []byte("x"), to, node.PutOptions{Portal: nobody, Ack: true})
			},
			"get": func() (int, error) { return n.GetWait(ctx, make([]byte, 1), to, node.GetOptions{Portal: nobody}) },
		} {
			began := time.Now()
			_, err := wait()
			if d := time.Since(began); !errors.Is(err, node.ErrTimedOut) || d < p.TransactionTimeout || d > p.TransactionTimeout*5/4+2*time.Second {
				t.Errorf("%s: %v after %v, want ErrTimedOut after 150 s to 189 s", name, err, d)
			}
		}
	})
}

// Given a PUT that is acknowledged before the driver has finished, when the driver then
// reports a failure, then PutWait succeeds, because the data has arrived.
//
// lnet-core 3.3 (3)
func TestAcknowledgedThoughTheSendFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.fabric.hold(true)
		p.fabric.fail = func(tx *lnd.Tx) error { return fault(lnd.StatusRemoteTimeout, tx.To.NID, lnd.ErrDisconnected) }
		var got int
		done := outcome(func() (err error) {
			got, err = p.a.PutWait(t.Context(), []byte("abc"), p.idb, node.PutOptions{Portal: 1, Ack: true})
			return err
		})
		synctest.Wait()
		if err := p.pa.inject(p.idb.NID, p.ackOfHead(2), nil); err != nil {
			t.Fatal(err)
		}
		awaits(t, "while the driver has the memory", done)
		p.fabric.hold(false)
		if err := <-done; err != nil || got != 2 {
			t.Errorf("%d, %v; want 2 bytes", got, err)
		}
	})
}
