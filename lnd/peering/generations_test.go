package peering

import "testing"

// TestGenerations checks that at least as many of the latest entries are kept as the young part holds,
// and at most twice as many, and that an entry that was taken is removed.
func TestGenerations(t *testing.T) {
	const size = 10
	var g Generations[int, string]
	for k := range 1000 {
		g.Put(k, "x", size)
		if n := g.Len(); n < min(k+1, size) || n > 2*size {
			t.Fatalf("%d entries after %d", n, k+1)
		}
	}
	for k := 1000 - size; k < 1000; k++ {
		if _, found := g.Remove(k); !found {
			t.Errorf("%d is forgotten", k)
		}
		if _, found := g.Remove(k); found {
			t.Errorf("%d is taken twice", k)
		}
	}
	if _, found := g.Remove(0); found {
		t.Error("the first one is there")
	}
}
