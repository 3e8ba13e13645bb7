package node_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// static returns default parameters for a node that sends no pings, so that the only
// messages are those of the test.
func static() node.Parameters {
	p := node.DefaultParameters()
	p.Discovery = discovery.Static
	return p
}

// newNode creates a node that is closed at the end of the test. It uses static parameters
// unless c has parameters.
func newNode(t testing.TB, c node.Config) *node.Node {
	t.Helper()
	if c.Parameters == nil {
		c.Parameters = new(static())
	}
	n, err := node.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

func parseNID(t testing.TB, s string) lnet.NID {
	t.Helper()
	nid, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return nid
}

func process(t testing.TB, nid string) lnet.ProcessID {
	t.Helper()
	return lnet.ProcessID{NID: parseNID(t, nid), PID: lnet.PIDLustre}
}

// pair is two nodes on one net.
type pair struct {
	fabric *fabric
	a, b   *node.Node
	pa, pb *port
	ida    lnet.ProcessID
	idb    lnet.ProcessID
}

func newPair(t testing.TB) *pair {
	t.Helper()
	return newPairOf(t, node.Config{}, node.Config{})
}

func newPairOf(t testing.TB, a, b node.Config) *pair {
	t.Helper()
	p := &pair{fabric: newFabric(), a: newNode(t, a), b: newNode(t, b)}
	p.pa = p.fabric.addNI(t, p.a, "10.77.0.11@tcp")
	p.pb = p.fabric.addNI(t, p.b, "10.77.0.12@tcp")
	p.ida, p.idb = process(t, "10.77.0.11@tcp"), process(t, "10.77.0.12@tcp")
	return p
}

// recorder records the events of an MD.
type recorder struct {
	mu     sync.Mutex
	events []portals.Event
}

func (r *recorder) HandleEvent(e *portals.Event) {
	r.mu.Lock()
	r.events = append(r.events, *e)
	r.mu.Unlock()
}

// take returns the events since the last take.
func (r *recorder) take() []portals.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.events
	r.events = nil
	return e
}

// types returns the types of the events since the last take.
func (r *recorder) types() []portals.EventType {
	var ts []portals.EventType
	for _, e := range r.take() {
		ts = append(ts, e.Type)
	}
	return ts
}

func bind(t testing.TB, n *node.Node, d portals.MD) lnet.Handle {
	t.Helper()
	h, err := n.Bind(d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func attach(t testing.TB, n *node.Node, e portals.Entry, d portals.MD) lnet.Handle {
	t.Helper()
	h, err := n.Attach(e, d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func put(t testing.TB, n *node.Node, h lnet.Handle, to lnet.ProcessID, o node.PutOptions) {
	t.Helper()
	if err := n.Put(h, to, o); err != nil {
		t.Fatal(err)
	}
}
