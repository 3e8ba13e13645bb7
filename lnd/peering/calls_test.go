package peering

import (
	"slices"
	"testing"
)

// Calls to one kind of callees leave places for the other kind, and both kinds go on.
func TestNeitherKindOfCalleesStarves(t *testing.T) {
	for _, first := range []Callee{Strangers, Acquaintances} {
		var c Calls[int]
		second := 1 - first
		next := func() {
			for ok := true; ok; {
				_, _, ok = c.Next()
			}
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
			c.Done(first)
			next()
		}
		check("later", MaxCalls/2, MaxCalls/2)
		for range MaxCalls / 4 {
			c.Done(first)
			next()
			c.Done(second)
			next()
		}
		check("on and on", MaxCalls/2, MaxCalls/2)
	}
}

// Calls have their turn in the order in which they came, without those that are removed.
func TestCallsAreMadeInTurn(t *testing.T) {
	var c Calls[int]
	for k := range 3 {
		c.Add(Strangers, k)
	}
	gone := c.Add(Strangers, 3)
	c.Add(Strangers, 4)
	c.Remove(Strangers, gone)
	if c.Waiting() != 4 {
		t.Errorf("%d calls wait, want 4", c.Waiting())
	}
	var order []int
	for call, to, ok := c.Next(); ok; call, to, ok = c.Next() {
		order = append(order, call)
		c.Done(to)
	}
	if want := []int{0, 1, 2, 4}; !slices.Equal(order, want) || c.Waiting() != 0 {
		t.Errorf("turns in the order %v, want %v; %d wait", order, want, c.Waiting())
	}
}
