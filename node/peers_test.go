package node_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// configure configures a multi-rail peer.
func configure(t testing.TB, n *node.Node, primary lnet.NID, others ...lnet.NID) {
	t.Helper()
	if err := n.Admin().ConfigurePeer(context.Background(), primary, others, discovery.ConfigureOptions{}); err != nil {
		t.Fatal(err)
	}
}

// peerNIs lists the NIs of all peers of a node, oldest peer first.
func peerNIs(n *node.Node) []node.PeerNIInfo {
	var all []node.PeerNIInfo
	for _, p := range n.Peers() {
		all = append(all, p.NIs...)
	}
	return all
}

// Given a peer with two NIDs, when it sends from the second one, then the event and the
// entry contain the first one, and the answer goes to the second one.
//
// lnet-core 4.1, 4.2 (5), 5.2 (8), 5.3 (4)
func TestInitiatorIsThePrimaryNID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 1)
		var headers []lnet.Header
		r.sent = func(h lnet.Header, _ []byte) { headers = append(headers, h) }
		for _, c := range []struct {
			portal uint32
			match  lnet.NID
			taken  bool
		}{
			{10, r.na[0], true},
			{11, r.na[1], true}, // another NID of the same peer
			{12, lnet.AnyNID, true},
			{13, r.nb[0], false},
		} {
			var at, from recorder
			attach(t, r.b, portals.Entry{Portal: c.portal, Match: lnet.ProcessID{NID: c.match, PID: lnet.PIDLustre}}, portals.MD{
				Bytes: make([]byte, 4), Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &at})
			h := bind(t, r.a, portals.MD{Bytes: make([]byte, 1), Threshold: 2, Handler: &from})
			headers = nil
			put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre},
				node.PutOptions{Portal: c.portal, Source: r.na[1], Ack: true})
			e := at.take()
			if !c.taken {
				if e != nil {
					t.Errorf("portal %d: taken: %+v", c.portal, e)
				}
				continue
			}
			if len(e) != 1 || e[0].Initiator.NID != r.na[0] || e[0].Source.NID != r.na[1] || e[0].Sender != r.na[1] {
				t.Errorf("portal %d: events %+v, want one by %s from %s", c.portal, e, r.na[0], r.na[1])
			}
			if len(headers) != 2 || headers[1].Type != lnet.MsgAck || headers[1].Dest != r.na[1] {
				t.Errorf("portal %d: headers %+v, want the ACK to %s", c.portal, headers, r.na[1])
			}
		}
	})
}

// SEND contains the NID of the call, whatever NID the message was sent to.
//
// lnet-core 3.2 notes (2), 6.3 (1)-(2)
func TestSendNamesTheTargetAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 2)
		elsewhere := 0
		for range 4 {
			if e := r.put(t, node.PutOptions{}); e.Target.NID != r.nb[0] {
				t.Errorf("target %s, want %s", e.Target, r.nb[0])
			}
			for _, d := range r.took() {
				if d.to != r.nb[0] {
					elsewhere++
				}
			}
		}
		if elsewhere == 0 {
			t.Error("all messages went to the NID asked for")
		}
	})
}

// Given a peer NI on a net without a local NI, then it has no credits. It has those of
// the net while there is a local NI.
//
// lnet-core 7.1 remote, 12.5
func TestCreditsOfAPeerOnAnotherNet(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	f.addNI(t, n, "10.0.0.1@tcp")
	near, far := parseNID(t, "10.0.0.9@tcp"), parseNID(t, "10.9.0.9@tcp9")
	configure(t, n, near, far)
	check := func(step string, want int) {
		t.Helper()
		for _, p := range peerNIs(n) {
			if p.NID == far && (p.Credits.Max != want || p.Credits.Available != want) {
				t.Errorf("%s: %+v, want %d", step, p.Credits, want)
			}
		}
	}
	check("no NI on its net", 0)
	f.addNIWith(t, n, lnd.Config{NID: parseNID(t, "10.9.0.1@tcp9"), Tunables: lnd.Tunables{PeerCredits: 5, Credits: 7}})
	check("one", 5)
	f.addNI(t, n, "10.9.0.2@tcp9")
	check("two", 5)
	for k, nid := range []string{"10.9.0.1@tcp9", "10.9.0.2@tcp9"} {
		if err := n.RemoveNI(t.Context(), parseNID(t, nid)); err != nil {
			t.Fatal(err)
		}
		check("NIs removed", []int{5, 0}[k])
	}
	f.addNIWith(t, n, lnd.Config{NID: parseNID(t, "10.9.0.1@tcp9"), Tunables: lnd.Tunables{PeerCredits: 3, Credits: 7}})
	check("one again, with fewer", 3)
}

