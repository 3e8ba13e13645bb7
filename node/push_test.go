package node_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// pushHeader returns the header of a push from a NID to an NI, without an ACK.
func pushHeader(from, to lnet.NID, payload []byte) lnet.Header {
	return lnet.Header{
		Dest: to, Src: from, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Type: lnet.MsgPut, Handle: lnet.NoHandle, MatchBits: lnet.PingMatchBits, PayloadLength: uint32(len(payload)),
	}
}

// infoWith returns ping info with these NIs, which claims metadata for that number of
// NIDs.
func infoWith(seq uint32, metadata int, nids ...lnet.NID) []byte {
	info := lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatMultiRail | lnet.FeatRoutingDisabled | lnet.FeatDiscovery,
		PID:      lnet.PIDLustre, Seq: seq,
	}
	for _, nid := range nids {
		info.NIs = append(info.NIs, lnet.PingNI{NID: nid, Status: lnet.StatusUp})
	}
	for k := range uint32(metadata) {
		info.Metadata = append(info.Metadata, lnet.PingMetadata{NID: lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeEFA, 0), k+1)})
	}
	return info.Append(nil, binary.LittleEndian)
}

// nidsOf lists the NIDs of a peer.
func nidsOf(p node.PeerInfo) []lnet.NID {
	var nids []lnet.NID
	for _, i := range p.NIs {
		nids = append(nids, i.NID)
	}
	return nids
}

// knows checks that n has an up-to-date peer with all these NIDs, the primary one first,
// and with this sequence number.
func knows(t testing.TB, step string, n *node.Node, seq uint32, nids ...lnet.NID) {
	t.Helper()
	p, ok := n.Peer(nids[0])
	if !ok {
		t.Errorf("%s: %s is not known", step, nids[0])
		return
	}
	const done = discovery.MultiRail | discovery.Discovered | discovery.NIDsUpToDate
	if p.Primary != nids[0] || p.Seq != seq || p.State != done {
		t.Errorf("%s: peer %s at %d, state %s; want %s at %d, %s", step, p.Primary, p.Seq, p.State, nids[0], seq, done)
	}
	if d := cmp.Diff(nids, nidsOf(p), sameNID); d != "" {
		t.Errorf("%s: NIDs (-want +got):\n%s", step, d)
	}
}

// acked lists how many bytes of each push the other node has stored, according to the
// ACKs.
func acked(seen []wire) []uint32 {
	var lengths []uint32
	for _, w := range seen {
		if w.typ == lnet.MsgAck {
			lengths = append(lengths, w.length)
		}
	}
	return lengths
}

// Given a node with more NIs than the first push buffer can hold, when a ping has shown
// that, then the buffer is large enough for its push.
//
// discovery 4.6 room, 6.2
func TestRoomForPushesFollowsPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		seen := watch(f)
		a, b, all := newManyNIs(t, f, 20)
		discover(t, a, all[0])                  // pings twice, because the first answer is truncated
		want := []uint32{16 + 2*16, 16 + 21*16} // of b, of a
		if d := cmp.Diff(want, acked(*seen)); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]uint32{272, 16 + 21*16}, sinks(*seen)); d != "" {
			t.Errorf("sink lengths (-want +got):\n%s", d)
		}
		knows(t, "a", a, 21, all...)
		knows(t, "b", b, 2, parseNID(t, "10.0.0.1@tcp"))
	})
}

// Given the same node, when it pushes unsolicited, then the part that fits is stored and
// acknowledged, it is pinged for the rest, and its next push fits.
//
// discovery 4.6 room, 6.7 acknowledged
// lnet-wire 7.8 (3)
func TestRoomForPushesFollowsPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b, all := newManyNIs(t, f, 20)
		seen := watch(f)
		ida := parseNID(t, "10.0.0.1@tcp")
		discover(t, b, ida)
		if got := acked(*seen); len(got) == 0 || got[0] != 272 {
			t.Errorf("stored: %v, want 272 bytes first", got)
		}
		if d := cmp.Diff([]uint32{272, 16 + 21*16}, sinks(*seen)); d != "" { // b's, and a's
			t.Errorf("sink lengths (-want +got):\n%s", d)
		}
		knows(t, "first push", a, 21, all...)

		*seen = nil
		if err := b.RemoveNI(t.Context(), all[19]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := cmp.Diff([]uint32{16 + 20*16}, acked(*seen)); d != "" {
			t.Errorf("stored of the second push (-want +got):\n%s", d)
		}
		if s := sinks(*seen); s != nil {
			t.Errorf("asked for %v, though the push had all", s)
		}
		knows(t, "second push", a, 22, all[:19]...)
	})
}

// newManyNIs creates a node with one NI and one with many. Both perform discovery.
func newManyNIs(t testing.TB, f *fabric, count int) (one, many *node.Node, all []lnet.NID) {
	t.Helper()
	one = newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
	f.addNI(t, one, "10.0.0.1@tcp")
	many = newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
	for k := range count {
		nid := fmt.Sprintf("10.0.1.%d@tcp", k+1)
		f.addNI(t, many, nid)
		all = append(all, parseNID(t, nid))
	}
	return one, many, all
}

