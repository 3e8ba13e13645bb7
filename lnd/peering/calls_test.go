package peering

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Calls to one kind of callees leave places for the other kind, and both kinds go on.
func TestNeitherKindOfCalleesStarves(t *testing.T) {
	for _, first := range []Callee{UnknownPeers, KnownPeers} {
		var c Calls[int]
		second := 1 - first
		var inProgress [callees][]*Call[int]
		next := func() {
			for call := c.Next(); call != nil; call = c.Next() {
				inProgress[call.to] = append(inProgress[call.to], call)
			}
		}
		end := func(to Callee) {
			c.End(inProgress[to][0])
			inProgress[to] = inProgress[to][1:]
			next()
		}
		add := func(to Callee) {
			for k := range 2 * MaxCalls {
				c.Add(to, k)
			}
			next()
		}
		check := func(when string, a, b int) {
			t.Helper()
			if got := [2]int{c.underWay[first], c.underWay[second]}; got != [2]int{a, b} {
				t.Errorf("%s: %v calls are under way, want %v", when, got, [2]int{a, b})
			}
		}
		add(first)
		check("one kind", MaxCallsOfKind, 0)
		add(second)
		check("both kinds", MaxCallsOfKind, MaxCalls-MaxCallsOfKind)
		for range MaxCalls / 4 {
			end(first)
		}
		check("later", MaxCalls/2, MaxCalls/2)
		for range MaxCalls / 4 {
			end(first)
			end(second)
		}
		check("on and on", MaxCalls/2, MaxCalls/2)
	}
}

// Calls have their turn in the order in which they came, without those that are canceled.
func TestCallsAreMadeInTurn(t *testing.T) {
	var c Calls[int]
	for k := range 3 {
		c.Add(UnknownPeers, k)
	}
	canceled := c.Add(UnknownPeers, 3)
	c.Add(UnknownPeers, 4)
	c.End(canceled)
	if c.Waiting() != 4 {
		t.Errorf("%d calls wait, want 4", c.Waiting())
	}
	var order []int
	for call := c.Next(); call != nil; call = c.Next() {
		order = append(order, call.Of)
		c.End(call)
	}
	if want := []int{0, 1, 2, 4}; !slices.Equal(order, want) || c.Waiting() != 0 {
		t.Errorf("turns in the order %v, want %v; %d wait", order, want, c.Waiting())
	}
}

// A call ends once, whether it was in progress or waited.
func TestACallEndsOnce(t *testing.T) {
	var c Calls[int]
	waits, runs := c.Add(KnownPeers, 0), c.Add(UnknownPeers, 1)
	c.End(waits)
	if got := c.Next(); got != runs {
		t.Fatalf("next is %+v", got)
	}
	for range 2 {
		c.End(waits)
		c.End(runs)
	}
	if c.underWay != [callees]int{} || c.Waiting() != 0 {
		t.Errorf("%v are under way, %d wait", c.underWay, c.Waiting())
	}
}

// vouching is a node that vouches for one NID.
type vouching struct {
	lnd.Upper
	nid lnet.NID
}

func (v vouching) Vouched(nid lnet.NID) bool { return nid == v.nid }

// A peer is an acquaintance if it was met at its own address, or if the node vouches for it.
func TestCalleeFor(t *testing.T) {
	one, other := lnet.NIDFromNumber(tcp, 1), lnet.NIDFromNumber(tcp, 2)
	for _, tt := range []struct {
		nid  lnet.NID
		home bool
		want Callee
	}{
		{one, false, KnownPeers},
		{other, true, KnownPeers},
		{other, false, UnknownPeers},
	} {
		if got := calleeFor(vouching{nid: one}, tt.nid, tt.home); got != tt.want {
			t.Errorf("%s, met at home %v: %d, want %d", tt.nid, tt.home, got, tt.want)
		}
	}
}