// Given an entry for any of a peer's NIDs, even the last of many, when the peer sends
// from another one, then the entry matches.
//
// lnet-core 4.1, 4.2 (5)
func TestEntryForAnyNIDOfAPeer(t *testing.T) {
	const nids = 24
	p := newPair(t)
	all := []lnet.NID{p.ida.NID}
	for k := range uint32(nids - 1) {
		all = append(all, lnet.NIDFromNumber(p.ida.NID.Net(), 0x0a000001+k))
	}
	configure(t, p.b, all[0], all[1:]...)
	for k, nid := range all {
		var r recorder
		h := attach(t, p.b, portals.Entry{Portal: 1, Match: lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}}, portals.MD{
			Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &r})
		put(t, p.a, bind(t, p.a, portals.MD{Threshold: 1}), p.idb, node.PutOptions{Portal: 1})
		if e := r.take(); len(e) != 1 {
			t.Errorf("entry for NID %d of %d: %d events, want 1", k, nids, len(e))
		}
		if err := p.b.Unlink(h); err != nil {
			t.Fatal(err)
		}
	}
}

// Given a peer that is removed while it is looked up, then it is not found, rather than
// found without NIDs.
func TestAPeerThatGoesIsNotShown(t *testing.T) {
	n := newNode(t, node.Config{})
	nid := parseNID(t, "10.0.0.2@tcp")
	configure(t, n, nid)
	v := n.View(nid)
	if p, ok := n.Describe(v); !ok || len(p.NIs) != 1 {
		t.Fatalf("%+v, %v", p, ok)
	}
	if err := n.Admin().DeletePeer(t.Context(), nid); err != nil {
		t.Fatal(err)
	}
	if p, ok := n.Describe(v); ok {
		t.Errorf("%+v", p)
	}
}

// Given an entry for a NID that is not yet known to belong to a peer, when the peer is
// discovered, then messages from its other NIDs match the entry.
//
// lnet-core 4.1, 4.2 (5)
func TestEntryIsOlderThanWhatIsKnownOfThePeer(t *testing.T) {
	p := newPair(t)
	other := parseNID(t, "10.77.9.9@tcp9")
	var r recorder
	attach(t, p.b, portals.Entry{Portal: 1, Match: lnet.ProcessID{NID: other, PID: lnet.PIDLustre}}, portals.MD{
		Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &r})
	send := func(want int) {
		t.Helper()
		put(t, p.a, bind(t, p.a, portals.MD{Threshold: 1}), p.idb, node.PutOptions{Portal: 1})
		if e := r.take(); len(e) != want {
			t.Errorf("%d events, want %d", len(e), want)
		}
	}
	send(0)
	configure(t, p.b, p.ida.NID, other)
	send(1)
}

// Given a node that has discovered itself, when a library adds a peer with a NID on an
// unknown net and with the node's NID, then both are one peer with the first one as its
// primary NID.
//
// sanity-lnet 2 (40)
func TestPeerThatALibraryAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		n := f.discovering(t, a0)
		own, other := parseNID(t, a0), lnet.NIDFromNumber(parseNet(t, "tcp99"), parseNID(t, a0).Number())
		discover(t, n, own)
		if primary, err := n.Admin().AddPeer(t.Context(), []lnet.NID{other, own}, node.AddPeerOptions{Lock: true}); err != nil || primary != other {
			t.Errorf("%s, %v", primary, err)
		}
		time.Sleep(20 * time.Second)
		p, ok := n.Peer(other)
		if nids := nidsOf(p); !ok || p.Primary != other || len(nids) != 2 || !slices.Contains(nids, own) || !slices.Contains(nids, other) {
			t.Errorf("%+v", p)
		}
		if len(n.Peers()) != 1 {
			t.Errorf("peers %+v", n.Peers())
		}
	})
}
