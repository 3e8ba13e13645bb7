package inproc

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

func tryStart(t testing.TB, d *domain, a transport.Address) (*queuedTM, error) {
	c, err := d.StartTM(t.Context(), a, 1)
	if err != nil {
		return nil, err
	}
	return c.(*queuedTM), nil
}

// cannotStart checks that a start fails with an errno.
func cannotStart(t testing.TB, d *domain, a transport.Address, want syscall.Errno) {
	t.Helper()
	switch c, err := tryStart(t, d, a); {
	case err == nil:
		t.Errorf("%v is started, want %v", c.Address(), want)
	case !errors.Is(err, want):
		t.Errorf("%v: %v, want %v", a, err, want)
	}
}

func stop(t testing.TB, of *queuedTM) {
	t.Helper()
	if err := of.Stop(); err != nil {
		t.Error(err)
	}
}

// A TM can be started only at a NID and the PID of its node.
//
// transport-tests E (44)
// transport 6.1 (5), 6.2 (1)-(2)
// r.lnet.preconfigured
func TestAddressesOfOthers(t *testing.T) {
	d := openOn(t, New(simulated(t, simConfig, static(), "10.2.0.1")[0]))
	nids, err := d.NIDs(t.Context())
	if err != nil || len(nids) != 2 || !nids[0].IsLoopback() || nids[1].String() != "10.2.0.1@tcp" {
		t.Errorf("%v, %v", nids, err)
	}
	other := at(nids[1], 34, 1)
	other.PID = 42
	cannotStart(t, d, other, syscall.ENOENT)
	cannotStart(t, d, at(there.NID, 34, 1), syscall.ENOENT)
	for _, portal := range []uint32{0, 64, 99} {
		cannotStart(t, d, at(nids[1], portal, 1), syscall.EINVAL)
	}
	for _, id := range []uint16{0, 4097} {
		cannotStart(t, d, at(nids[1], 34, id), syscall.EINVAL)
	}
	for _, nid := range nids {
		stop(t, start(t, d, at(nid, 34, 1)))
	}
	if after, err := d.NIDs(t.Context()); err != nil || !slices.Equal(after, nids) {
		t.Errorf("NIDs %v behind all that, %v", after, err)
	}
}

// TMIDs are unique on a portal across all NIDs and Cores of a node. They are assigned from the highest down.
// A released TMID can be requested explicitly immediately.
//
// transport-tests N (108)
// transport 6.3 (1)-(2), 6.3 (4)
// r.M0.net.xprt.lnet.dynamic-address-assignment
// r.M0.net.xprt.lnet.address-assignment
func TestNumbers(t *testing.T) {
	n := simulated(t, simConfig, static(), "10.2.0.1")[0]
	one, other := openOn(t, New(n)), openOn(t, New(n))
	dynamic := func(d *domain, nid lnet.NID, want uint16) *queuedTM {
		t.Helper()
		c := start(t, d, at(nid, 34, transport.Dynamic))
		if got := c.Address(); got != at(nid, 34, want) {
			t.Errorf("started at %v, want %d", got, want)
		}
		return c
	}
	dynamic(one, lnet.LoopbackNID, 4095)
	middle := dynamic(other, nidOf(n), 4094)
	dynamic(one, nidOf(n), 4093)
	for _, d := range []*domain{one, other} {
		for id := uint16(4093); id <= 4095; id++ {
			cannotStart(t, d, at(lnet.LoopbackNID, 34, id), syscall.EADDRINUSE)
			cannotStart(t, d, at(nidOf(n), 34, id), syscall.EADDRINUSE)
		}
	}
	start(t, one, at(lnet.LoopbackNID, 35, 4095)) // on another portal
	stop(t, middle)
	dynamic(one, lnet.LoopbackNID, 4092)
	start(t, other, at(nidOf(n), 34, 4094))
	dynamic(one, nidOf(n), 4091)
}

