package protocol

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Handles match a map. A number belongs to one thing only, also after the thing is removed.
func TestHandlesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			h       Handles[int]
			serial  int
			removed []uint64
			used    []uint64 // the keys of things, in the order of Add
		)
		things := map[uint64]int{}
		remove := func(n uint64) {
			if v, ok := h.Remove(n); !ok || v != things[n] {
				t.Fatalf("removed %d, %t of %#x, want %d", v, ok, n, things[n])
			}
			delete(things, n)
			used = slices.DeleteFunc(used, func(u uint64) bool { return u == n })
			removed = append(removed, n)
		}
		absent := func(n uint64) {
			if v, ok := h.Find(n); ok || v != 0 {
				t.Fatalf("%#x found: %d", n, v)
			}
			if v, ok := h.Remove(n); ok || v != 0 {
				t.Fatalf("%#x removed: %d", n, v)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				serial++
				n := h.Add(serial)
				if _, exists := things[n]; exists || slices.Contains(removed, n) {
					t.Fatalf("%#x twice", n)
				}
				things[n] = serial
				used = append(used, n)
			},
			"remove": func(t *rapid.T) {
				if len(used) == 0 {
					t.Skip("none")
				}
				remove(rapid.SampledFrom(used).Draw(t, "number"))
			},
			"unknown": func(t *rapid.T) {
				n := rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(8), rapid.Just(uint64(len(used))|1<<32)).Draw(t, "number")
				if _, exists := things[n]; !exists {
					absent(n)
				}
			},
			"all": func(t *rapid.T) {
				seen := map[uint64]bool{}
				before := h.Len()
				h.All(func(n uint64, v int) {
					if seen[n] || things[n] != v {
						t.Fatalf("%#x with %d, want %d once", n, v, things[n])
					}
					seen[n] = true
					if rapid.Bool().Draw(t, "remove") {
						remove(n)
					}
				})
				if len(seen) != before {
					t.Fatalf("%d things, want %d", len(seen), before)
				}
			},
			"": func(t *rapid.T) {
				if h.Len() != len(things) {
					t.Fatalf("%d things, want %d", h.Len(), len(things))
				}
				for n, want := range things {
					if v, ok := h.Find(n); !ok || v != want {
						t.Fatalf("%#x: %d, %t, want %d", n, v, ok, want)
					}
				}
				for _, n := range removed {
					absent(n)
				}
			},
		})
	})
}

// Remove forgets the thing, so that it can be freed.
func TestHandlesForget(t *testing.T) {
	var h Handles[*int]
	n := h.Add(new(int))
	h.Remove(n)
	if v := h.slots[0].value; v != nil {
		t.Errorf("%v is still held", v)
	}
}

// Numbers are given without allocation once there have been as many things.
func TestHandlesDoNotAllocate(t *testing.T) {
	var h Handles[int]
	h.Remove(h.Add(1))
	if allocs := testing.AllocsPerRun(100, func() { h.Remove(h.Add(1)) }); allocs != 0 || len(h.slots) != 1 {
		t.Errorf("%v allocations, %d slots", allocs, len(h.slots))
	}
}
