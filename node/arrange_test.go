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
