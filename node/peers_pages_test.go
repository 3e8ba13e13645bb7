package node_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given many peers, when peers are added and removed while they are listed, then those
// that remain are listed once each, by age, and no peer is listed twice.
func TestPeersComeAndGoWhileListed(t *testing.T) {
	n := newNode(t, node.Config{})
	nid := func(k int) lnet.NID { return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a010000+uint32(k)) }
	const peers = 1800 // more than are requested at once
	for k := range peers {
		configure(t, n, nid(k))
	}
	gone := func(k int) bool { return k%3 == 0 }
	next := peers
	var listed []int
	for p, err := range n.Admin().PeersAfter(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		k := int(p.Primary.Number() & 0xffff)
		if len(listed) > 0 && k <= listed[len(listed)-1] {
			t.Fatalf("peer %d after %d", k, listed[len(listed)-1])
		}
		listed = append(listed, k)
		if len(p.NIs) != 1 {
			t.Fatalf("peer %d is shown with %d NIDs", k, len(p.NIs))
		}
		if k%100 != 0 {
			continue
		}
		// Remove this peer, one that was listed, one that is about to be, and one that was not
		// requested yet, and add one.
		for _, victim := range []int{k, k - 51, k + 50, k + 53, k + 600} {
			if victim >= 0 && victim < peers && gone(victim) {
				if _, ok := n.Peer(nid(victim)); ok {
					if err := n.Admin().DeletePeer(t.Context(), nid(victim)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if next < 2*peers {
			configure(t, n, nid(next))
			next++
		}
	}
	seen := map[int]bool{}
	for _, k := range listed {
		seen[k] = true
	}
	for k := range peers {
		if !seen[k] && !gone(k) {
			t.Errorf("peer %d is missing", k)
		}
	}
}

// A list that is read in parts continues where it ended, even after a peer that was
// removed.
func TestPeersGoOn(t *testing.T) {
	n := newNode(t, node.Config{})
	var all []lnet.NID
	for k := range 5 {
		all = append(all, lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a010001+uint32(k)))
		configure(t, n, all[k])
	}
	infos := n.Peers()
	if err := n.Admin().DeletePeer(t.Context(), all[2]); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[int][]lnet.NID{1: all[3:], 2: all[3:], 3: all[4:], 4: nil} {
		var got []lnet.NID
		for p, err := range n.Admin().PeersAfter(t.Context(), infos[from].ID) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p.Primary)
		}
		if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("after %s: %v, want %v", infos[from].Primary, got, want)
		}
	}
}

// A list that cannot be continued ends with an error.
func TestPeersOfAClosedNode(t *testing.T) {
	n := newNode(t, node.Config{})
	configure(t, n, lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a010001))
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := 0
	for p, err := range n.Admin().PeersAfter(t.Context(), 0) {
		if !errors.Is(err, node.ErrClosed) {
			t.Errorf("peer %v, error %v", p.Primary, err)
		}
		ended++
	}
	if ended != 1 {
		t.Errorf("%d answers, want one error", ended)
	}
	if p := n.Peers(); len(p) != 0 {
		t.Errorf("peers %v", p)
	}
}

// The peers that have some NIDs are listed in the order of the NIDs, each of them once.
func TestPeersOfNIDs(t *testing.T) {
	n := newNode(t, node.Config{})
	const peers = 150 // more than are requested at once
	nid := func(k int) lnet.NID { return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a010000+uint32(k)) }
	for k := range peers {
		if err := n.Admin().ConfigurePeer(t.Context(), nid(k), []lnet.NID{nid(1000 + k)}, discovery.ConfigureOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var nids, want []lnet.NID
	for k := peers - 1; k >= 0; k-- {
		nids = append(nids, nid(1000+k), nid(5000+k), nid(k), lnet.NID{})
		want = append(want, nid(k))
	}
	var got []lnet.NID
	for p, err := range n.Admin().PeersOf(t.Context(), nids) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.Primary)
	}
	if !slices.Equal(want, got) {
		t.Errorf("%d peers %v", len(got), got)
	}
}
