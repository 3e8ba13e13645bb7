package inproc

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// railed returns two nodes that are on two nets and have discovered each other.
func railed(t *testing.T) []*node.Node {
	t.Helper()
	fabric := simlnd.New(simConfig)
	t.Cleanup(fabric.Close)
	var nodes []*node.Node
	for _, k := range []string{"1", "2"} {
		d, err := simlnd.NewDriver(fabric.Host(k, "10.6.0."+k, "10.7.0."+k), socklnd.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, startNode(t, node.Config{}, d, "10.6.0."+k+"@tcp", "10.7.0."+k+"@tcp1"))
	}
	for k, n := range nodes {
		p, err := n.Discover(t.Context(), nodes[1-k].NIs()[2].NID)
		if err != nil || p.Primary != nodes[1-k].NID() {
			t.Fatalf("primary %v, %v", p.Primary, err)
		}
	}
	return nodes
}

// exchange sends a message, and returns its sender.
func exchange(t *testing.T, from, to *queuedTM, target transport.Address) transport.Address {
	t.Helper()
	in, out := op(transport.MsgRecv, register(t, to.domain, make([]byte, 8))), op(transport.MsgSend, register(t, from.domain, make([]byte, 8)))
	in.MinReceiveSize, in.MaxMessages, out.Peer = 8, 1, target
	submit(t, to, in)
	submit(t, from, out)
	if c := next(t, from); c.Err != nil {
		t.Fatal(c.Err)
	}
	c := next(t, to)
	if c.Err != nil {
		t.Fatal(c.Err)
	}
	return c.Sender
}

// A TM sends from its own NID, and is seen at its own address, regardless of the primary NID of its node.
// Messages to that address reach it.
//
// transport-tests F (56)
// transport 6.5 (3), 6.7 (2)
func TestSenderOfManyRails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := railed(t)
		for rail := 1; rail <= 2; rail++ {
			here := start(t, openOn(t, New(nodes[0])), at(nodes[0].NIs()[rail].NID, 34, uint16(rail)))
			there := start(t, openOn(t, New(nodes[1])), at(nodes[1].NIs()[rail].NID, 34, uint16(rail)))
			if got := exchange(t, here, there, there.Address()); got != here.Address() {
				t.Errorf("%v is seen as %v", here.Address(), got)
			}
			if got := exchange(t, there, here, here.Address()); got != there.Address() {
				t.Errorf("%v is seen as %v", there.Address(), got)
			}
		}
	})
}

// A TM whose NI is removed cannot send any more. It still receives messages to another NID of its node, and
// its address can be released.
//
// transport 3.16, 6.3 (1)
func TestNIOfTMIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := railed(t)
		gone := nodes[0].NIs()[2].NID
		here := start(t, openOn(t, New(nodes[0])), at(gone, 34, 1))
		if err := nodes[0].RemoveNI(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		out := op(transport.MsgSend, register(t, here.domain, make([]byte, 8)))
		out.Peer = at(nodes[1].NID(), 34, 1)
		submit(t, here, out)
		if c := next(t, here); !c.Final || !errors.Is(c.Err, syscall.EINVAL) {
			t.Errorf("%+v", c)
		}
		there := start(t, openOn(t, New(nodes[1])), at(nodes[1].NID(), 34, 1))
		if got := exchange(t, there, here, at(nodes[0].NID(), 34, 1)); got != there.Address() {
			t.Errorf("a message from %v, not %v", got, there.Address())
		}
		cannotStart(t, here.domain, at(gone, 34, 2), syscall.ENOENT)
		stop(t, here)
		start(t, here.domain, at(nodes[0].NID(), 34, 1))
	})
}
