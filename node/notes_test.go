package node_test

import (
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// noted are the texts of the events that notes records. Others depend on when the node checks a gateway.
var noted = []string{"a new peer is known", "peer removed", "route added", "route removed"}

// notes is a watcher of a log that records the texts and subjects of some events.
type notes struct {
	mu  sync.Mutex // guards got
	got []string
}

func (*notes) Wants(l boundedlog.Line) bool { return slices.Contains(noted, l.Text) }

func (w *notes) Watch(s boundedlog.Seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, s.Text+" "+s.Of.String())
}

// since returns the events since the last call.
func (w *notes) since() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = nil
	return got
}

// TestNotes: given a node, when routes and peers are added and removed, then the watcher of its log gets an event for each,
// except for new peers that the configuration names.
func TestNotes(t *testing.T) {
	w := &notes{}
	b := boundedlog.NewWatched(slog.New(slog.DiscardHandler), w)
	defer b.End()
	n := newNode(t, node.Config{Logger: b.Logger})
	newFabric().addNI(t, n, "10.0.0.1@tcp")
	gateway, peer, net := parseNID(t, "10.0.0.2@tcp"), parseNID(t, "10.0.0.3@tcp"), lnet.MakeNet(lnet.TypeO2IB, 0)
	w.since()
	for _, c := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"add a route", func() error { return n.Admin().AddRoute(t.Context(), net, gateway, node.RouteOptions{}) },
			[]string{"a new peer is known 10.0.0.2@tcp", "route added 10.0.0.2@tcp"}},
		{"delete the route", func() error { return n.Admin().DeleteRoute(t.Context(), net, gateway) },
			[]string{"route removed 10.0.0.2@tcp"}},
		{"delete the gateway", func() error { return n.Admin().DeletePeer(t.Context(), gateway) },
			[]string{"peer removed 10.0.0.2@tcp"}},
		{"configure a peer", func() error {
			return n.Admin().ConfigurePeer(t.Context(), peer, nil, discovery.ConfigureOptions{})
		}, nil},
		{"delete the peer", func() error { return n.Admin().DeletePeer(t.Context(), peer) },
			[]string{"peer removed 10.0.0.3@tcp"}},
	} {
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, w.since()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}
