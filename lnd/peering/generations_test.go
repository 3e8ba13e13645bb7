package peering

import "testing"

// What was put last is there, at least as many as the young part holds, and at most twice
// as many; what is taken is there no more.
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
		if _, found := g.Take(k); !found {
			t.Errorf("%d is forgotten", k)
		}
		if _, found := g.Take(k); found {
			t.Errorf("%d is taken twice", k)
		}
	}
	if _, found := g.Take(0); found {
		t.Error("the first one is there")
	}
}
