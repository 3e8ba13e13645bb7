package ring

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type item struct {
	n     int
	links Links[item]
}

func numbers(r *Ring[item]) (list []int) {
	for e := range r.All() {
		list = append(list, e.n)
	}
	return list
}

// Random operations give the same results on a Ring as on a slice.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Ring[item]
		var want []*item
		last := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				last++
				e := &item{n: last}
				r.Add(e, &e.links)
				want = append(want, e)
			},
			"remove": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip("empty")
				}
				k := rapid.IntRange(0, len(want)-1).Draw(t, "k")
				r.Remove(&want[k].links)
				if want[k].links.In() {
					t.Error("still in")
				}
				want = slices.Delete(want, k, k+1)
			},
			"turn": func(*rapid.T) {
				r.Turn()
				if len(want) > 0 {
					want = append(want[1:], want[0])
				}
			},
			"drain": func(t *rapid.T) { // every other element
				keep := want[:0:0]
				k := 0
				for e := range r.All() {
					if k++; k%2 == 0 {
						r.Remove(&e.links)
					} else {
						keep = append(keep, e)
					}
				}
				want = keep
			},
			"": func(t *rapid.T) {
				var list []int
				for _, e := range want {
					list = append(list, e.n)
					if !e.links.In() {
						t.Errorf("%d is not in", e.n)
					}
				}
				if got := numbers(&r); !slices.Equal(got, list) || r.Len() != len(list) {
					t.Fatalf("%v of %d, want %v", got, r.Len(), list)
				}
				if first := r.First(); first == nil != (len(want) == 0) || first != nil && first != want[0] {
					t.Fatalf("first %v", first)
				}
			},
		})
	})
}

// A loop that ends early leaves the ring unchanged.
func TestAllMayEndEarly(t *testing.T) {
	var r Ring[item]
	for n := range 3 {
		e := &item{n: n}
		r.Add(e, &e.links)
	}
	for e := range r.All() {
		if e.n == 1 {
			break
		}
	}
	if got := numbers(&r); !slices.Equal(got, []int{0, 1, 2}) {
		t.Error(got)
	}
}