// Given a known peer, when it pushes data that is not ping info, then each push is
// acknowledged, the peer is pinged, and its state is unchanged.
//
// discovery 6.7 acknowledged
// lnet-wire 7.8 (3)
func TestPushesThatAreNotPingInfos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
		b := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
		f.addNI(t, a, "10.77.0.11@tcp")
		f.addNI(t, b, "10.77.0.12@tcp")
		ida, idb := parseNID(t, "10.77.0.11@tcp"), parseNID(t, "10.77.0.12@tcp")
		discover(t, a, idb)
		knows(t, "before", b, 2, ida)
		seen := watch(f)
		garbage := []byte("no ping info at all")
		lies := infoWith(2, 0, ida, ida, ida)
		for name, b := range map[string][]byte{"garbage": garbage, "nothing": nil, "cut off": lies[:len(lies)-1]} {
			*seen = nil
			h := bind(t, a, portals.MD{Bytes: b, Threshold: portals.Unlimited})
			put(t, a, h, lnet.ProcessID{NID: idb, PID: lnet.PIDLustre}, node.PutOptions{MatchBits: lnet.PingMatchBits, Ack: true})
			synctest.Wait()
			if d := cmp.Diff([]uint32{uint32(len(b))}, acked(*seen)); d != "" {
				t.Errorf("%s: stored (-want +got):\n%s", name, d)
			}
			if d := cmp.Diff([]uint32{272}, sinks(*seen)); d != "" {
				t.Errorf("%s: sink lengths (-want +got):\n%s", name, d)
			}
		}
		knows(t, "afterwards", b, 2, ida)
		if p := b.Peers(); len(p) != 1 || b.Admin().Counters().Committed != 0 {
			t.Errorf("%d peers, %d messages under way; want 1, 0", len(p), b.Admin().Counters().Committed)
		}
	})
}

// pusher returns the NID of the k-th of many nodes that push.
func pusher(k int) lnet.NID {
	return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0b000000+uint32(k))
}

// Pushes that arrive while no memory is attached for them wait, and all arrive.
//
// lnet-core 4.6 (5), 12.4
// discovery 4.6
func TestManyPushesAtOnce(t *testing.T) {
	const nodes = 200
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		var all sync.WaitGroup
		for k := range nodes {
			all.Go(func() {
				payload := infoWith(7, 0, pusher(k))
				if err := p.pb.inject(pusher(k), pushHeader(pusher(k), p.idb.NID, payload), payload); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		heard(t, p.b, nodes, 7)
		if g := p.b.Admin().Counters(); g.Received != nodes || g.Committed != 0 {
			t.Errorf("counters %+v", g)
		}
	})
}

// heard checks that a node has received the pushes of all pushers with this sequence
// number, and knows each by the one NID from which it pushed.
func heard(t testing.TB, n *node.Node, nodes int, seq uint32) {
	t.Helper()
	peers := map[lnet.NID]node.PeerInfo{}
	for _, p := range n.Peers() {
		peers[p.Primary] = p
	}
	if len(peers) != nodes {
		t.Errorf("%d peers, want %d", len(peers), nodes)
	}
	for k := range nodes {
		if p := peers[pusher(k)]; p.Seq != seq || len(p.NIs) != 1 || p.NIs[0].NID != pusher(k) || p.MultiRail {
			t.Errorf("peer %s: %+v, want it at %d with one NID", pusher(k), p, seq)
		}
	}
}

// pushesUnread is the number of pushes that may wait to be processed.
const pushesUnread = 64

// Given pushes of maximum size from many nodes, when discovery is slow, then only a few
// of them use memory here. The others wait at their senders, and all are processed in the
// end. A node without discovery keeps nothing of their content.
//
// discovery 4.6
func TestPushesAreKeptWithinBounds(t *testing.T) {
	const nodes, nis, metadata = 2 * pushesUnread, 4000, 4000
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		var all []lnet.NID
		for k := range nis {
			all = append(all, lnet.NIDFromNumber(p.ida.NID.Net(), 0x0a000001+uint32(k)))
		}
		for seq := range uint32(2) { // the second time there is room for each
			release := p.b.HoldDiscovery()
			before := p.b.Admin().Counters().Received
			for k := range nodes {
				all[0] = pusher(k)
				payload := infoWith(2+seq, metadata, all...)
				if err := p.pb.inject(pusher(k), pushHeader(pusher(k), p.idb.NID, payload), payload); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if c := p.b.Admin().Counters(); c.Received-before != pushesUnread+1 || c.Committed != nodes-pushesUnread-1 {
				t.Errorf("%d pushes taken, %d wait; want %d, %d",
					c.Received-before, c.Committed, pushesUnread+1, nodes-pushesUnread-1)
			}
			release()
			synctest.Wait()
			if c := p.b.Admin().Counters(); c.Received-before != nodes || c.Committed != 0 {
				t.Errorf("in the end %d pushes taken, %d messages under way; want %d, 0", c.Received-before, c.Committed, nodes)
			}
		}
		heard(t, p.b, nodes, 3)
	})
}

// Given a node with static discovery, when it receives pushes that it cannot store or
// read, then it pings no node, because it does not use the content.
func TestStaticNodePingsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		seen := watch(p.fabric)
		many := make([]lnet.NID, 100)
		for k := range many {
			many[k] = lnet.NIDFromNumber(p.ida.NID.Net(), 0x0a000001+uint32(k))
		}
		many[0] = p.ida.NID
		for name, b := range map[string][]byte{"garbage": []byte("no ping info"), "too long": infoWith(2, 0, many...)} {
			h := bind(t, p.a, portals.MD{Bytes: b, Threshold: 2, Unlink: true})
			put(t, p.a, h, p.idb, node.PutOptions{MatchBits: lnet.PingMatchBits, Ack: true})
			synctest.Wait()
			if s := sinks(*seen); s != nil {
				t.Errorf("%s: %d pings", name, len(s))
			}
			*seen = nil
		}
	})
}
