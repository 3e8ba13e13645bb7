package peering

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// calling makes calls of one Calls and remembers those in progress.
type calling struct {
	t *testing.T
	Calls[int]
	inProgress [callees][]*Call[int]
}

// add adds more calls than there are places.
func (c *calling) add(to Callee) {
	for k := range 2 * MaxCalls {
		c.Add(to, k)
	}
	c.next()
}

func (c *calling) next() {
	for call := c.Next(); call != nil; call = c.Next() {
		c.inProgress[call.to] = append(c.inProgress[call.to], call)
	}
}

// end ends n calls of each of the kinds, one after the other.
func (c *calling) end(n int, kinds ...Callee) {
	for range n {
		for _, to := range kinds {
			c.End(c.inProgress[to][0])
			c.inProgress[to] = c.inProgress[to][1:]
			c.next()
		}
	}
}

// want checks how many calls of each kind are in progress.
func (c *calling) want(when string, want map[Callee]int) {
	c.t.Helper()
	for k := range Callee(callees) {
		if len(c.inProgress[k]) != want[k] {
			c.t.Errorf("%s: %d calls of kind %d are in progress, want %d", when, len(c.inProgress[k]), k, want[k])
		}
	}
}

// Calls to known peers, and to others, leave places for each other, and both go on.
func TestNoKindOfCalleesStarves(t *testing.T) {
	for _, other := range []Callee{UnknownPeers, FailedPeers} {
		for _, first := range []Callee{other, KnownPeers} {
			c, second := calling{t: t}, other+KnownPeers-first
			c.add(first)
			c.want("one kind", map[Callee]int{first: MaxCallsOfKind})
			c.add(second)
			c.want("both kinds", map[Callee]int{first: MaxCallsOfKind, second: MaxCalls - MaxCallsOfKind})
			c.end(MaxCalls/4, first)
			c.want("later", map[Callee]int{first: MaxCalls / 2, second: MaxCalls / 2})
			c.end(MaxCalls/4, first, second)
			c.want("on and on", map[Callee]int{first: MaxCalls / 2, second: MaxCalls / 2})
		}
	}
}

// Unknown peers and those that could not be reached share their places, and leave some to the others.
func TestCalleesThatMayNotAnswer(t *testing.T) {
	c := calling{t: t}
	c.add(FailedPeers)
	c.add(UnknownPeers)
	c.want("both", map[Callee]int{FailedPeers: MaxCallsOfKind})
	c.end(MaxCallsOfKind/2, FailedPeers)
	c.want("later", map[Callee]int{FailedPeers: MaxCallsOfKind / 2, UnknownPeers: MaxCallsOfKind / 2})
	c.add(KnownPeers)
	c.want("a known peer", map[Callee]int{
		FailedPeers: MaxCallsOfKind / 2, UnknownPeers: MaxCallsOfKind / 2, KnownPeers: MaxCalls - MaxCallsOfKind,
	})
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

// A peer is known if it was met at its own address, or if the node vouches for it.
func TestCalleeFor(t *testing.T) {
	one, other := lnet.NIDFromNumber(tcp, 1), lnet.NIDFromNumber(tcp, 2)
	for _, tt := range []struct {
		nid          lnet.NID
		home, failed bool
		want         Callee
	}{
		{one, false, false, KnownPeers},
		{one, false, true, FailedPeers},
		{other, true, false, KnownPeers},
		{other, true, true, FailedPeers},
		{other, false, false, UnknownPeers},
		{other, false, true, UnknownPeers},
	} {
		if got := calleeFor(vouching{nid: one}, tt.nid, tt.home, tt.failed); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}
