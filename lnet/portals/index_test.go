package portals

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// check fails the test if the structure of x is inconsistent. It returns the number of
// entries.
func (x *index) check(t *testing.T) int {
	t.Helper()
	entries := 0
	for _, g := range []*group{&x.ignoring, &x.exact} {
		for s := g.shapes; s != nil; s = s.next {
			keys := 0
			for _, table := range [][]*md{s.oldBuckets, s.buckets} {
				for i, first := range table {
					for ; first != nil; first = first.indexEntry.chain {
						if int(first.indexEntry.hash&uint64(len(table)-1)) != i || *s.slot(first.indexEntry.hash) != table[i] {
							t.Fatal("a key in the wrong bucket")
						}
						keys++
						entries += ring(t, s, first)
					}
				}
			}
			if keys != s.keys || keys == 0 {
				t.Fatalf("%d keys, %d counted", keys, s.keys)
			}
		}
	}
	return entries
}

// ring checks the entries of one key and returns their number.
func ring(t *testing.T, s *shape, first *md) int {
	t.Helper()
	n := 0
	for d := first; ; d = d.indexEntry.next {
		n++
		if d.indexEntry.shape != s || d.indexEntry.key != first.indexEntry.key || d.indexEntry.next.indexEntry.previous != d {
			t.Fatal("an entry in the wrong ring")
		}
		if d != first && (d.indexEntry.chain != nil || d.indexEntry.order <= d.indexEntry.previous.indexEntry.order) {
			t.Fatal("a ring out of order")
		}
		if d.indexEntry.next == first {
			return n
		}
	}
}

// Many keys, some with several entries, are added and removed. The tables grow and shrink,
// and every search finds the first entry of its key.
func TestIndexResizes(t *testing.T) {
	table := New(Config{Cookie: 1})
	x := &table.portals[1].index
	random := rand.New(rand.NewPCG(1, 2))
	entries := map[uint64][]lnet.Handle{} // by match bits, in order
	var bits []uint64                     // each with an entry, without duplicates
	attach := func() {
		b := uint64(random.IntN(8000)) << 20
		position := After
		if random.IntN(2) == 0 {
			position = Before
		}
		h, _, _, err := table.Attach(Entry{Portal: 1, MatchBits: b, Position: position}, MD{Threshold: Unlimited, Options: OpPut})
		if err != nil {
			t.Fatal(err)
		}
		bits = append(bits, b)
		if position == Before {
			entries[b] = slices.Insert(entries[b], 0, h)
		} else {
			entries[b] = append(entries[b], h)
		}
	}
	unlink := func() {
		i := random.IntN(len(bits))
		b := bits[i]
		bits[i] = bits[len(bits)-1]
		bits = bits[:len(bits)-1]
		k := random.IntN(len(entries[b]))
		if err := table.Unlink(entries[b][k]); err != nil {
			t.Fatal(err)
		}
		entries[b] = slices.Delete(entries[b], k, k+1)
	}
	search := func() {
		b := uint64(random.IntN(8000)) << 20
		o := &Operation{}
		o.Event.Type, o.Event.Portal, o.Event.MatchBits = EventPut, 1, b
		v := table.Match(o)
		if len(entries[b]) == 0 {
			if v != Drop {
				t.Fatalf("bits %#x: verdict %d of nobody", b, v)
			}
			return
		}
		if v != Accept || o.Event.MD != entries[b][0] {
			t.Fatalf("bits %#x: verdict %d of %v, want %v", b, v, o.Event.MD, entries[b][0])
		}
		table.Finish(o, nil)
	}
	for _, size := range []int{20_000, 100, 3000, 0, 50, 0} {
		for step := 0; len(bits) != size; step++ {
			up := len(bits) < size
			if random.IntN(4) == 0 { // occasionally the opposite operation
				up = !up && len(bits) < 25_000 || len(bits) == 0
			}
			if up {
				attach()
			} else {
				unlink()
			}
			search()
			if step%997 == 0 || len(bits) == size {
				if n := x.check(t); n != len(bits) {
					t.Fatalf("%d entries, want %d", n, len(bits))
				}
			}
		}
		if s := x.exact.shapes; size == 0 && s != nil {
			t.Fatal("a shape without entries")
		} else if size == 100 && len(s.buckets) > 2*bucketsKept {
			t.Errorf("%d buckets for %d entries", len(s.buckets), size)
		}
	}
}
