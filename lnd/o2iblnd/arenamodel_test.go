//go:build !race

// An arena has no goroutines, so the race detector has nothing to find here.

package o2iblnd

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// TestArena checks that blocks which are lent at the same time never overlap, and that memory that
// was given back can be lent in the largest blocks again.
func TestArena(t *testing.T) {
	dev := testDevice(t)
	rapid.Check(t, func(t *rapid.T) {
		a := newArena(dev, verbs.AccessLocalWrite, false)
		type lent struct {
			block
			mark byte
		}
		var all []lent
		for k := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(all) > 0 && rapid.Bool().Draw(t, "back") {
				n := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				b := all[n]
				for _, v := range [...]byte{b.bytes()[0], b.bytes()[b.size()-1]} {
					if v != b.mark {
						t.Fatalf("a block of %d bytes was lent twice", b.size())
					}
				}
				a.release(b.block)
				all = append(all[:n], all[n+1:]...)
				continue
			}
			n := rapid.IntRange(0, 1<<20).Draw(t, "bytes")
			b, err := a.alloc(n)
			if err != nil {
				t.Fatal(err)
			}
			if b.size() < n || b.size() > 2*max(n, pageSize) {
				t.Fatalf("%d bytes for %d", b.size(), n)
			}
			bytes := b.bytes()
			bytes[0], bytes[len(bytes)-1] = byte(k+1), byte(k+1)
			all = append(all, lent{b, byte(k + 1)})
		}
		for _, b := range all {
			a.release(b.block)
		}
		slabs, used := a.size()
		if used != 0 {
			t.Fatalf("%d bytes are lent", used)
		}
		for range slabs >> 20 {
			if _, err := a.alloc(1 << 20); err != nil {
				t.Fatal(err)
			}
		}
		if after, _ := a.size(); after != slabs {
			t.Fatalf("%d bytes registered, %d would do", after, slabs)
		}
		if err := a.close(); (err != nil) != (slabs > 0) {
			t.Fatalf("closed with %d bytes in use: %v", slabs, err)
		}
	})
}
