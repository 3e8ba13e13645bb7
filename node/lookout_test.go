package node_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// window is an interface that can be polled (lnd.Poller). A caller that polls delivers
// the frames that the fabric holds.
type window struct {
	*port
	blind atomic.Bool // polling finds nothing

	mu     sync.Mutex
	looked []lnet.NID
}

func (w *window) Poll(peer lnet.NID, wait *lnd.Wait) {
	w.mu.Lock()
	w.looked = append(w.looked, peer)
	w.mu.Unlock()
	for more := !w.blind.Load(); more && !wait.Over(); {
		more = w.fabric.step()
	}
}

// at returns the next hops for which the interface was polled since the last call.
func (w *window) at() []lnet.NID {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.looked
	w.looked = nil
	return all
}

// windows is the driver of such an interface.
type windows struct {
	driver
	opened *window
}

func (d *windows) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.driver.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	d.opened = &window{port: i.(*port)}
	return d.opened, nil
}

// addWindow adds such an NI on the fabric to a node. The fabric holds all messages.
func (f *fabric) addWindow(t *testing.T, n *node.Node, nid string) *window {
	t.Helper()
	d := &windows{driver: driver{fabric: f, typ: lnet.TypeTCP}}
	if _, err := n.AddNI(t.Context(), d, lnd.Config{NID: parseNID(t, nid)}); err != nil {
		t.Fatal(err)
	}
	f.hold(true)
	t.Cleanup(func() { f.hold(false) })
	return d.opened
}

// Callers that wait poll for their answers on the path of the request. In this test
// nothing else delivers them.
func TestCallersLookThemselves(t *testing.T) {
	f := newFabric()
	n, peer := newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, peer, "10.0.0.2@tcp")
	attach(t, peer, portals.Entry{Portal: 1}, portals.MD{
		Bytes: []byte("01234567"), Threshold: portals.Unlimited,
		Options: portals.OpPut | portals.OpGet | portals.ManageRemote | portals.Truncate,
	})
	w := f.addWindow(t, n, "10.0.0.1@tcp")
	to := process(t, "10.0.0.2@tcp")
	b := []byte("abc")
	q := node.NewEventQueue(node.EventsOf(portals.EventAck))
	h := bind(t, n, portals.MD{Bytes: b, Threshold: portals.Unlimited, Handler: q})
	for name, wait := range map[string]func() error{
		"PutWait": func() error {
			_, err := n.PutWait(t.Context(), b, to, node.PutOptions{Portal: 1, Ack: true})
			return err
		},
		"GetWait": func() error {
			_, err := n.GetWait(t.Context(), b, to, node.GetOptions{Portal: 1})
			return err
		},
		"Next": func() error {
			if err := n.Put(h, to, node.PutOptions{Portal: 1, Ack: true}); err != nil {
				return err
			}
			var e portals.Event
			err := q.Next(t.Context(), &e)
			return errors.Join(err, e.Err)
		},
	} {
		if err := wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if at := w.at(); !slices.Equal(at, []lnet.NID{to.NID}) {
			t.Errorf("%s looked at %v, want %s once", name, at, to.NID)
		}
	}
}

// A caller that polls without success waits as usual, until its context ends or the
// answer is delivered otherwise.
func TestCallersLookInVain(t *testing.T) {
	f := newFabric()
	n, peer := newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, peer, "10.0.0.2@tcp")
	attach(t, peer, portals.Entry{Portal: 1}, portals.MD{
		Bytes: []byte("01234567"), Threshold: portals.Unlimited, Options: portals.OpGet | portals.ManageRemote,
	})
	w := f.addWindow(t, n, "10.0.0.1@tcp")
	w.blind.Store(true)
	to := process(t, "10.0.0.2@tcp")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := n.GetWait(ctx, make([]byte, 8), to, node.GetOptions{Portal: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	f.hold(false)
	b := make([]byte, 8)
	if _, err := n.GetWait(t.Context(), b, to, node.GetOptions{Portal: 1}); err != nil || string(b) != "01234567" {
		t.Errorf("%q came: %v", b, err)
	}
}

// A caller that polls without success polls once, whatever earlier polls have found. It
// polls only for answers that are still expected, not for those of older requests.
func TestCallersLookOnce(t *testing.T) {
	f := newFabric()
	n, peer := newNode(t, node.Config{}), newNode(t, node.Config{})
	f.addNI(t, peer, "10.0.0.2@tcp")
	attach(t, peer, portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 8), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote,
	})
	w := f.addWindow(t, n, "10.0.0.1@tcp")
	to := process(t, "10.0.0.2@tcp")
	q := node.NewEventQueue(node.EventsOf(portals.EventAck))
	h := bind(t, n, portals.MD{Bytes: make([]byte, 8), Threshold: portals.Unlimited, Handler: q})
	var e portals.Event
	if err := errors.Join(n.Put(h, to, node.PutOptions{Portal: 1, Ack: true}), q.Next(t.Context(), &e)); err != nil {
		t.Fatal(err)
	}
	inVain := func(want int) {
		t.Helper()
		w.at()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := q.Next(ctx, &e); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the context", err)
		}
		if at := w.at(); len(at) != want {
			t.Errorf("looked %d times, want %d", len(at), want)
		}
	}
	inVain(1)
	if err := n.Put(h, to, node.PutOptions{Portal: 1}); err != nil {
		t.Fatal(err)
	}
	f.hold(false)
	inVain(0)
}

// The answer to a request through a router is expected from the router.
func TestCallersLookAtTheRouter(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	w := f.addWindow(t, n, "10.0.0.1@tcp")
	w.blind.Store(true)
	gateway := parseNID(t, "10.0.0.9@tcp")
	if err := n.Admin().AddRoute(t.Context(), parseNet(t, "o2ib"), gateway, node.RouteOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := n.GetWait(ctx, make([]byte, 8), process(t, "10.0.0.2@o2ib"), node.GetOptions{Portal: 1})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	if at := w.at(); !slices.Equal(at, []lnet.NID{gateway}) {
		t.Errorf("looked at %v, want %s", at, gateway)
	}
}
