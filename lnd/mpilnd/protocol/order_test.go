package protocol_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

// Messages that are reported in any order are returned in the order in which they were sent. Those of an earlier link
// than the latest one are stale. Each is returned once.
func TestOrder(t *testing.T) {
	type sent struct{ link, sequence uint32 }
	rapid.Check(t, func(t *rapid.T) {
		var all []sent
		for link := range uint32(rapid.IntRange(1, 4).Draw(t, "links")) {
			for sequence := range uint32(rapid.IntRange(1, 6).Draw(t, "messages")) {
				all = append(all, sent{1 + link, sequence})
			}
		}
		reported := slices.Clone(all)
		for k := range reported { // near each other, as MPI reports them
			swap := min(k+rapid.IntRange(0, 3).Draw(t, "swap"), len(reported)-1)
			reported[k], reported[swap] = reported[swap], reported[k]
		}
		var o protocol.Order[sent]
		returned, last := map[sent]bool{}, sent{}
		for _, m := range reported {
			o.Add(m.link, m.sequence, m)
			for {
				m, stale, ok := o.Next()
				if !ok {
					break
				}
				inOrder := m == sent{last.link, last.sequence + 1} || m.link > last.link && m.sequence == 0
				switch {
				case returned[m]:
					t.Fatalf("%v is returned twice", m)
				case stale && m.link >= last.link:
					t.Fatalf("%v is stale after %v", m, last)
				case !stale && !inOrder:
					t.Fatalf("%v after %v", m, last)
				case !stale:
					last = m
				}
				returned[m] = true
			}
		}
		if len(returned) != len(all) || o.Waiting() > 0 {
			t.Fatalf("%d of %d messages are returned, %d wait", len(returned), len(all), o.Waiting())
		}
	})
}

// A message that comes again is stale, and no message has the number Unordered.
func TestOrderAgain(t *testing.T) {
	var o protocol.Order[int]
	for k, want := range []bool{false, true, true} {
		o.Add(5, 0, k)
		if v, stale, ok := o.Next(); v != k || stale != want || !ok {
			t.Errorf("%d: %d, %t, %t", k, v, stale, ok)
		}
	}
	if a, b := protocol.Following(protocol.Unordered-1), protocol.Following(7); a != 0 || b != 8 {
		t.Errorf("%d, %d", a, b)
	}
}
