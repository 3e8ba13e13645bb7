package network

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// pairOf returns a network with two hosts, "a" at 10.0.0.1 and "b" at 10.0.0.2 and fd00::2.
func pairOf() (n *Network[int], a, b *Port) {
	n = New(7, 100, new(sync.Mutex))
	port := func(name string, addrs ...string) *Port {
		h, _ := n.Host(name)
		p := n.AddPort(h, name)
		for _, a := range addrs {
			n.Assign(p, a)
		}
		return p
	}
	return n, port("a", "10.0.0.1"), port("b", "10.0.0.2/16", "fd00::2")
}

func way(from, to string) Way { return Way{netip.MustParseAddr(from), netip.MustParseAddr(to)} }

func TestAddresses(t *testing.T) {
	n, a, b := pairOf()
	if h, created := n.Host("a"); created || h != a.Host || h.Name != "a" {
		t.Errorf("host a again: %+v, created %t", h, created)
	}
	if got := n.Hosts(); !slices.Equal(got, []*Host{a.Host, b.Host}) {
		t.Errorf("hosts %v", got)
	}
	var prefixes []string
	for _, p := range append(a.Prefixes(), b.Prefixes()...) {
		prefixes = append(prefixes, p.String())
	}
	if d := cmp.Diff([]string{"10.0.0.1/24", "10.0.0.2/16", "fd00::2/64"}, prefixes); d != "" {
		t.Error(d)
	}
	for _, x := range b.Host.Addresses() {
		if n.Port(x) != b {
			t.Errorf("%s does not belong to b", x)
		}
	}
	assign := func(p *Port) (failed any) {
		defer func() { failed = recover() }()
		n.Assign(p, "10.0.0.1")
		return nil
	}
	if failed := assign(b); failed != "network: b: address 10.0.0.1 belongs to a" {
		t.Errorf("a second owner: %v", failed)
	}
	a.Removed = true
	if failed := assign(b); failed != nil || n.Port(netip.MustParseAddr("10.0.0.1")) != b {
		t.Errorf("the address of a removed port: %v", failed)
	}
	n.Unassign(a) // does not take it from b
	n.Unassign(b)
	if len(b.Addresses()) != 0 || n.Port(netip.MustParseAddr("fd00::2")) != nil {
		t.Error("addresses are left")
	}
	if n.Port(netip.MustParseAddr("10.0.0.1")) != nil {
		t.Error("an address without a port has one")
	}
}

func TestLinks(t *testing.T) {
	n, a, b := pairOf()
	there := Ways(a.Addresses(), b.Addresses(), Forward)
	if d := cmp.Diff([]Way{way("10.0.0.1", "10.0.0.2"), way("10.0.0.1", "fd00::2")}, there, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
	n.SetLink(there, 5)
	w := there[0]
	if n.Link(w) != 5 || n.Link(w.Back()) != 100 {
		t.Errorf("links %d there, %d back", n.Link(w), n.Link(w.Back()))
	}
	n.SetLink(Ways(a.Addresses(), b.Addresses(), Backward), 6)
	if n.Link(w) != 5 || n.Link(w.Back()) != 6 {
		t.Errorf("links %d there, %d back", n.Link(w), n.Link(w.Back()))
	}
}

// A way is open if both ports work and it is not partitioned. Partitions are counted.
func TestOpen(t *testing.T) {
	n, a, b := pairOf()
	w := way("10.0.0.1", "10.0.0.2")
	check := func(what string, there, back bool) {
		t.Helper()
		if n.Open(w) != there || n.Open(w.Back()) != back {
			t.Errorf("%s: open %t there, %t back", what, n.Open(w), n.Open(w.Back()))
		}
	}
	check("at first", true, true)
	forward, both := Ways(a.Addresses(), b.Addresses(), Forward), Ways(a.Addresses(), b.Addresses(), Both)
	n.Partition(forward)
	check("partitioned in one direction", false, true)
	n.Partition(both)
	check("partitioned twice", false, false)
	n.Heal(forward)
	check("healed once", false, false)
	n.Heal(both)
	n.Heal(both)
	check("healed", true, true)
	if !n.SetDown(a, true) || n.SetDown(a, true) {
		t.Error("SetDown does not report changes")
	}
	check("down", false, false)
	n.SetDown(a, false)
	b.Host.Off = true
	check("off", false, false)
	b.Host.Off, b.Removed = false, true
	check("removed", false, false)
	if n.Open(way("10.0.0.1", "10.0.0.9")) {
		t.Error("open to an address of no port")
	}
	if got, want := n.Count(), (Faults{Partitions: 2, Down: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Requests that a Hold delays continue in order, unless they are cancelled. Others are not delayed.
func TestHold(t *testing.T) {
	n, a, b := pairOf()
	w := way("10.0.0.1", "10.0.0.2")
	var order []int
	delay := func(k int) func() { return n.Delay(w, func() { order = append(order, k) }) }
	if delay(0) != nil {
		t.Error("delayed without a hold")
	}
	h := n.Hold(Ways(a.Addresses(), b.Addresses(), Forward))
	if n.Delay(w.Back(), nil) != nil {
		t.Error("the opposite way is delayed")
	}
	delay(1)
	cancel := delay(2)
	delay(3)
	cancel()
	cancel()
	if h.Waiting() != 2 || order != nil {
		t.Errorf("%d wait, %v have continued", h.Waiting(), order)
	}
	h.Release()
	if h.Waiting() != 0 || !slices.Equal(order, []int{1, 3}) || delay(4) != nil || n.Count().Held != 3 {
		t.Errorf("%d wait, %v have continued, %d were held", h.Waiting(), order, n.Count().Held)
	}
}

// Random numbers depend on the seed, the way and the number of the attempt. The wall clock runs even where
// time stands still.
func TestSeedsAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, _ := pairOf()
		w := way("10.0.0.1", "10.0.0.2")
		if n.Attempt(w) != 1 || n.Attempt(w) != 2 || n.Attempts(w) != 2 || n.Attempts(w.Back()) != 0 {
			t.Error("attempts are counted wrong")
		}
		other := New(8, 0, new(sync.Mutex))
		first := n.Random(w, 1).Uint64()
		for name, x := range map[string]uint64{
			"way": n.Random(w.Back(), 1).Uint64(), "number": n.Random(w, 2).Uint64(), "seed": other.Random(w, 1).Uint64(),
		} {
			if x == first {
				t.Errorf("another %s makes no difference", name)
			}
		}
		if n.Random(w, 1).Uint64() != first || n.Seed(a.Host) == 0 || n.Seed(a.Host) == other.Seed(a.Host) {
			t.Error("seeds are not what decides")
		}
		if x, y := n.Wall(), n.Wall(); !y.After(x) || y.UnixMicro() == x.UnixMicro() {
			t.Errorf("%v and then %v", x, y)
		}
		if n.Now() != 0 {
			t.Errorf("%v after the beginning", n.Now())
		}
	})
}
