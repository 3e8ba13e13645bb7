package node_test

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given NIs on three nets, when they are put in another order, then those of a net stay
// together, NIs that are not listed come last, and the ping info begins with the first NI
// under a new sequence number. Setting the same order again changes nothing.
func TestArrangeNIs(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	for _, s := range []string{"10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.1.1@tcp1", "10.0.2.1@tcp2"} {
		f.addNI(t, n, s)
	}
	nids := func(list ...string) (out []lnet.NID) {
		for _, s := range list {
			out = append(out, parseNID(t, s))
		}
		return out
	}
	want := nids("10.0.2.1@tcp2", "10.0.0.2@tcp", "10.0.0.1@tcp", "10.0.1.1@tcp1")
	before := n.PingInfo().Seq
	for range 2 {
		err := n.Admin().ArrangeNIs(t.Context(), nids("10.9.9.9@tcp", "10.0.2.1@tcp2", "10.0.0.2@tcp"))
		if err != nil {
			t.Fatal(err)
		}
		var shown, told []lnet.NID
		for _, i := range n.NIs()[1:] {
			shown = append(shown, i.NID)
		}
		info := n.PingInfo()
		for _, i := range info.NIs {
			if !i.NID.IsLoopback() {
				told = append(told, i.NID)
			}
		}
		if !slices.Equal(shown, want) || !slices.Equal(told, want) || info.Seq != before+1 {
			t.Errorf("shown %v, told %v, number %d after %d", shown, told, info.Seq, before)
		}
	}
}

// Given a node, then its NID is that of the first NI other than 0@lo, also after NIs were
// removed or put in another order, and 0@lo if there is no other.
func TestNID(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	want := func(s string) {
		t.Helper()
		if got := n.NID(); got != parseNID(t, s) {
			t.Errorf("NID %s, want %s", got, s)
		}
	}
	want("0@lo")
	first, second := "10.0.0.1@tcp", "10.0.1.1@tcp1"
	f.addNI(t, n, first)
	want(first)
	f.addNI(t, n, second)
	want(first)
	if err := n.Admin().ArrangeNIs(t.Context(), []lnet.NID{parseNID(t, second)}); err != nil {
		t.Fatal(err)
	}
	want(second)
	if self, err := n.Discover(t.Context(), lnet.LoopbackNID); err != nil || self.Primary != n.NID() {
		t.Errorf("primary NID %s of itself: %v; want %s", self.Primary, err, n.NID())
	}
	for _, s := range []string{second, first} {
		want(s)
		if err := n.RemoveNI(t.Context(), parseNID(t, s)); err != nil {
			t.Fatal(err)
		}
	}
	want("0@lo")
}
