package inproc

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// Two TMs of one Core at a NID of a network exchange messages and bulk: nothing leaves the node, and each
// is seen at its own address. A message to a NID of the node other than the TM's is sent through LNet
// (decisions 59).
//
// transport 6.7 (2)
func TestLocalMessagesNeedNoNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simulated(t, simConfig, static(), "10.3.0.1")[0]
		core := New(n)
		one, two := start(t, openOn(t, core), at(nidOf(n), 34, 1)), start(t, openOn(t, core), at(nidOf(n), 34, 2))
		if got := exchange(t, one, two, two.Address()); got != one.Address() {
			t.Errorf("%v is seen as %v", one.Address(), got)
		}
		if got := exchange(t, two, one, one.Address()); got != two.Address() {
			t.Errorf("%v is seen as %v", two.Address(), got)
		}
		bits := transport.MakeMatchBits(1, 1)
		want, got := bytes.Repeat([]byte("bulk"), 2048), make([]byte, 8192)
		offer, fetch := op(transport.PassiveBulkSend, register(t, one.domain, want)), op(transport.ActiveBulkRecv, register(t, two.domain, got))
		offer.MatchBits, offer.Length = bits, len(want)
		fetch.MatchBits, fetch.Length, fetch.Peer = bits, len(want), one.Address()
		submit(t, one, offer)
		submit(t, two, fetch)
		for _, tm := range []*queuedTM{one, two} {
			if c := next(t, tm); c.Err != nil {
				t.Error(c.Err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Error("the bulk is not what was offered")
		}
		if sent := n.NIs()[1].Traffic.Sent; sent != (node.MessageCounts{}) {
			t.Errorf("the network has carried %+v", sent)
		}
		if got := exchange(t, two, one, at(lnet.LoopbackNID, 34, 1)); got != two.Address() {
			t.Errorf("%v is seen as %v", two.Address(), got)
		}
	})
}

// A stopped TM is removed from the directory of local TMs, because another TM may get its number (decisions
// 59).
func TestDirectoryRemoves(t *testing.T) {
	core := New(newNode(t))
	d := openOn(t, core)
	tm := start(t, d, at(lnet.LoopbackNID, 34, 7))
	if core.directory.find(34, 7) != tm.tm {
		t.Error("a TM is not in the book")
	}
	stop(t, tm)
	for _, a := range []transport.Address{tm.Address(), at(lnet.LoopbackNID, 35, 7), {Portal: lnet.Portals}, {TMID: transport.MaxTMID + 1}} {
		if core.directory.find(a.Portal, a.TMID) != nil {
			t.Errorf("%v is in the book", a)
		}
	}
}
