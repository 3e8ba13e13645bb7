package node_test

import (
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// answersKept is the number of answers that may wait for one neighbour.
const answersKept = 16384

// Given a peer that sends requests continuously and reads no answers, when as many
// answers wait as one neighbour may have, then further requests are dropped, other peers
// are answered as before, and the peer is served again as soon as it reads.
func TestPeerThatDoesNotReadAnswers(t *testing.T) {
	const requests = 3 * answersKept
	f := newFabric()
	n := newNode(t, node.Config{})
	p := f.addNIWith(t, n, lnd.Config{
		NID: parseNID(t, "10.0.0.1@tcp"), Tunables: lnd.Tunables{PeerCredits: 8, Credits: 256}})
	greedy, other := process(t, "10.0.0.2@tcp"), process(t, "10.0.0.3@tcp")
	for _, id := range []lnet.ProcessID{greedy, other} {
		f.addNI(t, newNode(t, node.Config{}), id.NID.String())
	}
	sink(t, n, portals.OpPut|portals.OpGet)
	ask := func(from lnet.ProcessID, typ lnet.MsgType) {
		t.Helper()
		err := p.inject(from.NID, lnet.Header{
			Dest: p.nid, Src: from.NID, DestPID: lnet.PIDLustre, SrcPID: from.PID,
			Type: typ, Handle: lnet.Handle{Interface: 1, Object: 1}, Portal: 1,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	f.hold(true)
	for k := range requests {
		ask(greedy, lnet.MsgPut+lnet.MsgType(k%2))
	}
	const kept = answersKept + 8 // those with credits are held by the driver
	if c := n.Admin().Counters(); c.Committed != kept || c.Dropped != requests-kept {
		t.Errorf("%d messages under way, %d dropped; want %d, %d", c.Committed, c.Dropped, kept, requests-kept)
	}
	before := f.pending()
	ask(other, lnet.MsgGet)
	if got := f.pending(); got != before+1 {
		t.Errorf("%d answers to the other peer, want 1", got-before)
	}

	f.hold(false)
	dropped := n.Admin().Counters().Dropped
	ask(greedy, lnet.MsgGet)
	if c := n.Admin().Counters(); c.Committed != 0 || c.Dropped != dropped {
		t.Errorf("when it reads again: %d under way, %d dropped", c.Committed, c.Dropped-dropped)
	}
}

// Requests are not dropped because many messages of this node itself are waiting.
func TestOwnMessagesWaitWithoutHarm(t *testing.T) {
	c := newCredited(t, 1, 1, "10.0.0.2@tcp")
	h := bind(t, c.n, portals.MD{Threshold: portals.Unlimited})
	for range answersKept + 2 {
		put(t, c.n, h, process(t, "10.0.0.2@tcp"), node.PutOptions{Portal: 1})
	}
	sink(t, c.n, portals.OpGet)
	err := c.ports[parseNID(t, "10.0.0.1@tcp")].inject(parseNID(t, "10.0.0.2@tcp"), lnet.Header{
		Dest: parseNID(t, "10.0.0.1@tcp"), Src: parseNID(t, "10.0.0.2@tcp"), Type: lnet.MsgGet, Portal: 1,
	}, nil)
	if got := c.n.Admin().Counters(); err != nil || got.Dropped != 0 {
		t.Errorf("%v, %d dropped", err, got.Dropped)
	}
	c.hold(false)
}

// Given a neighbour that forges the sources in its headers, when it is answered, then the
// answers go over its own connection. No other node is contacted, and the table of peers
// does not grow.
func TestForgedSourcesAreAnsweredWhereTheyCameFrom(t *testing.T) {
	p := newPair(t)
	sink(t, p.b, portals.OpPut|portals.OpGet)
	var answered []lnet.NID
	p.fabric.fail = func(tx *lnd.Tx) error {
		answered = append(answered, tx.To.NID)
		return nil
	}
	const sources = 1000
	for k := range uint32(sources) {
		err := p.pb.inject(p.ida.NID, lnet.Header{
			Dest: p.idb.NID, Src: lnet.NIDFromNumber(p.idb.NID.Net(), 0x0a000000+k),
			Type: lnet.MsgPut + lnet.MsgType(k%2), Handle: lnet.Handle{Interface: 1, Object: 1}, Portal: 1,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(answered) != sources {
		t.Fatalf("%d answers, want %d", len(answered), sources)
	}
	for _, to := range answered {
		if to != p.ida.NID {
			t.Fatalf("answer to %s, want all to %s", to, p.ida.NID)
		}
	}
	if peers := p.b.Peers(); len(peers) != 1 {
		t.Errorf("%d peers, want 1", len(peers))
	}
}
