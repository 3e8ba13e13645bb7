package node_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given many peers, one of which is invalid, when they are configured or deleted at once, then this is
// done with all peers before that one. The deletion skips peers that do not exist.
func TestManyPeersAtOnce(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	f.addNI(t, n, "10.0.0.1@tcp")
	var list []node.NewPeer
	var primaries []lnet.NID
	for k := range 300 {
		p := node.NewPeer{
			Primary: parseNID(t, fmt.Sprintf("10.0.%d.%d@tcp", 1+k/200, 1+k%200)),
			Others:  []lnet.NID{parseNID(t, fmt.Sprintf("10.1.%d.%d@tcp", 1+k/200, 1+k%200))},
		}
		list, primaries = append(list, p), append(primaries, p.Primary)
	}
	peers := func(want int) {
		t.Helper()
		if got := len(n.Peers()); got != want {
			t.Errorf("%d peers, want %d", got, want)
		}
	}
	bad := list[200]
	list[200].Others = list[0].Others
	if done, err := n.Admin().ConfigurePeers(t.Context(), list); done != 200 || !errors.Is(err, discovery.ErrExists) {
		t.Errorf("%d configured, %v", done, err)
	}
	peers(200)
	list[200] = bad
	if done, err := n.Admin().ConfigurePeers(t.Context(), list[200:299]); done != 99 || err != nil {
		t.Errorf("%d configured, %v", done, err)
	}
	peers(299)
	if done, err := n.Admin().ForceDeletePeers(t.Context(), primaries[199:]); done != 101 || err != nil {
		t.Errorf("%d deleted, %v", done, err)
	}
	peers(199)
	if err := n.Admin().AddRoute(t.Context(), lnet.MakeNet(lnet.TypeO2IB, 1), primaries[50], node.RouteOptions{}); err != nil {
		t.Fatal(err)
	}
	if done, err := n.Admin().ForceDeletePeers(t.Context(), primaries); done != 50 || !errors.Is(err, discovery.ErrBusy) {
		t.Errorf("%d deleted, %v", done, err)
	}
	peers(149)
}

// Given a limit for peer NIs that are not configured, when many more are configured at once, then these
// do not count against it, not even for a moment: unknown nodes may still connect.
func TestManyPeersLeaveRoomForStrangers(t *testing.T) {
	f := newFabric()
	p := node.DefaultParameters()
	p.PeerNIsMax = 100
	n := newNode(t, node.Config{Parameters: &p})
	f.addNI(t, n, "10.0.0.1@tcp")
	for batch := range 20 {
		var list []node.NewPeer
		for k := range 200 {
			list = append(list, node.NewPeer{Primary: parseNID(t, fmt.Sprintf("10.1.%d.%d@tcp", batch, 1+k))})
		}
		if _, err := n.Admin().ConfigurePeers(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if i := n.Admin().PeerNIs(); i.Count-i.Named > i.Max {
			t.Errorf("%d of %d peer NIs count against the limit of %d", i.Count-i.Named, i.Count, i.Max)
		}
	}
}