// TMID 1 is the last one assigned.
//
// transport 6.3 (3)
func TestLastNumber(t *testing.T) {
	d := openOn(t, New(newNode(t)))
	var last *queuedTM
	for id := uint16(4095); id > 0; id-- {
		if last = start(t, d, at(lnet.LoopbackNID, 34, transport.Dynamic)); last.Address().TMID != id {
			t.Fatalf("%d, want %d", last.Address().TMID, id)
		}
	}
	cannotStart(t, d, at(lnet.LoopbackNID, 34, transport.Dynamic), syscall.EADDRNOTAVAIL)
	stop(t, last)
	start(t, d, at(lnet.LoopbackNID, 34, transport.Dynamic))
}

// A TM does not start if another use of its portal could receive its messages: entries, an inbox, unique
// entries, a lazy portal. While a TM is started, such uses are refused.
//
// transport 6.3 (1)
func TestOthersOnThePortal(t *testing.T) {
	taken := func(bits, ignore uint64) func(n *node.Node) (func(), error) {
		return func(n *node.Node) (func(), error) {
			h, err := n.Attach(portals.Entry{Portal: 34, MatchBits: bits, IgnoreBits: ignore},
				portals.MD{Threshold: portals.Unlimited, Options: portals.OpPut})
			return func() { _ = n.Unlink(h) }, err
		}
	}
	for name, use := range map[string]func(n *node.Node) (func(), error){
		"entry for the receive queue": taken(12<<52, 0),
		"entry for a passive buffer":  taken(12<<52|77, 0),
		"entry for all":               taken(0, ^uint64(0)),
		"inbox": func(n *node.Node) (func(), error) {
			b, err := n.OpenInbox(node.InboxConfig{Portal: 34, Size: 8, Buffers: 1})
			if err != nil {
				return nil, err
			}
			return b.Close, nil
		},
		"lazy portal": func(n *node.Node) (func(), error) {
			return func() { _ = n.ClearLazy(34) }, n.SetLazy(34)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			d := openOn(t, New(n))
			end, err := use(n)
			if err != nil {
				t.Fatal(err)
			}
			cannotStart(t, d, at(lnet.LoopbackNID, 34, 12), syscall.EADDRINUSE)
			start(t, d, at(lnet.LoopbackNID, 35, 12))
			end()
			c := start(t, d, at(lnet.LoopbackNID, 34, 12))
			if _, err := use(n); err == nil {
				t.Error("it is let in later")
			}
			stop(t, c)
			if end, err = use(n); err != nil {
				t.Errorf("the TM is stopped: %v", err)
			}
			end()
		})
	}
	t.Run("unique entry", func(t *testing.T) {
		n := newNode(t)
		d := openOn(t, New(n))
		unique := func(portal uint32) error {
			_, err := n.Attach(portals.Entry{Portal: portal, Match: loopback}, portals.MD{Threshold: 1, Options: portals.OpPut})
			return err
		}
		if err := unique(34); err != nil {
			t.Fatal(err)
		}
		cannotStart(t, d, at(lnet.LoopbackNID, 34, 12), syscall.EADDRINUSE)
		cannotStart(t, d, at(lnet.LoopbackNID, 34, transport.Dynamic), syscall.EADDRINUSE)
		start(t, d, at(lnet.LoopbackNID, 35, 12))
		if err := unique(35); err == nil {
			t.Error("it is let in later")
		}
	})
	t.Run("entry for a number", func(t *testing.T) {
		n := newNode(t)
		d := openOn(t, New(n))
		if _, err := taken(4095<<52|1, 0)(n); err != nil {
			t.Fatal(err)
		}
		if c := start(t, d, at(lnet.LoopbackNID, 34, transport.Dynamic)); c.Address().TMID != 4094 {
			t.Errorf("%v, want the next number", c.Address())
		}
	})
	t.Run("entries for all numbers", func(t *testing.T) {
		n := newNode(t)
		if _, err := taken(0, ^uint64(0))(n); err != nil {
			t.Fatal(err)
		}
		cannotStart(t, openOn(t, New(n)), at(lnet.LoopbackNID, 34, transport.Dynamic), syscall.EADDRNOTAVAIL)
	})
}
