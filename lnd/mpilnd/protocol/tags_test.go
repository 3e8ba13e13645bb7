package protocol_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

// The two spaces are disjoint, and tags are unique among those in use. Allocate fails only if all are in use. A
// released tag is not reused before all others.
//
// PT-1
func TestTags(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.IntRange(3, 40).Draw(t, "largest")
		spaces := [2]protocol.Tags{protocol.PutTags(largest), protocol.GetTags(largest)}
		used := make(map[uint32]int)
		sizes := [2]int{largest / 2, (largest - 1) / 2}
		inUse := [2]int{}
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				k := rapid.IntRange(0, 1).Draw(t, "space")
				tag, ok := spaces[k].Allocate()
				switch _, twice := used[tag]; {
				case ok != (inUse[k] < sizes[k]):
					t.Fatalf("allocated %t while %d of %d were in use", ok, inUse[k], sizes[k])
				case !ok:
					return
				case twice, tag < 2, int(tag) > largest, int(tag%2) != k:
					t.Fatalf("tag %d of space %d", tag, k)
				}
				used[tag] = k
				inUse[k]++
			},
			"release": func(t *rapid.T) {
				for tag, k := range used {
					spaces[k].Release(tag)
					delete(used, tag)
					inUse[k]--
					return
				}
			},
			"": func(t *rapid.T) {
				for k := range spaces {
					if spaces[k].InUse() != inUse[k] {
						t.Fatalf("%d in use, want %d", spaces[k].InUse(), inUse[k])
					}
				}
			},
		})
	})
}

// A tag that was released is reused as late as possible.
//
// PT-1
func TestTagsAreReusedLate(t *testing.T) {
	tags := protocol.PutTags(9)
	var got []uint32
	for range 5 {
		tag, _ := tags.Allocate()
		got = append(got, tag)
		tags.Release(tag)
	}
	if want := [5]uint32{2, 4, 6, 8, 2}; [5]uint32(got) != want {
		t.Errorf("%d, want %d", got, want)
	}
	large := protocol.GetTags(1<<31 - 1)
	if tag, ok := large.Allocate(); tag != 3 || !ok {
		t.Errorf("%d, %t", tag, ok)
	}
}
